"""The ranks of a job that runs, from the ends of their logs.

The job does nothing for it: what is read here is logged anyway, and nothing is written. The folder
may be shared by many machines, whose clocks need not agree.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stepwhy.apps.top.steps import StepMeter, is_amount, members
from stepwhy.base.regular_files import open_regular, read_regular
from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.process.folder import PROCESS_FILE
from stepwhy.record.steps.stall_watch import STALL_FILE
from stepwhy.show.metrics.ranks import Gpu, RankNow, usual_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    Item = TypeVar("Item")
    Found = TypeVar("Found")

_PROCESS, _RANK = "process-", "rank-"
# Processes are looked for, samples read, and whether silent processes have ended, so often.
_SEARCH_S = 5.0
_READERS = 32  # threads
_MOST_PROCESSES = 20_000
_MOST_PROCESS_FILE = _MOST_RUN_FILE = 1 << 20  # bytes; they have some hundred

# About twelve steps; more come with time.
_FIRST_BYTES = 2_000
# If more is added between two calls, only the end of it is read.
_MOST_NEW_BYTES = 64 << 10


class LiveRanks:
    """Reads the ranks of a run directory, or of a folder with one per rank.

    Args:
        run_dir: The folder.
        clock: Seconds on a clock that is never set.
        wall_ns: Nanoseconds since the epoch.
    """

    def __init__(
        self,
        run_dir: Path,
        clock: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = now_ns,
    ) -> None:
        self._run_dir = run_dir
        self._clock, self._wall_ns = clock, wall_ns
        self._processes: dict[str, _Process] = {}
        self._searched_s: float | None = None

    def read(self) -> list[RankNow]:
        """The ranks, by number; of one that was started again, the last.

        Processes without a rank are listed if no process has one: the one with the last step. One
        that has ended no step is left out if it has ended, or is neither a rank nor noted where it
        stands.
        """
        now_s = self._clock()
        is_due = self._searched_s is None or now_s - self._searched_s >= _SEARCH_S
        if is_due:
            self._search()
            self._searched_s = now_s
        processes = list(self._processes.values())
        _do_at_once(lambda process: process.fetch(is_due=is_due), processes)
        latest: dict[int | None, RankNow] = {}
        for process in processes:
            now = process.now(now_s, self._wall_ns)
            before = latest.get(now.rank)
            is_known = now.rank is not None or now.has_noted
            is_listed = bool(now.steps) or (is_known and not now.is_ended)
            if is_listed and (before is None or _replaces(now, before)):
                latest[now.rank] = now
        if len(latest) > 1:
            latest.pop(None, None)
        return [latest[rank] for rank in sorted(latest, key=lambda rank: rank or 0)]

    def _search(self) -> None:
        """Find new processes."""
        # Folders of processes in a run directory, and in those of its ranks.
        found = _folders(str(self._run_dir))
        ranks = [path for path in found if Path(path).name.startswith(_RANK)]
        inner = [path for paths in _do_at_once(_folders, ranks) for path in paths]
        folders = [path for path in [*found, *inner] if Path(path).name.startswith(_PROCESS)]
        for path in folders:
            if path not in self._processes and len(self._processes) < _MOST_PROCESSES:
                self._processes[path] = _Process(path)


def _replaces(rank: RankNow, other: RankNow) -> bool:
    """Whether a process is the later one of two of the same rank.

    One without a step may be a helper, unless the other one has ended.
    """
    if bool(rank.steps) == bool(other.steps):
        return _last(rank) > _last(other)
    return other.is_ended if other.steps else not rank.is_ended


def _last(rank: RankNow) -> int:
    return rank.last_step_ns or rank.sampled_ns or 0


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _do_at_once(read: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    """Read many things, several at a time: over a network, each takes a while to answer.

    Args:
        read: Reads one of them.
        items: What to read.
    """
    if len(items) <= _READERS:
        return list(map(read, items))
    parts = [items[place::_READERS] for place in range(_READERS)]
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(lambda part: list(map(read, part)), parts)
        return [one for part in found for one in part]


class _Process:
    """Follows the logs of one process.

    Args:
        folder: Its folder.
    """

    def __init__(self, folder: str) -> None:
        self._folder, self._file = folder, f"{folder}/{PROCESS_FILE}"
        self._run_file = f"{Path(folder).parent}/run.json"
        self._steps, self._counters = LogTail(folder, "steps"), LogTail(folder, "counters")
        self._lines: list[bytes] = []
        self._meter = StepMeter()
        self._grew_s: float | None = None
        self._samples: deque[dict[str, Any]] = deque(maxlen=2)
        self._rank: int | None = None
        self._is_known = self._is_ended = self._has_noted = False
        self._recorded_ns: int | None = None
        self._now = RankNow(None)

    def fetch(self, *, is_due: bool) -> None:
        """Read what is new, in any thread.

        Args:
            is_due: Whether to read what changes rarely, too.
        """
        if self._is_ended:
            return
        self._lines = self._steps.new_lines()
        if is_due or not self._is_known:
            samples = map(members, self._counters.new_lines()[-2:])
            self._samples.extend(one for one in samples if is_amount(one.get("time_ns")))
            if not (self._lines and self._is_known):
                self._read_file()
            if not (self._lines or self._now.steps):
                # See since when a process without a step is recorded, and whether it noted a
                # long one.
                with contextlib.suppress(OSError):
                    self._recorded_ns = self._recorded_ns or Path(self._file).stat().st_mtime_ns
                    self._has_noted = Path(self._folder, STALL_FILE).is_file()

    def now(self, now_s: float, wall_ns: Callable[[], int]) -> RankNow:
        """What it does now, by what was read.

        Args:
            now_s: The time, on the clock of the reader.
            wall_ns: Nanoseconds since the epoch.
        """
        if self._lines:
            self._add(now_s, wall_ns)
        elif self._grew_s is None and self._recorded_ns is not None:
            self._grew_s = now_s - _age_s(self._recorded_ns, wall_ns)
        silent_s = 0.0 if self._grew_s is None else now_s - self._grew_s
        last = self._samples[-1] if self._samples else {}
        gpus = last.get("gpus")
        found = [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
        return self._now._replace(
            rank=self._rank,
            silent_s=silent_s,
            is_ended=self._is_ended,
            cores=self._cores(),
            resident_bytes=_amount(last, "resident_bytes"),
            gpus=tuple(Gpu(_percent(gpu), _amount(gpu, "used_bytes")) for gpu in found),
            sampled_ns=last.get("time_ns"),
            folder=self._folder,
            has_noted=self._has_noted,
        )

    def _add(self, now_s: float, wall_ns: Callable[[], int]) -> None:
        """Count the new steps."""
        lines, self._lines = self._lines, []
        self._meter.add(lines)
        steps = self._meter.steps()
        # What was logged before is as old as its machine's clock says, as far as that agrees.
        is_first = not self._now.steps
        self._grew_s = now_s - (_age_s(steps.last_end_ns, wall_ns) if is_first else 0.0)
        recent = tuple(steps.recent)
        self._now = RankNow(
            *(self._rank, recent, usual_step(recent), steps.last_end_ns or None),
            timed_steps=steps.timed,
            timed_ns=steps.timed_ns,
        )

    def _read_file(self) -> None:
        """Read the rank, and whether the process has ended."""
        try:
            about = members(read_regular(self._file, _MOST_PROCESS_FILE))
        except OSError:
            return
        self._is_known, self._rank = True, _amount(about, "rank")
        run = self._about_run() if _amount(about, "ended_ns") is None else about
        self._is_ended = _amount(run, "ended_ns") is not None

    def _about_run(self) -> dict[str, Any]:
        """What is known of the run, which ends even if the process was killed."""
        try:
            return members(read_regular(self._run_file, _MOST_RUN_FILE))
        except OSError:
            return {}

    def _cores(self) -> float | None:
        """CPU cores that it used between its last two samples; None if unknown."""
        if len(self._samples) < 2:
            return None
        before, after = self._samples
        used = [_amount(sample, "cpu_ns") for sample in (before, after)]
        elapsed_ns = after["time_ns"] - before["time_ns"]
        if used[0] is None or used[1] is None or elapsed_ns <= 0 or used[1] < used[0]:
            return None
        return float((used[1] - used[0]) / elapsed_ns)


def _age_s(time_ns: int, wall_ns: Callable[[], int]) -> float:
    """How long ago a time is, 0 if the clock of its machine is ahead of this one."""
    return max(wall_ns() - time_ns, 0) / 1e9


def _percent(gpu: dict[str, Any]) -> float | None:
    percent = _amount(gpu, "utilisation_percent")
    return None if percent is None else min(percent, 100) / 100


def _amount(values: dict[str, Any], name: str) -> int | None:
    value = values.get(name)
    return value if is_amount(value) else None


class LogTail:
    """Follows one rotated log from its end.

    Only the last steps matter for a job that is watched, so a long log costs no more than a short
    one. Lines may be skipped: those before the end at first, and the last ones of a file that was
    full and is continued in a new one.

    Args:
        folder: Folder of the process.
        name: Of the log, without '.jsonl'.
    """

    def __init__(self, folder: str, name: str) -> None:
        self._path = f"{folder}/{name}.jsonl"
        self._inode = self._offset = 0
        self._is_first = True

    def new_lines(self) -> list[bytes]:
        """Whole lines at the end of the log that were not returned yet; [] if there is no log."""
        try:
            handle = open_regular(self._path)
        except OSError:
            return []
        try:
            return self._read(handle)
        except OSError:
            return []
        finally:
            os.close(handle)

    def _read(self, handle: int) -> list[bytes]:
        about = os.fstat(handle)
        if about.st_ino != self._inode or about.st_size < self._offset:
            self._inode, self._offset = about.st_ino, 0
        most = _FIRST_BYTES if self._is_first else _MOST_NEW_BYTES
        begin = max(self._offset, about.st_size - most)
        has_skipped = begin > self._offset
        data = os.pread(handle, about.st_size - begin, begin)
        whole, end, rest = data.rpartition(b"\n")
        if not end:
            return []
        self._is_first = False
        self._offset = begin + len(data) - len(rest)
        # After a skip, the first line is the end of one.
        return whole.split(b"\n")[has_skipped:]
