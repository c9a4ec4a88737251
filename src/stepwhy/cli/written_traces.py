"""Find the trace files that an observed program wrote beside its run.

A script without a loop often writes a trace itself: a timeline of a session, the export of a
profiler, a log folder of TensorBoard. What it wrote is found by time and content, whatever the
framework, below the folder that it ran in.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stepwhy.errors import InputError
from stepwhy.importers.registry import all_formats, reader_of
from stepwhy.inputs.kinds import is_file
from stepwhy.inputs.reading import read_source
from stepwhy.inputs.search import has_usual_ending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The report waits for the search. Profilers nest their log folders four deep.
_MOST_ENTRIES = 10_000
_DEEPEST = 6
_MOST_FILES = 20
# Summaries of a training say nothing of a single call.
_NO_TRACES = {"tensorboard"}
# Kernels stamp files by a clock that lags behind by up to a tick.
_TICK_NS = 20_000_000


def written_traces(folder: Path, started_ns: int) -> list[Path]:
    """Trace files that were written since a run started, the last one first.

    Args:
        folder: Where the program ran; run directories in it are left out.
        started_ns: When the run started.
    """
    files = sorted(_written(folder, started_ns - _TICK_NS), reverse=True)
    traces = [path for _, path in files[:_MOST_FILES] if _is_trace(path)]
    return [path for path in traces if not _is_copy(path)]


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


__all__ = ["written_traces"]
