"""Find the trace files that an observed program wrote beside its run.

A script without a loop often writes a trace itself: a timeline of a session, the export of a
profiler, a log folder of TensorBoard. What it wrote is found by time and content, whatever the
framework, below the folder that it ran in, that its script lies in, or that its command names.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base.errors import InputError
from stepwhy.read.inputs.kinds import is_file
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.inputs.search import has_usual_ending
from stepwhy.read.registry import all_formats, reader_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# The report waits for the search. Profilers nest their log folders four deep.
_MOST_ENTRIES = 10_000
_DEEPEST = 6
_MOST_FILES = 20
_MOST_FOLDERS = 8
# Summaries of a training say nothing of a single call.
_NO_TRACES = {"tensorboard"}
# Kernels stamp files by a clock that lags behind by up to a tick.
_TICK_NS = 20_000_000


def folders_of(words: Sequence[str]) -> list[Path]:
    """Folders in which the program of a command may have written: its own, and those it names.

    Args:
        words: The command; an argument may be a path, or end with one after '='.
    """
    folders = {Path.cwd(): Path()}
    for word in words[1:]:
        path = Path(word.rpartition("=")[2])
        with contextlib.suppress(OSError, ValueError):  # too long for a path, or not one
            folder = path if path.is_dir() else path.parent
            whole = folder.resolve()
            searched = any(whole.is_relative_to(other) for other in folders)
            if whole.is_dir() and whole != whole.parent and not searched:
                folders[whole] = folder
    return list(folders.values())[:_MOST_FOLDERS]


def written_traces(folders: Sequence[Path], started_ns: int) -> list[Path]:
    """Trace files that were written since a run started, the last one first.

    Args:
        folders: Where to look; run directories in them are left out.
        started_ns: When the run started.
    """
    since_ns = started_ns - _TICK_NS
    # One folder may lie in another; the first one names what both hold.
    found = {
        path.resolve(): (time_ns, path)
        for folder in reversed(folders)
        for time_ns, path in _written(folder, since_ns)
    }
    files = [path for _, path in sorted(found.values(), reverse=True)[:_MOST_FILES]]
    return [path for path in files if _is_trace(path) and not _is_copy(path)]


def _written(folder: Path, since_ns: int) -> Iterator[tuple[int, Path]]:
    """Time and path of the files below a folder that may be traces; links are not followed."""
    listed, folders = 0, [(folder, 0)]
    while folders and listed < _MOST_ENTRIES:
        inside, depth = folders.pop()
        for entry in _entries(inside):
            listed += 1
            if entry.is_dir(follow_symlinks=False) and depth < _DEEPEST:
                folders.append((inside / entry.name, depth + 1))
            elif has_usual_ending(entry.name) and entry.is_file(follow_symlinks=False):
                time_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                if time_ns >= since_ns:
                    yield time_ns, inside / entry.name


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Visible entries of a folder; none of a run directory, or if it cannot be listed."""
    if is_file(folder / "run.json"):
        return []
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []


def _is_copy(path: Path) -> bool:
    """Whether a Chrome trace lies beside the XPlane profile that it was made from."""
    name = path.name.removesuffix(".gz")
    is_chrome = name.endswith(".trace.json")
    return is_chrome and is_file(path.with_name(name.removesuffix(".trace.json") + ".xplane.pb"))


def _is_trace(path: Path) -> bool:
    """Whether an importer recognises a file."""
    try:
        source = read_source(path)
        for name, declaration in all_formats().items():
            if declaration.may_be(source.head) and reader_of(name).recognise(source):
                return name not in _NO_TRACES
    except InputError:
        pass
    return False
