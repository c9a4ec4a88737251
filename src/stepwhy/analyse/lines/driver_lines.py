"""Which line of the program the driving thread is at, throughout the recorded steps.

PyTorch's profiler does not record lines. So the running line is noted in a few steps of their own,
together with the operations, and carried over to the recorded steps, which nothing slowed down: by
the order of the operations. Traces with Python functions show the lines themselves.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.activity.selection import mask, of_threads
from stepwhy.analyse.steps.sampled_lines import place_of
from stepwhy.base.columns.nesting import callers, nearest
from stepwhy.trace import NULL, Kind, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

ENGINE = "autograd::engine::evaluate_function: "
"""Beginning of the name of a slice in which the backward pass runs a node. Source: PyTorch."""
# Operators have a namespace, as `aten::mm`. Without one, or in those of the backward pass, a
# function only surrounds operations: `MmBackward0`, `CheckpointFunction`, `Torch-Compiled Region`.
_NAMESPACE = "::"
_OF_BACKWARD = ("autograd::", "torch::autograd::")
# Comparing two different sequences of operations takes the product of their lengths.
_MOST_COMPARED = 4_000_000


class DriverParts(msgspec.Struct, frozen=True):
    """Consecutive parts of the driving thread's time in steps, ascending.

    Args:
        starts, ends: ns; (parts,).
        line: Line of the program, a string of the trace; NULL where it is unknown; (parts,).
        unit: The operation that runs, a row of slices; NULL between operations; (parts,).
        engine: Whether the backward pass runs by itself, not code that it calls; (parts,).
        module: Module of the model that was noted, a string of the trace, NULL for none; (parts,).
    """

    starts: Ints
    ends: Ints
    line: Ints
    unit: Ints
    engine: Mask
    module: Ints


class NotedStep(msgspec.Struct, frozen=True):
    """A step in which the running line was noted, in rows that cover it.

    Args:
        dur_ns: Time of each row; (rows,).
        line, engine, module: As in the table `line_times`, and at the end NULL, False and NULL:
            what is at the place NULL; (rows + 1,).
        place: The rows that are operations, and NULL at the end; (operations + 1,).
        names: Names of the operations; (operations,).
    """

    dur_ns: Ints
    line: Ints
    engine: Mask
    module: Ints
    place: Ints
    names: Ints


def carried_parts(facts: Facts) -> DriverParts | None:
    """The parts of the recorded steps by noted lines and operations; None if none were noted."""
    noted = noted_steps(facts)
    if not any(len(one.names) for one in noted) or facts.threads.driving < 0:
        return None
    units, steps = facts.derived(unit_rows), facts.steps
    starts = facts.trace.slices.start_ns[units]
    bounds = np.stack([steps.host_starts, steps.host_ends], axis=1)
    cuts = np.searchsorted(starts, bounds)
    known: dict[bytes, tuple[NotedStep, Ints]] = {}
    parts = []
    for (start, end), (first, last) in zip(bounds.tolist(), cuts.tolist(), strict=True):
        rows = units[first:last]
        names = facts.trace.slices.name[rows].astype(np.int64)
        key = names.tobytes()
        if key not in known:
            # The noted step that is most like the recorded one. One with further operations, as of
            # a branch that the recorded one does not take, may have all of its operations, too.
            matches = [(one, matched(names, one.names)) for one in noted]
            known[key] = max(
                matches,
                key=lambda match: (match[1] != NULL).sum() / (len(names) + len(match[0].names) + 1),
            )
        parts.append(_parts(facts, rows, (start, end), *known[key]))
    return _joined(parts) if parts else None


def unit_rows(facts: Facts) -> Ints:
    """Operations of the driving thread that are in no other one, ascending.

    What only surrounds operations does not count as one: a node of the backward pass, a function of
    the program with its own backward pass, or a compiled one.
    """
    slices = facts.trace.slices
    ops = mask(facts.trace, (Kind.OP,), of_threads(facts.trace, (facts.threads.driving,)))
    ops &= ~_surrounding(facts)
    above = facts.nesting.parent
    has_parent = above != NULL
    around = np.full(len(above), NULL, dtype=np.int32)
    around[has_parent] = nearest(facts.nesting, ops)[above[has_parent]]
    return np.flatnonzero(ops & (around == NULL) & (slices.dur_ns >= 0))


def node_rows(facts: Facts) -> Ints:
    """Slices in which the backward pass runs a node, ascending.

    Older versions of PyTorch record the node alone, newer ones also the engine's call of it.
    """
    slices = facts.trace.slices
    is_node = facts.trace.is_kind(Kind.OP)
    is_node &= (slices.phase == Phase.BACKWARD) & (slices.sequence != NULL)
    return np.flatnonzero(is_node | _engine(facts))


def _engine(facts: Facts) -> Mask:
    ops = facts.trace.is_kind(Kind.OP, Kind.FRAMEWORK)
    ops[ops] = facts.trace.matches(
        facts.trace.slices.name[ops], lambda name: name.startswith(ENGINE)
    )
    return ops


def _surrounding(facts: Facts) -> Mask:
    """Nodes of the backward pass, and other functions, that call operations or Python; (slices,).

    A function of the program with a backward pass of its own is Python, and may call no operation.
    """
    trace, found = facts.trace, _engine(facts)
    found[node_rows(facts)] = True
    ops = trace.is_kind(Kind.OP)
    found[ops] |= trace.matches(trace.slices.name[ops], _only_surrounds)
    called = ops | trace.is_kind(Kind.PYTHON, Kind.FRAMEWORK)
    result: Mask = found & callers(facts.nesting, called)
    return result


def _only_surrounds(name: str) -> bool:
    return _NAMESPACE not in name or name.startswith(_OF_BACKWARD)


def noted_steps(facts: Facts) -> list[NotedStep]:
    """The steps in which the running line was noted, with the operations that were."""
    table = facts.trace.line_times
    steps, firsts = np.unique(table.step, return_index=True)
    ends = [*firsts[1:].tolist(), len(table)]
    found = []
    for first, last in zip(firsts.tolist(), ends[: len(steps)], strict=True):
        rows = slice(first, last)
        op = table.op[rows].astype(np.int64)
        place = np.flatnonzero(op != NULL)
        line, engine = table.line[rows].astype(np.int64), table.engine[rows] == 1
        found.append(
            NotedStep(
                table.dur_ns[rows].astype(np.int64),
                np.append(line, NULL),
                np.append(engine, False),
                np.append(table.module[rows].astype(np.int64), NULL),
                np.append(place, NULL),
                op[place],
            )
        )
    return found


def visits_of(facts: Facts, lines: frozenset[str]) -> int | None:
    """How often a step comes to one of some lines; None if that was not noted.

    Only the steps of which each operation was noted have all visits; a line of which only an inner
    part repeats, as in a comprehension, is visited once.

    Args:
        facts: Facts of the run.
        lines: Places as `place_of` has them, 'data.py(12'.
    """
    table, steps = facts.trace.line_times, [len(one.names) > 0 for one in noted_steps(facts)]
    if not steps or not all(steps):
        return None
    here = facts.trace.matches(table.line, lambda line: place_of(line) in lines)
    counts = [np.count_nonzero(here[table.step == step]) for step in np.unique(table.step)]
    return int(np.median(counts))


def matched(names: Ints, others: Ints) -> Ints:
    """Place of each operation in another sequence of operations, NULL where it has none.

    Args:
        names: Operations in order; (operations,).
        others: The other sequence; (others,).
    """
    found = np.full(len(names), NULL, dtype=np.int64)
    shorter = min(len(names), len(others))
    head = _equal(names[:shorter], others[:shorter])
    if len(names) < len(others):
        # What the other sequence has more of begins as what follows: the first call of a model, of
        # two, and not what is after its first operation.
        head = min(head, shorter - _equal(names[::-1], others[::-1][:shorter]))
    tail = _equal(names[head:][::-1][: shorter - head], others[head:][::-1][: shorter - head])
    found[:head] = np.arange(head)
    found[len(names) - tail :] = np.arange(len(others) - tail, len(others))
    rest, other = names[head : len(names) - tail], others[head : len(others) - tail]
    if 0 < len(rest) * len(other) <= _MOST_COMPARED:
        alike = SequenceMatcher(None, rest.tolist(), other.tolist(), autojunk=False)
        for block in alike.get_matching_blocks():
            places = np.arange(block.b, block.b + block.size) + head
            found[head + block.a : head + block.a + block.size] = places
    return _extended(found, names, others)


def _extended(found: Ints, names: Ints, others: Ints) -> Ints:
    """The places, with those of operations that occur more often than in the other sequence.

    What comes before a known operation is like what comes before its place, as long as the names
    are the same; then what comes after one. A call of the model that one step has more of than the
    other is like one of the others.
    """
    for place in reversed(np.flatnonzero(found == NULL).tolist()):
        after = found[place + 1] if place + 1 < len(found) else NULL
        if after > 0 and names[place] == others[after - 1]:
            found[place] = after - 1
    for place in np.flatnonzero(found == NULL).tolist():
        before = found[place - 1] if place else NULL
        if NULL < before < len(others) - 1 and names[place] == others[before + 1]:
            found[place] = before + 1
    return found


def _equal(names: Ints, others: Ints) -> int:
    """Number of leading operations that are the same."""
    differs = np.flatnonzero(names != others)
    return int(differs[0]) if len(differs) else len(names)


def _parts(
    facts: Facts, rows: Ints, step: tuple[int, int], noted: NotedStep, places: Ints
) -> DriverParts:
    """The parts of one step: its operations, and what was noted between them."""
    slices = facts.trace.slices
    starts = slices.start_ns[rows]
    begins, stops = np.clip(starts, *step), np.clip(starts + slices.dur_ns[rows], *step)
    row = noted.place[places]
    ops = DriverParts(begins, stops, noted.line[row], rows, noted.engine[row], noted.module[row])
    gaps = _gaps(np.append(step[0], stops), np.append(begins, step[1]), noted, places)
    return _joined([ops, gaps])


def _gaps(starts: Ints, ends: Ints, noted: NotedStep, places: Ints) -> DriverParts:
    """The time before each operation and after the last one, divided as in the noted step."""
    gap = _noted_gaps(noted, places)
    first = np.append(0, noted.place[:-1] + 1)[gap]
    last = np.append(noted.place[:-1], len(noted.dur_ns))[gap]
    count = np.where((gap != NULL) & (ends > starts), last - first, 0)
    owner = np.repeat(np.arange(len(gap)), count)
    order = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    row = first[owner] + order
    until = _shares(noted.dur_ns[row], owner, len(gap))
    stops = starts[owner] + (until * (ends - starts)[owner]).astype(np.int64)
    begins = np.where(order == 0, starts[owner], np.roll(stops, 1))
    none = np.full(len(row), NULL, dtype=np.int64)
    divided = DriverParts(
        begins, stops, noted.line[row], none, noted.engine[row], noted.module[row]
    )
    return _joined([divided, _other_gaps(starts, ends, count, noted, places)])


def _noted_gaps(noted: NotedStep, places: Ints) -> Ints:
    """The gap of the noted step that is like each gap of a recorded one; (operations + 1,).

    It is before the same operation, else after the same previous one; NULL if neither was noted.
    """
    count = len(noted.names)
    ends_alike = not len(places) or places[-1] in {NULL, count - 1}
    before = np.append(places, count if ends_alike else NULL)
    after = np.append(0, np.where(places == NULL, NULL, places + 1))
    return np.where(before == NULL, after, before)


def _shares(dur_ns: Ints, owner: Ints, count: int) -> NDArray[np.float64]:
    """At which share of its gap each part ends, 0..1; the last one of a gap at 1; (parts,)."""
    weights = np.maximum(dur_ns, 1).astype(np.float64)
    totals = np.bincount(owner, weights, minlength=count)
    before = np.cumsum(totals) - totals
    shares = (np.cumsum(weights) - before[owner]) / totals[owner]
    is_last = np.append(owner[1:] != owner[:-1], True)[: len(owner)]
    return np.where(is_last, 1.0, np.clip(shares, 0, 1))


def _other_gaps(
    starts: Ints, ends: Ints, count: Ints, noted: NotedStep, places: Ints
) -> DriverParts:
    """Gaps that the noted step does not have: they are of the line of the next operation."""
    gap = np.flatnonzero((count == 0) & (ends > starts))
    row = noted.place[np.append(places, NULL)[gap]]
    none = np.full(len(gap), NULL, dtype=np.int64)
    return DriverParts(
        starts[gap], ends[gap], noted.line[row], none, noted.engine[row], noted.module[row]
    )


def _joined(parts: Sequence[DriverParts]) -> DriverParts:
    """Parts of several steps or kinds in order, without those of no length."""
    columns = [
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("starts", "ends", "line", "unit", "engine", "module")
    ]
    kept = np.flatnonzero(columns[1] > columns[0])
    kept = kept[np.argsort(columns[0][kept], kind="stable")]
    starts, ends, line, unit, engine, module = (column[kept] for column in columns)
    return DriverParts(starts, ends, line, unit, engine.astype(bool), module)
