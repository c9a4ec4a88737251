"""Replays operations of all ranks of a pipeline-parallel job, such as those of an operation table.

An operation starts when those that it depends on have ended, and exchanges end together:

- forward and backward passes of a rank run one after the other;
- a send follows its pass; a pass follows its receive, which follows the pass before;
- the parameters are gathered before the first pass, and everything else follows the last one;
- data-parallel exchanges include the ranks of a stage, those of embeddings the first and the last
  stage, and the clipping of gradients all ranks.

An exchange consists of the wait for the last participant and of the transfer after that. Operations
are launched ahead, so that nothing is between an operation and what it depends on.

Source: "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025.
"""

from __future__ import annotations

from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepwhy.base.columns.groups import numbered, rows_by_group
from stepwhy.base.patterns import regex
from stepwhy.trace import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.trace import Trace

    Times = NDArray[np.float64]

_PASSES: Final = ("forward", "backward")
_NEXT_STAGE: Final = {"forward": 1, "backward": -1}
_GATHER: Final = regex(r"params-all-gather")
_OF_STAGE: Final = regex(r"params-all-gather|grads-reduce-scatter|separate-grads-.*")
_OF_ENDS: Final = regex(r"embedding-.*")
_OF_ALL: Final = regex(r"optimizer-clip-.*")
_MOST_SKEW_NS: Final = 10_000_000  # clocks of ranks differ by less
_MOST_AT_ONCE: Final = 1 << 24  # times of operations that are replayed at once: 128 MB


class UnknownScheduleError(Exception):
    """The operations do not follow a schedule that can be replayed; says why."""


class Operation(msgspec.Struct, frozen=True):
    """An operation that recurs in every step.

    Args:
        rank: Rank.
        stage: Pipeline stage.
        name: Type of operation.
        number: Which of this type in the step.
    """

    rank: int
    stage: int
    name: str
    number: int

    @property
    def is_exchange(self) -> bool:
        """Whether it exchanges data, so that its usual time is the median."""
        return not self.name.endswith("-compute") and self.name not in {"optimizer", "gc"}


class Schedule(msgspec.Struct, frozen=True):
    """Operations of all ranks and what they wait for.

    Args:
        operations: The operations.
        work_ns: Time of each after everything that it waits for, per step;
            (operations, steps).
        waits_for: Operations that must have ended before each.
        order: The operations, each after those that it waits for.
        groups: Operations of several ranks that are one exchange.
        data_rank: Number of each rank among those of its stage.
    """

    operations: list[Operation]
    work_ns: Times
    waits_for: list[list[int]]
    order: list[int]
    groups: list[list[int]]
    data_rank: dict[int, int]

    def step_ns(self, work_ns: Times) -> float:
        """Mean time of a step.

        Args:
            work_ns: As the attribute.
        """
        return next(self.steps_ns([work_ns]))

    def steps_ns(self, works_ns: Iterable[Times]) -> Iterator[float]:
        """Mean time of a step for each of several sets of times, replayed together.

        Args:
            works_ns: Each as the attribute `work_ns`.
        """
        pending: list[Times] = []
        for work_ns in works_ns:
            pending.append(work_ns)
            if (len(pending) + 1) * work_ns.size > _MOST_AT_ONCE:
                yield from self._replayed(pending)
                pending = []
        if pending:
            yield from self._replayed(pending)

    def _replayed(self, works_ns: Sequence[Times]) -> Iterator[float]:
        work_ns = np.concatenate(works_ns, axis=1)
        ends = np.zeros_like(work_ns)
        for operation in self.order:
            for before in self.waits_for[operation]:
                np.maximum(ends[operation], ends[before], out=ends[operation])
            ends[operation] += work_ns[operation]
        for of_one in np.split(ends.max(axis=0), len(works_ns)):
            yield float(of_one.mean())

    def usual_ns(self) -> Times:
        """The mean time of each type of computation, and the median of each exchange."""
        usual = np.empty_like(self.work_ns)
        by_name = defaultdict(list)
        for row, operation in enumerate(self.operations):
            by_name[operation.name].append(row)
        for rows in by_name.values():
            typical = np.median if self.operations[rows[0]].is_exchange else np.mean
            usual[rows] = typical(self.work_ns[rows])
        return usual

    def with_usual(self, rows: Sequence[int]) -> Times:
        """The times, with the usual ones for some operations; (operations, steps)."""
        work_ns = self.work_ns.copy()
        work_ns[rows] = self.usual_ns()[rows]
        return work_ns


