"""Several sweeps over one file at once, each on a thread, in the order of the file.

Where a stretch begins is guessed while the one before it is still being read; what was read from a
wrong guess is thrown away.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import msgspec

from stepwhy.importers.formats.kineto.kernels.layout import DONE
from stepwhy.importers.formats.kineto.sweep import Sweep, SweptRecords
from stepwhy.importers.shared.chrome_json.cuts import next_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from mmap import mmap

    from stepwhy.importers.formats.kineto.sweep import Scan


STRETCH: Final = 4 << 20
"""Bytes of a stretch; its columns fit into a processor's cache."""

_MOST: Final = 2  # what uses the columns is not faster than two sweeps


class _Coming(msgspec.Struct, frozen=True):
    """A stretch that is being read.

    Args:
        begin: Where it begins.
        goal: Where it should end.
        sweep: Who reads it.
        swept: What is read.
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
        count = min(_MOST, os.cpu_count() or 1)
        self._sweeps = [Sweep(scan, data) for _ in range(count)]
        self._threads = ThreadPoolExecutor(count)

    def __exit__(self, *_: object) -> None:
        """Wait for the threads: they write to memory that is about to go."""
        self._threads.shutdown(cancel_futures=True)

    def read(self, position: int, end: int) -> Iterator[SweptRecords]:
        """What sweeps find from a record on, up to the end or to what is not plain.

        Each is overwritten when the next but one is asked for.
        """
        coming: deque[_Coming] = deque()
        while position < end:
            if not coming or coming[0].begin != position:
                self._drop(coming)
                self._begin(coming, position, end)
            stretch = coming.popleft()
            swept = stretch.swept.result()
            position = swept.end
            if swept.status != DONE:
                self._drop(coming)
            elif position < stretch.goal:  # a table was full
                coming.appendleft(self._read(stretch.sweep, position, stretch.goal))
            else:
                self._follow(coming, stretch.sweep, position, end)
            yield swept
            if swept.status != DONE:
                return

    def _begin(self, coming: deque[_Coming], position: int, end: int) -> None:
        """Let every sweep read a stretch, the first from a position that is known."""
        for sweep in self._sweeps:
            self._follow(coming, sweep, position, end)

    def _follow(self, coming: deque[_Coming], sweep: Sweep, position: int, end: int) -> None:
        """Read the stretch behind the last one that is coming, or from a position."""
        begin = coming[-1].goal if coming else position
        if begin < end:
            goal = next_record(self._data, begin + STRETCH, end)
            coming.append(self._read(sweep, begin, goal))

    def _read(self, sweep: Sweep, begin: int, goal: int) -> _Coming:
        return _Coming(begin, goal, sweep, self._threads.submit(sweep.read, begin, goal))

    @staticmethod
    def _drop(coming: deque[_Coming]) -> None:
        for stretch in coming:
            stretch.swept.exception()  # it is still being written
        coming.clear()
