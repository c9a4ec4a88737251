"""From what the user named to the files behind it."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.engine.run_directory import is_run_directory
from stepwhy.errors import NotFoundError, NoTracesError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

# What a run directory's windows and framework profilers write; other files in a folder are only
# tried when none of these is there.
_USUAL_ENDINGS = (".json", ".json.gz", ".pb", ".stepwhy")


def resolve(names: Sequence[str]) -> list[Path]:
    """Files and run directories behind paths, folders and globs, in order, each once.

    Raises:
        NotFoundError: A name leads nowhere.
        NoTracesError: A folder holds no file that could be a trace.
        UnsupportedFormatError: A URL.
    """
    found: dict[Path, None] = {}
    for name in names:
        if "://" in name:
            raise UnsupportedFormatError(
                f"{name.split('://', 1)[0]}:// addresses cannot be read",
                "Download the trace and give the local file",
            )
        found.update(dict.fromkeys(_behind(name)))
    return list(found)


def _behind(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        return [path] if is_run_directory(path) else _in_folder(path)
    if path.exists():
        return [path]
    matches = [Path(m) for m in sorted(glob.glob(name, recursive=True))]  # noqa: PTH207 - the user's own glob
    if not matches:
        raise NotFoundError(f"{name} does not exist", "Check the path")
    return [p for m in matches for p in ([m] if m.is_file() else _behind(str(m)))]


def _in_folder(folder: Path) -> list[Path]:
    nested = [p.parent for p in sorted(folder.glob("*/run.json"))]
    if nested:
        return nested
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.startswith(".")]
    usual = [p for p in files if p.name.endswith(_USUAL_ENDINGS)]
    if not files:
        raise NoTracesError(f"{folder.name or folder} is an empty folder", "Give a trace file")
    return usual or files
