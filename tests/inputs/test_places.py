"""From names to files: folders, globs, run directories, links."""

from pathlib import Path

import pytest

from stepwhy.base.errors import NotFoundError, NoTracesError
from stepwhy.read.inputs.places import resolve


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree of typical files; the current folder is its root."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "a.json", "b.json.gz", "notes.txt", ".hidden.json", "deep/er/c.pb", "run/run.json",
        "run/window-0/trace.json", "many/one/run.json", "many/two/run.json", "many/stray.json",
        "trace[1].json",
    ):  # fmt: skip
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return tmp_path


def found(*names):
    return [place.shown for place in resolve(names)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.json"], ["a.json"]),
        (["notes.txt"], ["notes.txt"]),  # a file that is named explicitly
        (["b.json.gz", "a.json"], ["b.json.gz", "a.json"]),
        (["*.json"], ["a.json", "trace[1].json"]),
        (["trace[1].json"], ["trace[1].json"]),
        (["deep"], ["deep/er/c.pb"]),
        (["deep/**"], ["deep/er/c.pb"]),
        (["**/*.pb", "deep/er"], ["deep/er/c.pb"]),
        (["run"], ["run"]),
        (["run/window-0"], ["run/window-0/trace.json"]),
        (["many"], ["many/one", "many/two"]),
        (["r*", "run"], ["run"]),
        (["a.json", "./a.json", "*.json"], ["a.json", "trace[1].json"]),
        (["file://localhost{}/a.json"], ["{}/a.json"]),
    ],
)
def test_names_resolve_to_files(tree, names, expected):
    assert found(*(n.format(tree) for n in names)) == [e.format(tree) for e in expected]


def test_folder_is_searched_for_usual_file_names(tree):
    (tree / "run").rename(tree / "many" / "three")
    assert found("many") == ["many/one", "many/three", "many/two"]


@pytest.mark.usefixtures("tree")
def test_runs_further_down_are_found_whole_beside_traces():
    """What stepwhy wrote about them is no input, and hidden folders are not searched."""
    for name in ("many/bench.json", ".venv/lib/x.json", "many/one/process-1/windows/0/trace.json"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("{}")
    Path("run").rename("deep/run")
    assert found(".") == [
        "deep/run", "many/one", "many/two",
        "a.json", "b.json.gz", "deep/er/c.pb", "many/stray.json", "trace[1].json",
    ]  # fmt: skip


def test_file_with_several_names_counts_once(tree):
    """Tools create a link to the newest trace."""
    Path("deep/latest.pb").symlink_to("er/c.pb")
    assert found("deep") == ["deep/er/c.pb"]
    assert found("a.json", str(tree / "a.json")) == ["a.json"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("no.json", "no.json does not exist"),
        ("no*.json", r"no file matches no\*.json"),
        ("gone.json", "gone.json does not exist"),
        ("gon*", r"no file matches gon\*"),
        ("", "the path is empty"),
    ],
)
@pytest.mark.usefixtures("tree")
def test_missing_names_are_errors(name, what):
    Path("gone.json").symlink_to("nowhere.json")
    with pytest.raises(NotFoundError, match=what):
        resolve([name])


@pytest.mark.usefixtures("tree")
def test_broken_link_does_not_hide_other_files():
    Path("a-gone.json").symlink_to("nowhere.json")
    assert found("a*.json") == ["a.json"]


@pytest.mark.usefixtures("tree")
def test_an_empty_folder():
    Path("empty").mkdir()
    with pytest.raises(NoTracesError, match="empty is an empty folder"):
        resolve(["empty"])
