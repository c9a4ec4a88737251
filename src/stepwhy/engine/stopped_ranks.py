"""Where ranks of a running job stand, by what those that have stopped noted themselves.

A rank whose step takes much too long writes `stall.json.gz` (`record.steps.stall_watch`): the line
of the program that it is at, and the collectives that it has entered. A thousand such files take
minutes to read, so each call reads for a short time only: first the lines, which are at the
beginning, and then the collectives, first of the ranks that stand where few others do.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.analyse.lateness.hangs import find_hang
from stepwhy.analyse.ranks.calls import calls_of, joined
from stepwhy.base.regular_files import read_regular
from stepwhy.read.formats.run_directory.stall_log import STALL_FILE, add_stall, noted
from stepwhy.read.inputs.side_files import MOST_RECORD_BYTES
from stepwhy.result.hangs import Standing
from stepwhy.trace import NULL, Meta, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from stepwhy.analyse.ranks.calls import RunCalls
    from stepwhy.read.formats.run_directory.stall_log import Noted
    from stepwhy.result.hangs import Hang
    from stepwhy.show.metrics.ranks import Judged, RankNow

    _Stand = tuple[RankNow, "_File"]

_HEAD_BYTES = 1 << 14
# Whether a rank has written its file, or has written it again, is looked up so often, s.
_LOOK_S = 5.0
_FOR_LINES = 0.75  # share of the time; the rest is for the collectives
_READERS = 32  # threads


class StoppedRanks:
    """Reads what stopped ranks have noted, each file once for as long as the rank stands there.

    Args:
        clock: Seconds on a clock that is never set.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._files: dict[str, _File] = {}
        self._standing = Standing({})

    def read(self, ranks: Sequence[Judged], longest_s: float) -> Standing:
        """Where they stand, as far as that was read up to now.

        Args:
            ranks: All ranks of the job.
            longest_s: For how long to read at most; one file is read to its end.
        """
        now_s = self._clock()
        stopped = [one.now for one in ranks if one.has_stopped and one.now.folder]
        files = [self._file(now.folder) for now in stopped]
        due = sorted((f for f in files if f.is_due(now_s)), key=lambda f: f.looked_s)
        self._do_at_once([partial(f.look, now_s) for f in due], now_s + _FOR_LINES * longest_s)
        stand = [pair for pair in zip(stopped, files, strict=True) if pair[1].is_of(pair[0])]
        unread = [partial(file.read_calls, now) for now, file in self._select_unread(stand)]
        self._while(unread, now_s + longest_s)
        self._standing = _standing(stand, len(ranks))
        return self._standing

    def _file(self, folder: str) -> _File:
        if folder not in self._files:
            self._files[folder] = _File(folder)
        return self._files[folder]

    def _select_unread(self, stand: Sequence[_Stand]) -> list[_Stand]:
        """Those whose collectives are to be read, the ones where few others stand first.

        Once it is known which rank the others wait for, those that stand where they do tell
        nothing more.
        """
        waiting = _lines_of_waiting(self._standing)
        count = Counter(file.line for _, file in stand)
        found = [one for one in stand if not one[1].is_read and one[1].line not in waiting]
        return sorted(found, key=lambda one: count[one[1].line])

    def _do_at_once(self, tasks: Sequence[Callable[[], None]], until_s: float) -> None:
        """Do as many things as there is time for, several at a time: a folder may be far away."""
        if len(tasks) <= _READERS:
            self._while(tasks, until_s)
            return
        parts = [tasks[place::_READERS] for place in range(_READERS)]
        with ThreadPoolExecutor(_READERS) as pool:
            list(pool.map(lambda part: self._while(part, until_s), parts))

    def _while(self, tasks: Sequence[Callable[[], None]], until_s: float) -> None:
        """Do one thing after the other until a time."""
        for task in tasks:
            if self._clock() >= until_s:
                return
            task()


class _File:
    """`stall.json.gz` of one process.

    Args:
        folder: Folder of the process.

    Attributes:
        looked_s: When it was looked at last.
        is_read: Whether its collectives were read, or cannot be.
        stood: Where the process stood; None if unknown.
        calls: The collectives that it had entered, and where it stood; None if not read.
    """

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, STALL_FILE)
        self._stamp = (0, 0)
        self.looked_s = -math.inf
        self.is_read = False
        self.stood: Noted | None = None
        self.calls: RunCalls | None = None

    @property
    def line(self) -> str:
        """Where the process stood; '' if unknown."""
        return self.stood.line if self.stood else ""

    def is_due(self, now_s: float) -> bool:
        """Whether it is time to look whether the file has changed.

        Args:
            now_s: The time.
        """
        return now_s - self.looked_s >= _LOOK_S

    def look(self, now_s: float) -> None:
        """Read the line again if the file has changed.

        Args:
            now_s: The time.
        """
        self.looked_s = now_s
        try:
            about = self._path.stat()
            stamp = about.st_ino, about.st_mtime_ns
            if stamp != self._stamp:
                # Note where it stands; in another step, it has entered other collectives.
                stood = noted(read_regular(self._path, _HEAD_BYTES))
                if stood is None or self.stood is None or stood.since_ns != self.stood.since_ns:
                    self.calls = None
                self.stood, self.is_read = stood, False
                self._stamp = stamp
        except OSError:
            return

    def is_of(self, now: RankNow) -> bool:
        """Whether the rank has ended no step since it wrote the file."""
        return self.stood is not None and self.stood.time_ns >= (now.last_step_ns or 0)

    def read_calls(self, now: RankNow) -> None:
        """Read the collectives.

        Args:
            now: The rank.
        """
        self.is_read = True
        builder = TraceBuilder()
        try:
            add_stall(read_regular(self._path, MOST_RECORD_BYTES), now.last_step_ns or 0, builder)
        except OSError:
            return
        number = NULL if now.rank is None else now.rank
        found = calls_of(builder.finish(Meta("step-log", rank=number)))
        self.calls = found if found.calls or found.positions else None


def _standing(stand: Sequence[_Stand], world_size: int) -> Standing:
    """Where ranks stand, by what was read of them."""
    known = {now.rank: file.calls for now, file in stand if file.calls is not None}
    lines = {now.rank: file.line for now, file in stand if file.line}
    unread = {now.rank for now, _ in stand}.difference(known)
    found = Standing(lines, _hang(known, unread, world_size), len(known), len(stand))
    waiting = _lines_of_waiting(found)
    return found._replace(alike=sum(lines.get(rank) in waiting for rank in unread))


def _lines_of_waiting(standing: Standing) -> frozenset[str]:
    """The lines at which ranks wait for one that is known; empty if none is known."""
    hang = standing.hang
    if hang is None or not hang.missing:
        return frozenset()
    return frozenset(standing.lines[rank] for rank in hang.waiting if rank in standing.lines)


def _hang(
    known: Mapping[int | None, RunCalls], unread: Collection[int | None], world_size: int
) -> Hang | None:
    """The collective that ranks wait in; nothing is said of ranks whose file was not read yet."""
    hang = find_hang(joined(known.values())._replace(world_size=world_size)) if known else None
    if hang is None:
        return None
    missing = tuple(at for at in hang.missing if at.rank not in unread)
    unrecorded = tuple(rank for rank in hang.unrecorded if rank not in unread)
    if not missing and unread:
        return None  # it may be one of those
    return replace(hang, missing=missing, unrecorded=unrecorded)
