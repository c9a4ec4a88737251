"""Names of local copies: safe in any file system, and distinct for distinct files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNSAFE = regex(r"[^\w.+=-]")
_LONGEST_BYTES = 100  # file systems allow 255; the end of a name is the most specific


def local_name(name: str) -> str:
    """A file name without separators, control characters and leading dots, at most 100 bytes."""
    safe = _UNSAFE.sub("_", name).encode("utf-8", "replace")[-_LONGEST_BYTES:]
    return safe.decode("utf-8", "ignore").lstrip(".") or "trace"


def local_paths(paths: Iterable[str]) -> dict[str, str]:
    """A relative path for the copy of each file, below the same folders as the files.

    Args:
        paths: Relative paths with '/' between non-empty parts.

    Returns:
        Local path by path; distinct even on file systems that ignore case.
    """
    chosen: dict[str, str] = {"": ""}
    used: dict[str, int] = {}
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            # In a bucket, a file may have the name of a folder, so folders end with a slash here.
            whole = "/".join(parts[:end]) + ("/" if end < len(parts) else "")
            if whole not in chosen:
                above = chosen["".join(f"{part}/" for part in parts[: end - 1])]
                chosen[whole] = _unused(above + local_name(parts[end - 1]), used)
                chosen[whole] += "/" if end < len(parts) else ""
    return {path: local for path, local in chosen.items() if local and not local.endswith("/")}


def _unused(path: str, used: dict[str, int]) -> str:
    """An unused path, which is added to the used ones.

    Args:
        path: The preferred path; a number is added if it is used.
        used: Last number of each used path, by case-folded path.
    """
    folder, slash, name = path.rpartition("/")
    key, choice = path.casefold(), path
    while choice.casefold() in used:
        used[key] += 1
        choice = f"{folder}{slash}{used[key]}-{name}"
    used[choice.casefold()] = 1
    return choice


__all__ = ["local_name", "local_paths"]
