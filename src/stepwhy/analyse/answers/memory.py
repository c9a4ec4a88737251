"""Memory of a step: its peak, the time of the peak, and the tensors that are allocated then.

Allocators record every allocation and release. The base, the memory at the start of a step, is kept
from step to step: parameters, optimizer state, and other objects that the program keeps. The memory
between the base and the peak is that of the step itself: mostly activations, which grow with the
batch. Memory over the whole run is sampled from the GPU driver and the operating system.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.answers.block_owners import Owners
from stepwhy.analyse.program.gpus import sampled_gpus
from stepwhy.analyse.steps.counters import Series, series
from stepwhy.base.columns.groups import distinct, first_rows, numbered, rows_by_group
from stepwhy.result import BatchRoom, MemoryHolder, MemoryUse
from stepwhy.trace import NULL, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.trace import Trace

    Rows = NDArray[np.int32]

CAPACITY = "memory capacity"
_MOST_USES = 8
_MOST_HOLDERS = 10
_MOST_POINTS = 200
_LOWEST = -(1 << 63)  # less than all levels
# A larger batch also needs memory for fragmentation and for the work space of libraries.
_USABLE = 0.9
# Growth is a difference of levels at the starts of steps; two of them may differ by chance.
_FEWEST_STEPS = 3
_FEWEST_SAMPLES = 2


def memory_uses(facts: Facts) -> tuple[MemoryUse, ...]:
    """The memory of every allocator, then the sampled memory of devices and of the process.

    Allocators of devices come first, and those with higher peaks.

    Args:
        facts: Facts of the run.
    """
    names, place = numbered(facts.trace.allocations.pool)
    pools = list(zip(names.tolist(), rows_by_group(place, len(names))[1], strict=False))
    owners, capacity = Owners(facts), _capacity_of_devices(facts.trace)
    found = [_Pool(facts, *pool, owners, capacity).use() for pool in pools]
    uses = [use for use in found if use is not None]
    uses.sort(key=lambda use: (use.kind, -use.peak_bytes))
    return (*uses, *sampled_memory(facts.trace))[:_MOST_USES]


class _Span(msgspec.Struct, frozen=True):
    """Allocations of one allocator in a step.

    Args:
        start_ns: Start of the step.
        end_ns: End of the step.
        rows: Rows of `allocations` in the step, ascending.
        top: Most bytes that were allocated, relative to the start of the step.
        at: Position in `rows` of the allocation that reached `top`.
        base: Bytes allocated at the start of the step; None if the allocator does not record it.
    """

    start_ns: int
    end_ns: int
    rows: Rows
    top: int
    at: int
    base: int | None

    @property
    def peak(self) -> int:
        """Most bytes allocated, relative to the start of the step if the base is unknown."""
        return (self.base or 0) + max(self.top, 0)


class _Pool:
    """One allocator.

    Args:
        facts: Facts of the run.
        name: Its name, as a string of the trace.
        rows: Its rows of `allocations`, ascending.
        owners: Finds the operation of an allocation.
        of_device: Memory size of the device; None if it is unknown, or if there are several.
    """

    def __init__(
        self, facts: Facts, name: int, rows: Rows, owners: Owners, of_device: int | None
    ) -> None:
        self._facts, self._name, self._rows = facts, name, rows
        self._owners, self._of_device = owners, of_device
        self._table = facts.trace.allocations
        self._times = self._table.time_ns[self._rows]

    def use(self) -> MemoryUse | None:
        """The memory use; None if no step has an allocation."""
        spans = self._spans(*self._bounds())
        if not spans:
            return None
        top = max(spans, key=lambda span: span.peak)
        owner, phase = self._owners.of(int(top.rows[top.at]))
        holders = self._holders(top)
        capacity = self._capacity()
        values = self._table.reserved[self._rows]
        return MemoryUse(
            name=self._facts.trace.string(self._name),
            kind="host" if self._table.host[self._rows[0]] else "device",
            over="step" if self._has_steps() else "run",
            span_ns=top.end_ns - top.start_ns,
            base_bytes=top.base,
            peak_bytes=top.peak,
            peak_ns=int(self._table.time_ns[top.rows[top.at]]) - top.start_ns,
            peak_phase=phase,
            peak_name=owner,
            reserved_bytes=int(values.max()) if len(values) and values.max() != NULL else None,
            capacity_bytes=capacity,
            growth_bytes=_growth(spans),
            holders=tuple(holders[:_MOST_HOLDERS]),
            others=max(len(holders) - _MOST_HOLDERS, 0),
            series=self._series(top),
            room=self._room(top, capacity),
        )

    def _bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and ends of the steady steps; of the whole trace if it has no steps."""
        steps = self._facts.steps
        if steps.source == "whole-trace" or not self._facts.steady_count:
            first, last = int(self._times[0]), int(self._times[-1]) + 1
            if not len(self._facts.trace.slices):
                return np.array([first]), np.array([last])
            start, end = self._facts.span
            return np.array([min(start, first)]), np.array([max(end, last)])
        return steps.starts[steps.steady], steps.ends[steps.steady]

    def _has_steps(self) -> bool:
        """Whether the spans are steps; the whole trace can be one."""
        is_step = "whole-step" in self._facts.trace.meta.signals
        return is_step or self._facts.steps.source != "whole-trace"

    def _spans(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[_Span]:
        """The steps with allocations or releases, in order of time.

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
        """Find the highest level after any of some rows.

        Args:
            rows: The rows.
            level: The level before the first row.
            least: Lower bound of the result.

        Returns:
            Position of the row with the highest level, that level, and the level after all rows.
        """
        levels = level + np.cumsum(self._table.change[rows])
        at = int(levels.argmax())
        if levels[at] <= least:
            return 0, least, int(levels[-1])
        return at, int(levels[at]), int(levels[-1])

    def _base(self, rows: Rows) -> int | None:
        """Bytes allocated before some rows; None if the allocator does not record it."""
        totals = self._table.total[rows]
        # The first total, because later ones include allocations that were not recorded.
        first = int((totals != NULL).argmax())
        if totals[first] == NULL:
            return None
        base = int(totals[first] - self._table.change[rows[: first + 1]].sum())
        # Negative if the total does not count all allocations, such as small blocks.
        return base if base >= 0 else None

    def _holders(self, span: _Span) -> list[MemoryHolder]:
        """Blocks allocated in the span and alive at its peak, by operation, largest first."""
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
        """The level over time; with many changes, the highest level of each interval."""
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
        """Memory size of the allocator's device; None if unknown, and for host memory."""
        if self._table.host[self._rows[0]]:
            return None
        return self._of_device

    def _room(self, span: _Span, capacity: int | None) -> BatchRoom | None:
        if not self._has_steps() or capacity is None or span.base is None:
            return None
        trains = bool((self._facts.phases == Phase.BACKWARD).any())
        return batch_room(span.base, span.peak - span.base, capacity, trains=trains)


def _capacity_of_devices(trace: Trace) -> int | None:
    recorded = series(trace, CAPACITY).largest
    if recorded is not None:
        return recorded
    sampled = {
        size
        for device in distinct(trace.counters.device).tolist()
        if (size := series(trace, "gpu total_bytes", device).largest) is not None
    }
    return sampled.pop() if len(sampled) == 1 else None


def batch_room(fixed: int, growing: int, capacity: int, *, trains: bool) -> BatchRoom | None:
    """Estimate how many times larger the batch could be; None if no memory grows or is free.

    Args:
        fixed: Bytes allocated at the start of a step.
        growing: Bytes that the step allocates in addition, at its peak.
        capacity: Bytes of the device.
        trains: Whether there are gradients. They are allocated within the step but do not grow with
            the batch. They are as large as the parameters, which are part of `fixed`.
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
    """Growth of the base from step to step, bytes per step."""
    bases = [span.base for span in spans if span.base is not None]
    if len(bases) < _FEWEST_STEPS or len(bases) < len(spans):
        return None
    return round((bases[-1] - bases[0]) / (len(bases) - 1))


def sampled_memory(trace: Trace) -> Iterator[MemoryUse]:
    """Memory use of every sampled GPU, by the process if known, and its resident memory.

    Args:
        trace: The trace.
    """
    for device, name in sampled_gpus(trace):
        own = series(trace, "gpu process_bytes", device)
        used = own if len(own.values) else series(trace, "gpu used_bytes", device)
        if len(used.values) >= _FEWEST_SAMPLES:
            capacity = series(trace, "gpu total_bytes", device).largest
            yield _use(name, "device", used, capacity)
    resident = series(trace, "resident_bytes")
    if len(resident.values) >= _FEWEST_SAMPLES:
        capacity = series(trace, "machine_memory_bytes").largest
        process = _use("process", "host", resident, capacity)
        yield replace(process, swapped_bytes=series(trace, "swap_bytes").largest)


def _use(name: str, kind: str, levels: Series, capacity: int | None) -> MemoryUse:
    start_ns = int(levels.times_ns[0])
    at = int(levels.values.argmax())
    return MemoryUse(
        name=name,
        kind="device" if kind == "device" else "host",
        over="run",
        span_ns=int(levels.times_ns[-1]) - start_ns,
        base_bytes=int(levels.values[0]),
        peak_bytes=int(levels.values[at]),
        peak_ns=int(levels.times_ns[at]) - start_ns,
        capacity_bytes=capacity,
        series=tuple(_thinned(levels, start_ns)),
    )


def _thinned(levels: Series, start_ns: int) -> Iterator[tuple[int, int]]:
    """Time since the start and value of the highest sample in each group of neighbours."""
    groups = np.array_split(np.arange(len(levels.values)), min(len(levels.values), _MOST_POINTS))
    for group in groups:
        at = int(group[levels.values[group].argmax()])
        yield int(levels.times_ns[at]) - start_ns, int(levels.values[at])
