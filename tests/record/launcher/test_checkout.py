"""The commit of a checkout, from Git's files."""

import os
import subprocess

import pytest

from stepwhy.record.launcher.checkout import checkout

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40
UNKNOWN = {"commit": "", "branch": ""}


@pytest.fixture
def repository(tmp_path):
    git = tmp_path / "repo" / ".git"
    (git / "refs/heads/fix").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/fix/loader\n")
    (git / "refs/heads/fix/loader").write_text(f"{COMMIT}\n")
    (tmp_path / "repo" / "src").mkdir()
    (tmp_path / "repo" / "src" / "train.py").touch()
    return tmp_path / "repo"


def test_branch_and_commit(repository):
    expected = {"commit": COMMIT, "branch": "fix/loader"}
    assert checkout(["train"], repository) == expected
    assert checkout(["train"], repository / "src") == expected
    script = str(repository / "src" / "train.py")
    assert checkout(["python", script, "--x"], repository.parent) == expected
    assert checkout(["python", "other.py"], repository.parent) == UNKNOWN


def test_a_commit_without_a_branch(repository):
    (repository / ".git/HEAD").write_text(f"{OTHER}\n")
    assert checkout([], repository) == {"commit": OTHER, "branch": ""}


def test_packed_refs(repository):
    (repository / ".git/refs/heads/fix/loader").unlink()
    packed = f"# pack-refs with: peeled\n{OTHER} refs/heads/main\n{COMMIT} refs/heads/fix/loader\n"
    (repository / ".git/packed-refs").write_text(packed)
    assert checkout([], repository)["commit"] == COMMIT


def test_a_worktree(repository, tmp_path):
    inner = repository / ".git/worktrees/two"
    inner.mkdir(parents=True)
    (inner / "HEAD").write_text("ref: refs/heads/fix/loader\n")
    (inner / "commondir").write_text("../..\n")
    tree = tmp_path / "two"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {inner}\n")
    assert checkout([], tree) == {"commit": COMMIT, "branch": "fix/loader"}


def test_a_branch_without_a_commit(repository):
    (repository / ".git/refs/heads/fix/loader").unlink()
    assert checkout([], repository) == {"commit": "", "branch": "fix/loader"}


@pytest.mark.parametrize("head", ["", "x" * 40, "ref: ../../secret", "ref: /etc/passwd", "\xff\0"])
def test_what_is_no_commit_is_not_recorded(repository, head):
    (repository / ".git/HEAD").write_text(head)
    assert checkout([], repository)["commit"] == ""


def test_pipes_are_not_waited_for(repository):
    (repository / ".git/HEAD").unlink()
    os.mkfifo(repository / ".git/HEAD")
    assert checkout([], repository) == UNKNOWN


def test_no_repository(tmp_path):
    assert checkout(["train"], tmp_path) == UNKNOWN
    assert checkout(["a\0.py"], tmp_path / "gone") == UNKNOWN


def test_it_agrees_with_git(tmp_path):
    def git(*words):
        return subprocess.run(
            ["git", *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            timeout=240,
        ).stdout.strip()

    try:
        git("init", "-q", "-b", "main")
    except OSError:
        pytest.skip("git is not installed")
    author = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    git(*author, "commit", "-q", "--allow-empty", "-m", "one")
    assert checkout([], tmp_path) == {"commit": git("rev-parse", "HEAD"), "branch": "main"}
    git("pack-refs", "--all")
    assert checkout([], tmp_path) == {"commit": git("rev-parse", "HEAD"), "branch": "main"}