def schedule_of(traces: Sequence[Trace]) -> Schedule:
    """The schedule of the steps that all ranks recorded.

    Args:
        traces: The operations of each rank, on one clock.

    Raises:
        UnknownScheduleError: A rank has no stage, or operations do not match.
    """
    operations, start_ns, dur_ns = _operations(traces)
    index = {
        (operation.rank, operation.name, operation.number): row
        for row, operation in enumerate(operations)
    }
    job = _Job(operations, index, start_ns.mean(axis=1))
    waits_for = [set[int]() for _ in operations]
    for before, after in job.edges():
        waits_for[after].add(before)
    work_ns = dur_ns.copy()
    groups = job.groups()
    for group in groups:
        last_ns = start_ns[group].max(axis=0)
        transfer_ns = start_ns[group] + dur_ns[group] - last_ns
        work_ns[group] = np.where(transfer_ns <= -_MOST_SKEW_NS, 0, transfer_ns)
        together = set[int]().union(*(waits_for[row] for row in group))
        for row in group:
            waits_for[row] = together
    try:
        order = list(TopologicalSorter(dict(enumerate(waits_for))).static_order())
    except CycleError:
        raise UnknownScheduleError("operations of the ranks wait for each other") from None
    waits = [sorted(rows) for rows in waits_for]
    return Schedule(operations, work_ns, waits, order, groups, job.places())


def _operations(traces: Sequence[Trace]) -> tuple[list[Operation], Times, Times]:
    """The operations, and their starts and durations; (operations, steps) each."""
    operations, starts, durations = [], [], []
    for trace in traces:
        stage = dict(trace.meta.stages).get(trace.meta.rank)
        if stage is None:
            raise UnknownScheduleError("the pipeline stages of the ranks are not recorded")
        for name, start_ns, dur_ns in _recurring(trace):
            for number in range(len(start_ns)):
                operations.append(Operation(trace.meta.rank, stage, name, number))
                starts.append(start_ns[number])
                durations.append(dur_ns[number])
    if len({len(row) for row in starts}) != 1:
        raise UnknownScheduleError("the ranks did not record the same steps")
    return operations, np.array(starts), np.array(durations)


def _recurring(trace: Trace) -> Iterator[tuple[str, Times, Times]]:
    """Each type of operation: name, starts and durations; (operations, steps) each."""
    slices, steps = trace.slices, trace.rows(Kind.STEP)
    rows = np.flatnonzero(slices.kind != Kind.STEP)
    begin_ns = slices.start_ns[steps]
    names, number = numbered(slices.name[rows])
    _, of_name = rows_by_group(number, len(names))
    for name, own in zip(names.tolist(), of_name, strict=True):
        found = rows[own]
        step = np.searchsorted(begin_ns, slices.start_ns[found], side="right") - 1
        per_step = np.bincount(step, minlength=len(steps))
        if (per_step != per_step[0]).any():
            raise UnknownScheduleError(f"steps differ in the number of {trace.string(name)}")
        shape = (len(steps), int(per_step[0]))
        start_ns = (slices.start_ns[found] - begin_ns[step]).reshape(shape)
        dur_ns = slices.dur_ns[found].reshape(shape)
        yield trace.string(name), start_ns.T.astype(np.float64), dur_ns.T.astype(np.float64)


