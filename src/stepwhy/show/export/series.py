"""Series of a run by step number, for programs that draw curves.

Steps are numbered from 1, as in the report. What was not recorded has no series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.program.gpus import sampled_gpus
from stepwhy.analyse.run.run_steps import run_steps
from stepwhy.analyse.steps.counters import series
from stepwhy.base.columns.groups import group_rows
from stepwhy.result import CATEGORIES
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.run.run_steps import RunSteps
    from stepwhy.analyse.steps.counters import Series
    from stepwhy.trace import Trace

    Numbers = NDArray[np.int64]

# Clocks of other origins, such as the start of the machine, do not reach this time (2001) in ns.
_EARLIEST_EPOCH_NS = 10**18


class Curve(msgspec.Struct, frozen=True):
    """Values over the steps of a run.

    Args:
        steps: Number of the step of each value; (values,).
        times_ns: Time of each value on the trace's clock; (values,).
        values: The values; (values,).
    """

    steps: Numbers
    times_ns: Numbers
    values: Numbers

    def __len__(self) -> int:
        """Number of values."""
        return len(self.values)


class Level(msgspec.Struct, frozen=True):
    """The fill level of a queue or buffer, elements; `capacity` is None if it is unknown."""

    name: str
    kind: str
    curve: Curve
    capacity: int | None


class RunSeries(msgspec.Struct, frozen=True):
    """The series of one rank.

    Args:
        framework: As in `Meta`.
        rank: Its rank; None without one.
        is_dated: Whether times are nanoseconds since the epoch.
        is_observed: Whether stepwhy observed steps without a profiler.
        steps: Wall time of the steps, ns: of those without a profiler, if they were observed.
        profiled: Wall time of the profiled steps among observed ones, ns.
        waits: Time in which steps without a profiler waited for input, ns; those whose waits were
            observed.
        observed_ns: Wall time of the steps whose waits were observed.
        categories: Time per category of each recorded step, ns; without those that are always 0.
        levels: Queues and buffers.
        memory: Sampled memory by what uses it, bytes.
        end_ns: End of the last step, or of the analysed span without steps.
    """

    framework: str
    rank: int | None
    is_dated: bool
    is_observed: bool
    steps: Curve
    profiled: Curve
    waits: Curve
    observed_ns: int
    categories: dict[str, Curve]
    levels: tuple[Level, ...]
    memory: dict[str, Curve]
    end_ns: int

    @property
    def last_step(self) -> int:
        """Number of the last step; 0 without any."""
        return max((int(c.steps[-1]) for c in (self.steps, self.profiled) if len(c)), default=0)


def series_of(facts: Facts) -> RunSeries:
    """The series of a trace."""
    trace, steps = facts.trace, run_steps(facts)
    marks, meta, places = trace.marks, trace.meta, _Places(facts, steps)
    is_seen = (marks.profiled != 1) & (marks.light == 0) & (marks.input_wait_ns != NULL).any()
    waited = np.maximum(marks.input_wait_ns, 0)
    return RunSeries(
        framework=meta.framework,
        rank=None if meta.rank == NULL else meta.rank,
        is_dated=bool(places.first_ns >= _EARLIEST_EPOCH_NS),
        is_observed=steps.is_observed,
        steps=places.curve(~steps.profiled, steps.durations_ns),
        profiled=places.curve(steps.profiled, steps.durations_ns),
        waits=places.curve(is_seen, np.minimum(waited, marks.dur_ns)),
        observed_ns=int(marks.dur_ns[is_seen].sum()),
        categories=_categories(facts, places),
        levels=tuple(_levels(trace, places)),
        memory={name: places.sampled(found) for name, found in _memory(trace)},
        end_ns=places.end_ns,
    )


class _Places:
    """Numbers of the steps of a run.

    Args:
        facts: Facts of the trace.
        steps: The steps of the run.
    """

    def __init__(self, facts: Facts, steps: RunSteps) -> None:
        self._recorded, self._steps = facts.steps, steps
        # Without steps, the curves belong to the span that was analysed.
        has_steps = len(steps.starts_ns) > 0
        starts = steps.starts_ns if has_steps else facts.steps.starts
        durations_ns = steps.durations_ns if has_steps else facts.steps.durations_ns
        self.first_ns = int(starts[0]) if len(starts) else 0
        self.end_ns = int((starts + durations_ns).max(initial=0))

    def curve(self, rows: NDArray[np.bool_], values: Numbers) -> Curve:
        """A curve of some of the steps; each has the time of its end."""
        chosen = np.flatnonzero(rows)
        ends_ns = (self._steps.starts_ns + self._steps.durations_ns)[chosen]
        return Curve(chosen + 1, ends_ns, values[chosen])

    def of_recorded(self) -> Numbers:
        """Numbers of the recorded steps."""
        found = self._recorded
        if not self._steps.is_observed:
            return np.arange(1, len(found.starts) + 1)
        return self.at(found.host_starts + (found.host_ends - found.host_starts) // 2)

    def at(self, times_ns: Numbers) -> Numbers:
        """Number of the step that has begun last before each time; 0 before the first."""
        return np.searchsorted(self._steps.starts_ns, times_ns, side="right")

    def sampled(self, samples: Series) -> Curve:
        """A curve of samples."""
        return Curve(self.at(samples.times_ns), samples.times_ns, samples.values)


def _categories(facts: Facts, places: _Places) -> dict[str, Curve]:
    """Time per category of each recorded step; {} if there is only one span without steps."""
    found = facts.steps
    if found.source == "whole-trace":
        return {}
    numbers, per_step = places.of_recorded(), facts.per_step
    return {
        category: Curve(numbers, found.ends, per_step[:, column])
        for column, category in enumerate(CATEGORIES)
        if per_step[:, column].any()
    }


def _levels(trace: Trace, places: _Places) -> Iterator[Level]:
    levels = trace.levels
    if not len(levels):
        return
    first, group = group_rows(levels.kind, levels.queue)
    for number, row in enumerate(first.tolist()):
        own = np.flatnonzero(group == number)
        times = levels.time_ns[own]
        capacity = int(levels.capacity[own].max())
        yield Level(
            trace.string(int(levels.queue[row])),
            trace.string(int(levels.kind[row])),
            Curve(places.at(times), times, levels.value[own]),
            None if capacity == NULL else capacity,
        )


def _memory(trace: Trace) -> Iterator[tuple[str, Series]]:
    """Sampled memory of the process and its GPUs."""
    for name, counter in (("resident", "resident_bytes"), ("swapped", "swap_bytes")):
        found = series(trace, counter)
        if len(found.values):
            yield f"process {name}", found
    for device, name in sampled_gpus(trace):
        for of, counter in (("process", "gpu process_bytes"), ("all programs", "gpu used_bytes")):
            found = series(trace, counter, device)
            if len(found.values):
                yield f"{name}, {of}", found
