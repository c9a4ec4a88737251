"""Sweeps over one file on several threads; the results come in the order of the file.

The file is read in stretches. The begin of a stretch is guessed while the stretch before it is
still being read; the result of a wrong guess is discarded.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import msgspec

from stepwhy.read.formats.kineto.kernels.layout import DONE
from stepwhy.read.formats.kineto.sweep import Sweep, SweptRecords
from stepwhy.read.shared.chrome_json.cuts import next_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from mmap import mmap

    from stepwhy.read.formats.kineto.sweep import Scan


STRETCH: Final = 4 << 20
"""Bytes of a stretch; its columns fit into a processor's cache."""

_MAX_SWEEPS: Final = 2  # the rest of the importer is not faster than two sweeps


class _Pending(msgspec.Struct, frozen=True):
    """A stretch that is being read.

    Args:
        begin: Offset of its first record.
        goal: Offset at which the next stretch should begin.
        sweep: The sweep that reads it.
        swept: The result.
    """

    begin: int
    goal: int
    sweep: Sweep
    swept: Future[SweptRecords]


class Lanes(AbstractContextManager["Lanes"]):
    """Reads plain records ahead of their use; its threads end with its context.

    Args:
        scan: The compiled function `scan_records`.
        data: The file.
    """

    def __init__(self, scan: Scan, data: bytes | mmap) -> None:
        self._data = data
        count = min(_MAX_SWEEPS, os.cpu_count() or 1)
        self._sweeps = [Sweep(scan, data) for _ in range(count)]
        self._threads = ThreadPoolExecutor(count)

    def __exit__(self, *_: object) -> None:
        """Wait for the threads, which write to memory that is about to be freed."""
        self._threads.shutdown(cancel_futures=True)

    def read(self, position: int, end: int) -> Iterator[SweptRecords]:
        """Yield plain records from a position up to `end`, or up to one that is not plain.

        The columns of a result are overwritten when the next but one is requested.
        """
        pending: deque[_Pending] = deque()
        while position < end:
            if not pending or pending[0].begin != position:
                self._discard(pending)
                for sweep in self._sweeps:
                    self._start_next(pending, sweep, position, end)
            stretch = pending.popleft()
            swept = stretch.swept.result()
            position = swept.end
            if swept.status != DONE:
                self._discard(pending)
            elif position < stretch.goal:  # a table was full
                pending.appendleft(self._start(stretch.sweep, position, stretch.goal))
            else:
                self._start_next(pending, stretch.sweep, position, end)
            yield swept
            if swept.status != DONE:
                return

    def _start_next(self, pending: deque[_Pending], sweep: Sweep, position: int, end: int) -> None:
        """Start the stretch after the last pending one; at a position if none is pending."""
        begin = pending[-1].goal if pending else position
        if begin < end:
            goal = next_record(self._data, begin + STRETCH, end)
            pending.append(self._start(sweep, begin, goal))

    def _start(self, sweep: Sweep, begin: int, goal: int) -> _Pending:
        return _Pending(begin, goal, sweep, self._threads.submit(sweep.read, begin, goal))

    @staticmethod
    def _discard(pending: deque[_Pending]) -> None:
        """Drop pending stretches, once their threads no longer write to the columns."""
        for stretch in pending:
            stretch.swept.exception()
        pending.clear()
