"""How much memory a step needs, when it needs most, and what holds it then.

Allocators tell of every block that they hand out and take back. What a step begins with stays from
step to step: parameters, optimizer state, what the program keeps. What it takes on top, up to the
peak, is what the step itself needs: mostly activations, whose size follows that of the batch.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.answers.block_owners import Owners
from stepwhy.answers.sampled_memory import sampled_memory
from stepwhy.columns.groups import distinct, first_rows, numbered, rows_by_group
from stepwhy.findings import BatchRoom, MemoryHolder, MemoryUse
from stepwhy.passes.counters import series
from stepwhy.trace import NULL, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.passes.facts import Facts
    from stepwhy.trace import Trace

    Rows = NDArray[np.int32]

CAPACITY = "memory capacity"
_MOST_USES = 8
_MOST_HOLDERS = 10
_MOST_POINTS = 200
# Below all levels.
_LOWEST = -(1 << 63)
# A growing batch needs room for fragments, and for the libraries' own work space.
_USABLE = 0.9
# Growth is a difference of levels at the beginnings of steps; two of them may differ by chance.
_FEWEST_STEPS = 3


def memory_uses(facts: Facts) -> tuple[MemoryUse, ...]:
    """The memory of every allocator, then of devices and the process as sampled from outside.

    Device memory comes first, then the highest peak.

    Args:
        facts: Facts of the run.
    """
    pools = _rows_of_pools(facts.trace.allocations.pool)
    owners, capacity = Owners(facts), _capacity_of_devices(facts.trace)
    found = [_Pool(facts, *pool, owners, capacity).use() for pool in pools]
    uses = [use for use in found if use is not None]
    uses.sort(key=lambda use: (use.kind, -use.peak_bytes))
    return (*uses, *sampled_memory(facts.trace))[:_MOST_USES]


class _Span(msgspec.Struct, frozen=True):
    """A step as one allocator saw it.

    Args:
        start_ns, end_ns: From when to when.
        rows: Rows of `allocations` in it, ascending.
        top: Most bytes handed out after one of them, beyond what was at its beginning.
        at: After which of them.
        base: What was handed out at its beginning; None where the allocator does not tell.
    """

    start_ns: int
    end_ns: int
    rows: Rows
    top: int
    at: int
    base: int | None

    @property
    def peak(self) -> int:
        """Highest level, on top of the base where that is known."""
        return (self.base or 0) + max(self.top, 0)


class _Pool:
    """One allocator.

    Args:
        facts: Facts of the run.
        name: Its name, as a string of the trace.
        rows: Its rows of `allocations`, ascending.
        owners: Finds what allocated.
        of_device: Memory of the device, where the trace tells it and there is one device only.
    """

    def __init__(
        self, facts: Facts, name: int, rows: Rows, owners: Owners, of_device: int | None
    ) -> None:
        self._facts, self._name, self._rows = facts, name, rows
        self._owners, self._of_device = owners, of_device
        self._table = facts.trace.allocations
        self._times = self._table.time_ns[self._rows]

    def use(self) -> MemoryUse | None:
        """What is known of it; None where no step saw anything of it."""
        spans = self._spans(*self._bounds())
        if not spans:
            return None
        top = max(spans, key=lambda span: span.peak)
        owner, phase = self._owners.of(int(top.rows[top.at]))
        holders = self._holders(top)
        capacity = self._capacity()
        return MemoryUse(
            name=self._facts.trace.string(self._name),
            kind="host" if self._table.host[self._rows[0]] else "device",
            over="step" if self._tells_steps() else "run",
            span_ns=top.end_ns - top.start_ns,
            base_bytes=top.base,
            peak_bytes=top.peak,
            peak_ns=int(self._table.time_ns[top.rows[top.at]]) - top.start_ns,
            peak_phase=phase,
            peak_name=owner,
            reserved_bytes=_largest(self._table.reserved[self._rows]),
            capacity_bytes=capacity,
            growth_bytes=_growth(spans),
            holders=tuple(holders[:_MOST_HOLDERS]),
            others=max(len(holders) - _MOST_HOLDERS, 0),
            series=self._series(top),
            room=self._room(top, capacity),
        )

    def _bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and ends of the steady steps; of all there is where no steps are known."""
        steps = self._facts.steps
        if steps.source == "whole-trace" or not self._facts.steady_count:
            first, last = int(self._times[0]), int(self._times[-1]) + 1
            if not len(self._facts.trace.slices):
                return np.array([first]), np.array([last])
            start, end = self._facts.span
            return np.array([min(start, first)]), np.array([max(end, last)])
        return steps.starts[steps.steady], steps.ends[steps.steady]

    def _tells_steps(self) -> bool:
        """Whether the spans are steps, be it that the whole record is one."""
        is_step = "whole-step" in self._facts.trace.meta.signals
        return is_step or self._facts.steps.source != "whole-trace"

    def _spans(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[_Span]:
        """The steps in which the allocator did anything, in time of what it did.

        Args:
            starts: Starts of the steps, ns; (steps,).
            ends: Their ends, each at most the next start, ns; (steps,).
        """
        step = np.searchsorted(starts, self._times, side="right") - 1
        inside = np.flatnonzero((step >= 0) & (self._times < ends[step]))
        first = inside[np.flatnonzero(np.diff(step[inside], prepend=-1))]
        past = np.searchsorted(self._times, ends[step[first]])
        bounds = (starts[step[first]], ends[step[first]], first, past)
        found = zip(*(bound.tolist() for bound in bounds), strict=True)
        return [self._span(start, end, self._rows[a:b]) for start, end, a, b in found]

    def _span(self, start_ns: int, end_ns: int, rows: Rows) -> _Span:
        at, top, _ = self._highest(rows)
        return _Span(start_ns, end_ns, rows, top, at, self._base(rows))

    def _highest(self, rows: Rows, level: int = 0, least: int = _LOWEST) -> tuple[int, int, int]:
        """After which of some rows the level is highest, that level, and the one behind them.

        Args:
            rows: The rows.
            level: The level before them.
            least: Levels below it count as this one.
        """
        levels = level + np.cumsum(self._table.change[rows])
        at = int(levels.argmax())
        if levels[at] <= least:
            return 0, least, int(levels[-1])
        return at, int(levels[at]), int(levels[-1])

    def _base(self, rows: Rows) -> int | None:
        """What was handed out before some rows; None where the allocator does not tell."""
        totals = self._table.total[rows]
        # The first total: later ones also hold what allocators take for blocks not recorded.
        first = int((totals != NULL).argmax())
        if totals[first] == NULL:
            return None
        base = int(totals[first] - self._table.change[rows[: first + 1]].sum())
        # Below zero it does not count all that it hands out, small blocks for example.
        return base if base >= 0 else None

    def _holders(self, span: _Span) -> list[MemoryHolder]:
        """What was allocated in the span and not freed until its peak, largest first."""
        block, change = self._table.block, self._table.change
        rows = span.rows[: span.at + 1]
        rows = rows[(block[rows] != NULL) & (change[rows] != 0)]
        last = rows[::-1][first_rows(block[rows][::-1])]
        sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        for row in np.sort(last[change[last] > 0]).tolist():
            entry = sums[self._owners.of(row)]
            entry[0] += 1
            entry[1] += int(change[row])
        holders = [MemoryHolder(*owner, *entry) for owner, entry in sums.items()]
        return sorted(holders, key=lambda h: (-h.bytes, h.name))

    def _series(self, span: _Span) -> tuple[tuple[int, int], ...]:
        """The level over time; of many changes the highest of each stretch."""
        times = self._table.time_ns[span.rows]
        base = span.base or 0
        if len(times) <= _MOST_POINTS:
            bounds = list(range(len(times) + 1))
        else:
            edges = np.linspace(0, span.end_ns - span.start_ns, _MOST_POINTS + 1)[1:-1]
            inner = np.searchsorted(times, np.ceil(edges).astype(np.int64) + span.start_ns)
            bounds = [0, *inner.tolist(), len(times)]
        points, level = [(0, base)], 0
        for a, b in pairwise(bounds):
            if b > a:
                highest, top, level = self._highest(span.rows[a:b], level, least=-base)
                points.append((int(times[a + highest]) - span.start_ns, top + base))
        return tuple(points)

    def _capacity(self) -> int | None:
        """Memory of the device, where the trace tells it and there is one device only."""
        if self._table.host[self._rows[0]]:
            return None
        return self._of_device

    def _room(self, span: _Span, capacity: int | None) -> BatchRoom | None:
        if not self._tells_steps() or capacity is None or span.base is None:
            return None
        trains = bool((self._facts.phases == Phase.BACKWARD).any())
        return batch_room(span.base, span.peak - span.base, capacity, trains=trains)


def _rows_of_pools(pools: NDArray[np.int32]) -> list[tuple[int, Rows]]:
    """The pools that there are, ascending, and the rows of each."""
    names, place = numbered(pools)
    return list(zip(names.tolist(), rows_by_group(place, len(names))[1], strict=False))


def _capacity_of_devices(trace: Trace) -> int | None:
    told = series(trace, CAPACITY).largest
    if told is not None:
        return told
    sampled = {
        size
        for device in distinct(trace.counters.device).tolist()
        if (size := series(trace, "gpu total_bytes", device).largest) is not None
    }
    return sampled.pop() if len(sampled) == 1 else None


def batch_room(fixed: int, growing: int, capacity: int, *, trains: bool) -> BatchRoom | None:
    """How many times larger the batch could be; None where nothing grows or nothing is left.

    Args:
        fixed: Bytes that a step begins with.
        growing: Bytes that it takes on top, at its peak.
        capacity: Bytes that there are.
        trains: Whether there are gradients: they come and go with the step, but do not grow. They
            are as large as the parameters, which are among what the step begins with.
    """
    usable = round(_USABLE * capacity)
    if growing <= 0 or usable <= fixed + growing:
        return None
    low = (usable - fixed) / growing
    constant = min(fixed, growing) if trains else 0
    high = (usable - fixed - constant) / (growing - constant) if constant < growing else None
    rounded = None if high is None else round(high, 1)
    return BatchRoom(round(low, 1), rounded, fixed, growing, usable)


def _growth(spans: list[_Span]) -> int | None:
    """Growth of what steps begin with, per step."""
    bases = [span.base for span in spans if span.base is not None]
    if len(bases) < _FEWEST_STEPS or len(bases) < len(spans):
        return None
    return round((bases[-1] - bases[0]) / (len(bases) - 1))


def _largest(values: NDArray[np.int64]) -> int | None:
    return int(values.max()) if len(values) and values.max() != NULL else None
