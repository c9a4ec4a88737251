"""Assign the slices of a trace to processes, threads and lanes of a Chrome trace.

Viewers draw the events of one thread as a stack of calls, so slices that overlap without nesting
must be on different threads. They occur on streams with rounded times, and when an executor runs
operations in parallel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.trace import NULL, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.trace import Trace


class Thread(msgspec.Struct, frozen=True):
    """One row of the viewer.

    Args:
        process: Number of its process, from 1.
        name: Name in the viewer.
        track: Row of `tracks`.
    """

    process: int
    name: str
    track: int


class Layout(msgspec.Struct, frozen=True):
    """All rows of the viewer.

    Args:
        processes: Names of processes, numbered from 1.
        threads: Threads, numbered from 1.
        thread: Thread number of each slice; (slices,).
    """

    processes: tuple[str, ...]
    threads: tuple[Thread, ...]
    thread: NDArray[np.int64]

    def place(self, row: int) -> tuple[int, int]:
        """Process and thread number of a slice."""
        number = int(self.thread[row])
        return self.threads[number - 1].process, number


def lay_out(trace: Trace) -> Layout:
    """Assign a thread to each slice; processes of hosts come first, then devices."""
    processes: dict[tuple[bool, int], str] = {}
    for track in sorted(range(len(trace.tracks)), key=lambda t: _process_key(trace, t)):
        processes.setdefault(_process_key(trace, track), _process_name(trace, track))
    numbers = {key: number for number, key in enumerate(processes, 1)}
    threads: list[Thread] = []
    thread = np.zeros(len(trace.slices), dtype=np.int64)
    by_track = np.argsort(trace.slices.track, kind="stable")
    tracks, first = np.unique(trace.slices.track[by_track], return_index=True)
    for track, rows in zip(tracks.tolist(), np.split(by_track, first)[1:], strict=True):
        lanes = nesting_lanes(trace.slices.start_ns[rows].tolist(), trace.end_ns[rows].tolist())
        thread[rows] = len(threads) + 1 + np.asarray(lanes)
        name = trace.string(int(trace.tracks.name[track]))
        process = numbers[_process_key(trace, track)]
        threads += [
            Thread(process, f"{name} ({lane + 1})" if lane else name, track)
            for lane in range(max(lanes) + 1)
        ]
    return Layout(tuple(processes.values()), tuple(threads), thread)


def nesting_lanes(starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Assign intervals to lanes in which they nest or are disjoint (first fit).

    Args:
        starts: Starts, ascending; the longest interval first among equal starts.
        ends: Ends.

    Returns:
        The lane of each interval.
    """
    open_ends: list[list[int]] = []
    lanes = []
    for start, end in zip(starts, ends, strict=True):
        for lane, stack in enumerate(open_ends):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or end <= stack[-1]:
                stack.append(end)
                lanes.append(lane)
                break
        else:
            lanes.append(len(open_ends))
            open_ends.append([end])
    return lanes


def _process_key(trace: Trace, track: int) -> tuple[bool, int]:
    """(is it a device, row of the device or process id)."""
    tracks = trace.tracks
    device = int(tracks.device[track])
    on_device = tracks.role[track] in {Role.STREAM, Role.EXECUTOR} and device != NULL
    return (True, device) if on_device else (False, int(tracks.process[track]))


def _process_name(trace: Trace, track: int) -> str:
    on_device, number = _process_key(trace, track)
    if on_device:
        # Perfetto shows only the part after the last slash: 'task:0' of '/job:ps/task:0'.
        return trace.string(int(trace.devices.name[number])).replace("/", " ").strip()
    return "host" if number == NULL else f"host process {number}"
