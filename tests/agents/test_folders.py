"""Names lead to what is in the served folders, and nowhere else."""

import os

import pytest

from stepwhy.apps.agents.folders import Folders, folders_of
from stepwhy.base.errors import NotAFileError, NotFoundError, NotServedError, SeveralRunsError
from stepwhy.base.redaction import Redactor


@pytest.fixture
def root(tmp_path):
    """A served folder with two traces, a run directory, and links; a secret is beside it."""
    folder = tmp_path / "served"
    (folder / "run").mkdir(parents=True)
    (folder / "run/run.json").write_text("{}")
    for name in ("a.json", "b.json"):
        (folder / name).write_text("{}")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "private").mkdir()
    (tmp_path / "private/trace.json").write_text("{}")
    (folder / "inner").symlink_to(folder / "a.json")
    (folder / "outer").symlink_to(tmp_path / "secret.json")
    (folder / "away").symlink_to(tmp_path / "private")
    (folder / "circle").symlink_to(folder / "circle")
    return folder


def served(root, **options):
    return folders_of([str(root)], **options)


@pytest.mark.parametrize(
    ("name", "found"),
    [("a.json", "a.json"), ("./run", "run"), ("inner", "a.json"), ("served/b.json", "b.json")],
)
def test_a_name_is_relative_to_the_folder(root, name, found):
    assert served(root).all_of(name) == [str(root / found)]


def test_an_absolute_name_and_one_through_a_link_above_the_folder(root):
    above = root.parent.parent / f"link-{root.parent.name}"
    above.symlink_to(root.parent)
    for name in (root / "a.json", above / "served/a.json"):
        assert served(root).all_of(str(name)) == [str(root / "a.json")]
    above.unlink()


def test_a_pattern_matches_what_is_inside(root):
    found = served(root).all_of("*.json")
    assert found == [str(root / "a.json"), str(root / "b.json")]
    assert served(root).all_of("*er") == [str(root / "a.json")]
    with pytest.raises(NotFoundError):
        served(root).all_of("away/*")
    with pytest.raises(SeveralRunsError, match="matches 2 files"):
        served(root).one("*.json")


@pytest.mark.parametrize(
    "name",
    [
        "../secret.json", "run/../../secret.json", "/etc/passwd", "/", "outer", "away",
        "away/trace.json", "../*", "/etc/*", "a.json\0", "~/../..",
    ],
)  # fmt: skip
def test_what_is_outside_is_refused(root, name):
    with pytest.raises(NotServedError, match="outside of the folders"):
        served(root).all_of(name)


def test_existence_outside_is_not_revealed(root):
    there, missing = (str(root.parent / name) for name in ("secret.json", "none.json"))
    errors = []
    for name in (there, missing):
        with pytest.raises(NotServedError) as error:
            served(root).all_of(name)
        errors.append(str(error.value).replace(name, ""))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("name", ["none.json", "circle", "a.json/x", "n" * 5000, "[", "~/a.json"])
def test_what_does_not_exist_is_not_found(root, name):
    with pytest.raises(NotFoundError, match="does not exist in the served folders"):
        served(root).all_of(name)


@pytest.mark.parametrize(
    "name", ["https://example.org/t.json", "s3://b/t.json", "file:///etc/passwd", "FILE://x"]
)
def test_addresses_are_refused(root, name):
    with pytest.raises(NotServedError, match="is an address"):
        served(root).all_of(name)


def test_addresses_may_be_allowed_but_not_those_of_files(root):
    folders = served(root, allow_remote=True)
    assert folders.all_of("s3://b/t.json") == ["s3://b/t.json"]
    with pytest.raises(NotServedError):
        folders.all_of("File:///etc/passwd")


def test_an_address_is_refused_without_its_secrets(root):
    with pytest.raises(NotServedError) as error:
        served(root).all_of("https://me:s3cr3t@example.org/t.json?sig=s3cr3t")
    assert "s3cr3t" not in str(error.value)


def test_of_several_folders_names_begin_with_that_of_the_folder(root):
    other = root.parent / "private"
    folders = folders_of([str(root), str(other), str(root)])
    assert folders.roots == (str(root), str(other))
    name = folders.name_of(other / "trace.json", Redactor.none())
    assert name == "private/trace.json"
    assert folders.one(name) == str(other / "trace.json")
    assert folders.one("trace.json") == str(other / "trace.json")


def test_a_name_that_is_shown_redacted_is_understood(root, monkeypatch):
    monkeypatch.setenv("USER", "zyxuser4711")
    (root / "zyxuser4711").mkdir()
    trace = root / "zyxuser4711/trace.json"
    trace.write_text("{}")
    name = served(root).name_of(trace, Redactor.of_process())
    assert name == "[user]/trace.json"
    assert served(root).one(name) == str(trace)


def test_without_folders_the_current_one_is_served(root, monkeypatch):
    monkeypatch.chdir(root)
    assert folders_of([]) == Folders((str(root),))


def test_a_folder_has_to_be_one(root):
    with pytest.raises(NotFoundError, match="does not exist"):
        folders_of([str(root / "none")])
    with pytest.raises(NotAFileError, match="is not a folder"):
        folders_of([str(root / "a.json")])


def test_a_pipe_does_not_block(root):
    os.mkfifo(root / "pipe.json")
    assert served(root).all_of("pipe.json") == [str(root / "pipe.json")]
