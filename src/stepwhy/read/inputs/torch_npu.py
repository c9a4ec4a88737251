"""Folders that the profiler of torch_npu writes, one per rank.

    <host>_<pid>_<time>_ascend_pt/profiler_info_<rank>.json
    <host>_<pid>_<time>_ascend_pt/profiler_metadata.json
    <host>_<pid>_<time>_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json, and tables
    <host>_<pid>_<time>_ascend_pt/PROF_.../, raw data and other views of the same time

The trace does not record its rank, which is in the name of the first file. The groups of ranks are
in the second one.

Source: Ascend Extension for PyTorch, "Profiling data directories"; Ascend/msinsight, the search for
`profiler_info_[0-9]{1,}.json` two folders above the trace.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.errors import InputError
from stepwhy.base.patterns import regex
from stepwhy.read.inputs.side_files import MOST_RECORD_BYTES, read_side_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_OUTPUT = "ASCEND_PROFILER_OUTPUT"
_TRACE = regex(r"trace_view\.json(\.(gz|zst|xz|bz2|zip))?")
_INFO = regex(r"profiler_info_(\d{1,6})\.json")
_MOST_ENTRIES = 1000  # of a folder, that are looked at; those of the profiler hold about ten


class _Group(msgspec.Struct):
    """A process group in `profiler_metadata.json`."""

    global_ranks: list[int] = []


class _Metadata(msgspec.Struct):
    """What is used of `profiler_metadata.json`."""

    parallel_group_info: dict[str, _Group] = {}


def traces_only(files: Iterable[Path]) -> list[Path]:
    """The files without those that belong to a trace in a folder of torch_npu.

    Args:
        files: Files, in order.
    """
    every = list(files)
    roots = {file.parent.parent for file in every if _is_trace(file)}
    return [file for file in every if _is_trace(file) or roots.isdisjoint(file.parents)]


def _is_trace(file: Path) -> bool:
    return file.parent.name == _OUTPUT and _TRACE.fullmatch(file.name) is not None


def rank_beside(path: Path) -> int | None:
    """The rank of a trace, from the file beside it or in the folder above; None without one.

    Args:
        path: The file of the trace.
    """
    if not _TRACE.fullmatch(path.name):
        return None
    folder = path.absolute().parent
    for place in (folder, folder.parent):
        numbers = _numbers(place)
        if len(numbers) == 1:
            return numbers.pop()
    return None


def world_size_beside(path: Path) -> int | None:
    """The number of ranks of the job, from the group of all ranks; None if it is not recorded.

    Args:
        path: The file of a trace whose rank is known.
    """
    root = path.absolute().parent.parent
    try:
        content = read_side_file(root, root / "profiler_metadata.json", MOST_RECORD_BYTES)
        groups = msgspec.json.decode(content or b"{}", type=_Metadata).parallel_group_info
    except (InputError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    largest = max((group.global_ranks for group in groups.values()), key=len, default=[])
    is_whole = sorted(largest) == list(range(len(largest)))
    return len(largest) if largest and is_whole else None


def _numbers(folder: Path) -> set[int]:
    """The ranks that files of the profiler in a folder name."""
    try:
        entries = [entry.name for entry in islice(folder.iterdir(), _MOST_ENTRIES)]
    except OSError:
        return set()
    return {int(match[1]) for match in map(_INFO.fullmatch, entries) if match}
