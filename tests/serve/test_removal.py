"""Only run directories below the folder are deleted."""

import pytest

from stepwhy.apps.serve.removal import delete_run
from stepwhy.base.errors import OutputError
from tests.serve.runs import write_run


@pytest.fixture
def outside(tmp_path):
    return write_run(tmp_path, "outside")


@pytest.fixture
def root(tmp_path, outside):
    del outside
    root = tmp_path / "runs"
    write_run(root, "a/train-1")
    return root


def test_a_run_and_what_it_holds_is_deleted(root, outside):
    (root / "a/train-1/link").symlink_to(outside)
    (root / "a/train-1/process-1/windows").mkdir(parents=True)
    delete_run(root, "a/train-1")
    assert list(root.rglob("*")) == [root / "a"]
    assert (outside / "run.json").is_file()


@pytest.mark.parametrize("path", [".", "", "..", "../outside", "a/../../outside", "a", "missing"])
def test_nothing_else_is_deleted(root, outside, path):
    before = sorted(root.rglob("*"))
    with pytest.raises(OutputError):
        delete_run(root, path)
    with pytest.raises(OutputError):
        delete_run(root, str(outside))
    assert sorted(root.rglob("*")) == before
    assert (outside / "run.json").is_file()


@pytest.mark.parametrize("link", ["linked", "a/linked"])
def test_links_are_not_followed(root, outside, link):
    (root / link).symlink_to(outside)
    (root / "b").symlink_to(outside.parent)
    for path in (link, "b/outside"):
        with pytest.raises(OutputError):
            delete_run(root, path)
    assert (outside / "run.json").is_file()


def test_a_folder_with_a_link_for_a_run_file_is_kept(root, outside):
    (root / "c").mkdir()
    (root / "c/run.json").symlink_to(outside / "run.json")
    with pytest.raises(OutputError):
        delete_run(root, "c")
    assert (root / "c").is_dir()