class _Job(msgspec.Struct, frozen=True):
    """What is known of the operations.

    Args:
        operations: The operations.
        index: Row of each by rank, name and number.
        start_ns: Mean start of each in the step; (operations,).
    """

    operations: list[Operation]
    index: dict[tuple[int, str, int], int]
    start_ns: Times

    def edges(self) -> Iterator[tuple[int, int]]:
        """Pairs of operations of a rank of which the second waits for the first."""
        by_rank = defaultdict(list)
        for row, operation in enumerate(self.operations):
            by_rank[operation.rank].append(row)
        for rank, rows in by_rank.items():
            rows.sort(key=lambda row: self.start_ns[row])
            yield from self._edges_of(rank, rows)

    def _edges_of(self, rank: int, rows: list[int]) -> Iterator[tuple[int, int]]:
        names = [self.operations[row].name for row in rows]
        passes = [r for r, n in zip(rows, names, strict=True) if n.endswith("-compute")]
        exchanges = {f"{p}-{end}" for p in _PASSES for end in ("send", "recv")}
        gathers = [r for r, n in zip(rows, names, strict=True) if _GATHER.fullmatch(n)]
        others = set(rows) - set(passes) - set(gathers)
        after = [r for r in rows if r in others and self.operations[r].name not in exchanges]
        if not passes:
            raise UnknownScheduleError("their operations are not whole forward and backward passes")
        if len(gathers) > 1:
            raise UnknownScheduleError("a rank holds several parts of the model")
        yield from pairwise([*gathers, *passes, *after])
        for direction in _PASSES:
            yield from self._exchanges(rank, direction)
        yield from self._first_backward(rank, passes)

    def _exchanges(self, rank: int, direction: str) -> Iterator[tuple[int, int]]:
        passes = self._numbered(rank, f"{direction}-compute")
        sends = self._numbered(rank, f"{direction}-send")
        receives = self._numbered(rank, f"{direction}-recv")
        if {len(sends), len(receives)} - {0, len(passes)}:
            raise UnknownScheduleError("passes and exchanges of a rank differ in number")
        yield from zip(passes, sends, strict=False)
        yield from zip(receives, passes, strict=False)
        yield from zip(passes, receives[1:], strict=False)
        yield from pairwise(sends)
        yield from pairwise(receives)

    def _first_backward(self, rank: int, passes: list[int]) -> Iterator[tuple[int, int]]:
        """The first exchange of gradients is launched a pass before its own is."""
        names = [self.operations[row].name for row in passes]
        first = names.index("backward-compute") if "backward-compute" in names else 0
        for end in ("send", "recv"):
            exchange = self.index.get((rank, f"backward-{end}", 0))
            if first >= 2 and exchange is not None:
                yield passes[first - 2], exchange

    def _numbered(self, rank: int, name: str) -> list[int]:
        """The operations of a type on a rank, in order."""
        found: list[int] = []
        while (row := self.index.get((rank, name, len(found)))) is not None:
            found.append(row)
        return found

    def groups(self) -> list[list[int]]:
        """Operations of several ranks that end together, once the last of them has started."""
        place = self.places()
        found: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for row, operation in enumerate(self.operations):
            key = _group_of(operation, place[operation.rank])
            if key is not None:
                found[key].append(row)
        return list(found.values())

    def places(self) -> dict[int, int]:
        """Number of each rank among those of its stage."""
        by_stage = defaultdict(set)
        for operation in self.operations:
            by_stage[operation.stage].add(operation.rank)
        return {
            rank: place for ranks in by_stage.values() for place, rank in enumerate(sorted(ranks))
        }


def _group_of(operation: Operation, place: int) -> tuple[object, ...] | None:
    """What the operations of an exchange share; None if no other rank takes part.

    Args:
        operation: The operation.
        place: Number of its rank among those of its stage.
    """
    name, number = operation.name, operation.number
    for direction in _PASSES:
        if name in {f"{direction}-send", f"{direction}-recv"}:
            ahead = _NEXT_STAGE[direction] if name.endswith("send") else 0
            return direction, operation.stage + ahead, place, number
    if _OF_STAGE.fullmatch(name):
        return name, operation.stage, number
    if _OF_ENDS.fullmatch(name):
        return name, place, number
    return (name, number) if _OF_ALL.fullmatch(name) else None
