"""Ask the ranks that matter for a traced window when a running job has become slower for good.

Each rank compares its own step time and opens up to two further windows by itself, if it changes
by a quarter; where some notice that before a common step and others after it, at different steps.
It cannot know which rank is late, nor notice that another one is late now where the step takes as
long as before. Here, all ranks are compared, from what they log anyway, and only two
of them are asked: the late one, and the one that waits longest for it.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.apps.top.process_windows import logged, windows
from stepwhy.record.core.pacing import ChangeDetector
from stepwhy.record.core.requests import REQUEST_FILE, Request, answered, ask
from stepwhy.show.metrics.watching import Asked, Noticed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepwhy.apps.top.process_windows import Window
    from stepwhy.show.metrics.ranks import Judged

# Less than this is the variation between steps; as for what makes a rank late.
_MUCH = 0.1
# Blocks of steps in a row, as `ChangeDetector` compares them.
_BLOCKS = 8
# The same rank is the latest in so many looks with further steps.
_LASTING_LOOKS = 4
# Logs are written at least every half second of steps, and read by the ranks when they write. A
# folder that many machines share shows a new file later.
_AHEAD_S = 2.0
_AHEAD_STEPS = 4
# After so many steps, ranks try no longer (`common_windows.RequestedStep`); some more are written
# at once.
_GIVEN_UP_STEPS = 64
_GIVEN_UP_S = 10.0
# If no rank is late by what it logs, as on GPUs, so many are asked.
_IF_UNKNOWN = 4


class JobWatch:
    """Follows a job, and asks for windows.

    Attributes:
        noticed: The latest change; None without one.
    """

    def __init__(self) -> None:
        self.noticed: Noticed | None = None
        self._change = ChangeDetector(_MUCH)
        self._before: dict[int | None, tuple[int, int]] = {}
        self._steps = self._time_ns = 0
        # Steps and time up to the end of each block.
        self._blocks: deque[tuple[int, int]] = deque([(0, 0)], maxlen=_BLOCKS)
        self._latest: int | None = None
        self._latest_looks: deque[int] = deque(maxlen=_LASTING_LOOKS)
        self._traced: set[int | None] = set()
        self._open: dict[int | None, Path] = {}

    def look(self, ranks: Sequence[Judged]) -> Noticed | None:
        """Compare, and ask if something has changed for good.

        Args:
            ranks: All ranks of the job.

        Returns:
            The latest change, with what the ranks have answered so far; None without one.
        """
        steps, time_ns = self._progress(ranks)
        change = self._compare(ranks, steps, time_ns) if steps else None
        if self._open and self.noticed is not None:
            noticed = self.noticed
            asked = tuple(
                _heard(one, self._open[one.rank], noticed.step or 0) for one in noticed.asked
            )
            self.noticed = noticed._replace(asked=asked)
            if not any(one.is_open for one in asked):
                self._withdraw(self._open)
                self._open = {}
                self._change.restart()
        elif change is not None:
            self._act(ranks, change)
        return self.noticed

    def _progress(self, ranks: Sequence[Judged]) -> tuple[int, int]:
        """Steps since the last look and their time, the means over the ranks that took any."""
        steps, times = [], []
        for now in (one.now for one in ranks):
            before = self._before.get(now.rank)
            self._before[now.rank] = now.timed_steps, now.timed_ns
            if before is not None and now.timed_steps > before[0] and now.timed_ns > before[1]:
                steps.append(now.timed_steps - before[0])
                times.append((now.timed_ns - before[1]) / steps[-1])
        if not steps:
            return 0, 0
        count = max(round(sum(steps) / len(steps)), 1)
        return count, round(count * sum(times) / len(times))

    def _compare(self, ranks: Sequence[Judged], steps: int, time_ns: int) -> _Change | None:
        """What has changed for good, if anything has."""
        self._steps += steps
        self._time_ns += time_ns
        usual_ns = round(self._change.reference_ns)
        is_other = self._is_lasting(_latest(ranks))
        if self._change.add(time_ns, steps):
            since, since_ns = self._blocks[0]
            after_ns = round((self._time_ns - since_ns) / (self._steps - since))
            if after_ns > usual_ns:
                return _Change(self._steps - since, usual_ns, after_ns)
        if not self._change.pending_steps:
            self._blocks.append((self._steps, self._time_ns))
        return _Change(self._steps - self._latest_looks[0]) if is_other else None

    def _is_lasting(self, latest: int | None) -> bool:
        """Whether a rank has now been the latest for long that was not asked before."""
        if latest != self._latest:
            self._latest = latest
            self._latest_looks.clear()
        self._latest_looks.append(self._steps)
        if len(self._latest_looks) < _LASTING_LOOKS:
            return False
        if latest is None:
            self._traced.clear()  # whoever is late later is so for another reason
        return latest is not None and latest not in self._traced

    def _act(self, ranks: Sequence[Judged], change: _Change) -> None:
        """Ask the ranks that matter, unless they have traced such steps by themselves."""
        late = _latest(ranks)
        self._traced.add(late)
        chosen = {one.now.rank: Path(one.now.folder) for one in _chosen(ranks)}
        lengths = {rank: logged(folder) for rank, folder in chosen.items()}
        since = {rank: max(length.lines - change.steps, 0) for rank, length in lengths.items()}
        found = {rank: windows(folder) for rank, folder in chosen.items()}
        self.noticed = Noticed(late, change.before_ns, change.after_ns)
        if common := _common(found, max(since.values(), default=0)):
            asked = tuple(Asked(rank, "traced", *common) for rank in chosen)
            self.noticed = self.noticed._replace(asked=asked)
            return
        ahead = max(
            _AHEAD_STEPS,
            *(math.ceil(_AHEAD_S * length.per_s) for length in lengths.values()),
        )
        step = max((length.lines for length in lengths.values()), default=0) + ahead
        self._ask(chosen, step, since)

    def _ask(
        self, chosen: Mapping[int | None, Path], step: int, since: Mapping[int | None, int]
    ) -> None:
        try:
            for rank, folder in chosen.items():
                ask(folder, Request(step, since[rank]))
        except OSError as error:
            self._withdraw(chosen)
            self.noticed = self._current()._replace(failure=error.strerror or "unknown reason")
            return
        self._open = dict(chosen)
        asked = tuple(map(Asked, chosen))
        self.noticed = self._current()._replace(step=step, asked=asked)

    def _current(self) -> Noticed:
        return self.noticed or Noticed(None)

    @staticmethod
    def _withdraw(chosen: Mapping[int | None, Path]) -> None:
        """Leave no request behind that nobody has read."""
        for folder in chosen.values():
            with contextlib.suppress(OSError):
                (folder / REQUEST_FILE).unlink()

    def end(self) -> None:
        """Leave nothing behind: nobody waits for the answers any more."""
        self._withdraw(self._open)
        self._open = {}


class _Change(NamedTuple):
    """What has changed for good.

    Args:
        steps: Since so many steps.
        before_ns: The step time before; None if another rank is late.
        after_ns: The step time after.
    """

    steps: int
    before_ns: int | None = None
    after_ns: int | None = None


def _latest(ranks: Sequence[Judged]) -> int | None:
    """The rank that is late by most; None without one."""
    late = [one for one in ranks if one.cause]
    return max(late, key=lambda one: one.late_ns).now.rank if late else None


def _chosen(ranks: Sequence[Judged]) -> list[Judged]:
    """The latest rank, and the one that waits longest for it; some if none is late."""
    running = [one for one in ranks if one.now.steps and not one.now.is_ended]
    latest = _latest(running)
    others = [one for one in running if not one.cause]
    first = [one for one in running if one.cause and one.now.rank == latest]
    if first:
        return [*first, *sorted(others, key=_own_ns)[:1]]
    every = -(-len(running) // _IF_UNKNOWN)
    return running[:: max(every, 1)]


def _own_ns(one: Judged) -> int:
    """What a rank takes by itself in a step, as far as that is known."""
    return (one.now.input_wait_ns or 0) + (one.now.cpu_ns or 0)


def _common(found: Mapping[int | None, Sequence[Window]], since: int) -> Window | None:
    """The latest window since a step that all ranks have; None without one."""
    sets = [{window for window in each if window.first >= since} for each in found.values()]
    return max(set.intersection(*sets), default=None) if sets else None


def _heard(one: Asked, folder: Path, step: int) -> Asked:
    """What a rank has answered, and whether it has a window."""
    if not one.is_open:
        return one
    accepted = answered(folder, step)
    if accepted is False:
        return one._replace(state="refused")
    kept = next((window for window in windows(folder) if window.first >= step), None)
    if kept is not None:
        return Asked(one.rank, "traced", *kept)
    length = logged(folder)
    if length.lines > step + _GIVEN_UP_STEPS + math.ceil(_GIVEN_UP_S * length.per_s):
        return one._replace(state="silent" if accepted is None else "missed")
    return one._replace(state="asked" if accepted is None else "accepted")
