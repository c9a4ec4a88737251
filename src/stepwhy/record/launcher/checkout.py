"""The commit that a training program was checked out at, read from Git's files.

Git itself is never started: it may be missing, slow on a shared disk, or configured to run other
programs. Whether files were changed since the commit is not known.

Source: gitrepository-layout(5), gitglossary(7) (packed refs, worktrees).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from stepwhy.base.regular_files import read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_BYTES = 1 << 12
# A repository with 10,000 packed refs takes less than a megabyte.
_MOST_PACKED_BYTES = 1 << 22
_MOST_PARENTS = 40
_LONGEST_BRANCH = 200  # characters; on a full disk, the file of the run has 4 KiB
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_BRANCHES = "refs/heads/"


def checkout(command: Sequence[str], folder: Path | None = None) -> dict[str, str]:
    """Commit and branch of the checkout with a command's script, else of the current folder.

    Args:
        command: Program and arguments.
        folder: The current folder, if it is another one.

    Returns:
        'commit' and 'branch', each '' if it is unknown. Never raises.
    """
    try:
        here = folder or Path.cwd()
        scripts = (here / word for word in command if word.endswith(".py"))
        start = next((script.parent for script in scripts if script.is_file()), here)
        repository = _repository(start)
        commit, branch = _head(repository) if repository else ("", "")
    except (OSError, ValueError):
        commit = branch = ""
    return {"commit": commit, "branch": branch}


def _repository(start: Path) -> Path | None:
    """Git's folder for the checkout around a folder; None if there is none."""
    for folder in [start.absolute(), *start.absolute().parents][:_MOST_PARENTS]:
        git = folder / ".git"
        if git.is_dir():
            return git
        if git.is_file():  # a worktree or a submodule names its folder
            return folder / _text(git).removeprefix("gitdir:").strip()
    return None


def _head(repository: Path) -> tuple[str, str]:
    """Commit and branch that `HEAD` names."""
    head = _text(repository / "HEAD")
    if not head.startswith("ref:"):
        return _commit(head), ""
    ref = head.removeprefix("ref:").strip()
    branch = ref.removeprefix(_BRANCHES) if ref.startswith(_BRANCHES) else ""
    if ".." in ref or os.path.isabs(ref):  # noqa: PTH117 - text of a file
        return "", ""
    return _commit_of(repository, ref), branch[:_LONGEST_BRANCH]


def _commit_of(repository: Path, ref: str) -> str:
    """The commit of a ref: in a file of its own or packed; for a worktree, in the main clone."""
    shared = _text(repository / "commondir")
    for folder in (repository, repository / shared if shared else repository):
        commit = _commit(_text(folder / ref)) or _packed(folder / "packed-refs", ref)
        if commit:
            return commit
    return ""


def _packed(path: Path, ref: str) -> str:
    lines = (line.split(" ", 1) for line in _text(path, _MOST_PACKED_BYTES).split("\n"))
    return next((_commit(line[0]) for line in lines if line[1:] == [ref]), "")


def _commit(text: str) -> str:
    return text if _COMMIT.fullmatch(text) else ""


def _text(path: Path, most: int = _MOST_BYTES) -> str:
    """Text of a small file, stripped; '' if there is none."""
    try:
        return read_regular(path, most).decode(errors="replace").strip()
    except OSError:
        return ""
