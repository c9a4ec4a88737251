"""How the recorded time of each category is divided among the lines of the program."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from stepwhy.analyse.activity.devices import HOST_DEVICE, computes
from stepwhy.analyse.breakdown.closed import ON_DEVICE
from stepwhy.analyse.breakdown.own_python import GENERATED
from stepwhy.analyse.lines.driver_lines import DriverParts, carried_parts, node_rows
from stepwhy.analyse.lines.innermost_parts import innermost_parts
from stepwhy.analyse.lines.optimizer_time import optimizer_time
from stepwhy.analyse.lines.profiled_input import unprofiled_input
from stepwhy.analyse.lines.slice_lines import slice_lines, traced_lines
from stepwhy.analyse.lines.timed_lines import timed_parts, with_times
from stepwhy.analyse.steps.sampled_lines import NOT_OWN, driver_packages, generator_lines
from stepwhy.base.columns.groups import group_rows, numbered
from stepwhy.base.columns.intervals import Intervals, Measure
from stepwhy.base.columns.nesting import nearest
from stepwhy.trace import NULL, Kind, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.lines.slice_modules import SliceModules

    Ints = NDArray[np.int64]

# In these categories the program's own code runs; in the others, that of the framework.
_OWN_CODE = ("python", "storage")


class Owner(NamedTuple):
    """What time is credited to.

    Args:
        line: Line of the program; '' for none.
        phase: Phase of the operation that runs.
        operation: Its name; '' between operations.
    """

    line: str
    phase: Phase
    operation: str


NOBODY = Owner("", Phase.UNKNOWN, "")
"""Owner of the time that no line is credited with."""


class Credited(msgspec.Struct, frozen=True):
    """What the owners do in the recorded steady steps.

    Args:
        shares: Share of each owner in the time of a category, 0..1, which sum to 1.
        counts: How often each owner's operation ran.
    """

    shares: dict[Owner, float]
    counts: Counter[Owner]


class Part(NamedTuple):
    """A module that a line runs, and an operation in it.

    Args:
        module: Number of the module, see `slice_modules`.
        owner: What its time is credited to.
    """

    module: int
    owner: Owner


class _Claims(msgspec.Struct, frozen=True):
    """Times at which something of a line is active.

    Args:
        starts, ends: ns; (claims,).
        overlap: Whether several may be active at once.
        line: Strings of the trace, NULL if unknown; (claims,).
        phase: Values of `Phase`; (claims,).
        name: Operation, a string of the trace; NULL for none; (claims,).
        row: The slice that is active, NULL for none; (claims,).
    """

    starts: Ints
    ends: Ints
    line: Ints
    phase: NDArray[np.int8]
    name: Ints
    row: Ints
    overlap: bool

    def only(self, chosen: NDArray[np.bool_]) -> _Claims:
        """Some of the claims.

        Args:
            chosen: Which; (claims,).
        """
        return _Claims(
            self.starts[chosen],
            self.ends[chosen],
            self.line[chosen],
            self.phase[chosen],
            self.name[chosen],
            self.row[chosen],
            self.overlap,
        )


def driver_parts(facts: Facts) -> DriverParts | None:
    """The driving thread's time by line; None if the trace does not tell."""
    parts = facts.derived(carried_parts)
    if parts is not None:
        return parts
    parts, timed = innermost_parts(facts, facts.derived(traced_lines)), facts.derived(timed_parts)
    return parts if timed is None else with_times(parts, timed)


def credited(facts: Facts, category: str) -> Credited:
    """How the time of a category is divided.

    Work of a device belongs to the line that launched it. The rest of a step belongs to the line at
    which the driving thread was meanwhile, which stack samples tell if nothing else does.
    """
    generating = _generating(facts)
    if generating and category == "input_wait":
        return Credited(_made(facts, generating), Counter())
    found = _credited(facts, category)
    return _without(found, generating) if category in GENERATED else found


def _credited(facts: Facts, category: str) -> Credited:
    time, claims = _steady_time(facts, category), _claims(facts, category)
    if claims is None or not time.total_ns:
        return Credited(sampled_shares(facts, category), Counter())
    times = _credits(claims, time)
    usual = _usual(facts, claims, times)
    if category == "input_wait" and not claims.overlap:
        usual = unprofiled_input(facts, claims.starts, claims.line, usual)
    total_ns = time.total_ns + float(usual.sum() - times.sum())
    shares, counts = _by_owner(facts, claims, usual / total_ns)
    left = max(1.0 - sum(shares.values()), 0.0) + shares.pop(NOBODY, 0.0)
    rest = {NOBODY: 1.0} if category in ON_DEVICE else sampled_shares(facts, category)
    for owner, share in rest.items():
        shares[owner] = shares.get(owner, 0.0) + left * share
    return Credited(shares, counts)


def _generating(facts: Facts) -> frozenset[str]:
    """Lines of generators whose time the breakdown counts as input wait, but the record does not.

    Empty where the record shows waits for the input.
    """
    if facts.recorded["input_wait"] or not facts.breakdown["input_wait"]:
        return frozenset()
    return generator_lines(facts.sampled)


def _made(facts: Facts, generating: frozenset[str]) -> dict[Owner, float]:
    """Shares of the lines of generators in the time in which they make batches."""
    times: dict[Owner, float] = {}
    for category in GENERATED:
        for owner, share in _credited(facts, category).shares.items():
            if owner.line in generating:
                times[owner] = times.get(owner, 0.0) + share * facts.recorded[category]
    total = sum(times.values())
    return {owner: ns / total for owner, ns in times.items()} if total else {NOBODY: 1.0}


def _without(found: Credited, generating: frozenset[str]) -> Credited:
    """The rest of a category, where the time of generators was taken out of it."""
    kept = {owner: share for owner, share in found.shares.items() if owner.line not in generating}
    total = sum(kept.values())
    if not total:
        return found
    return Credited({owner: share / total for owner, share in kept.items()}, found.counts)


def module_shares(
    facts: Facts, category: str, line: str, modules: SliceModules
) -> tuple[dict[Part, float], Counter[Part]]:
    """The recorded time of a line in a category by module, ns, and how often operations ran.

    Args:
        facts: Facts of the run.
        category: The category.
        line: The line.
        modules: The modules of the run.
    """
    time, claims = _steady_time(facts, category), _claims(facts, category)
    found: dict[Part, float] = {}
    counts: Counter[Part] = Counter()
    if claims is None:
        return found, counts
    ns = _credits(claims, time)
    is_own = np.isin(claims.line, facts.trace.strings_where({line})) & (ns > 0)
    some = np.flatnonzero(is_own)
    row = claims.row[some]
    between = row == NULL
    named = np.flatnonzero(modules.number)
    row[between] = _innermost_at(facts, named, claims.starts[some][between])
    module = np.append(modules.number, 0)[row]
    if len(modules.noted) and not claims.overlap:  # each part of the thread's time is a claim
        module = np.where(module == 0, modules.noted[some], module)
    first, group = group_rows(module, claims.phase[some], claims.name[some])
    sums = np.bincount(group, ns[some], minlength=len(first))
    numbers = np.bincount(group, ~between, minlength=len(first))
    for place, row, total, number in zip(
        first.tolist(), some[first].tolist(), sums.tolist(), numbers.tolist(), strict=True
    ):
        name = facts.trace.string(int(claims.name[row]))
        part = Part(int(module[place]), Owner(line, Phase(int(claims.phase[row])), name))
        found[part] = found.get(part, 0.0) + total
        counts[part] += round(number)
    return found, counts


def _steady_time(facts: Facts, category: str) -> Intervals:
    """When the recorded steady steps are in a category.

    The record does not show Python of the program. What the breakdown then counts as that, because
    the thread was running, is unexplained in the record.
    """
    steady = facts.steps.steady
    time = facts.partition.sets[category]
    moved = facts.recorded["unexplained"] - facts.breakdown["unexplained"]
    if category == "python" and moved > facts.recorded["unexplained"] / 2:
        time = time | facts.partition.sets["unexplained"]
    return time & Intervals.of(facts.steps.starts[steady], facts.steps.ends[steady])


def _claims(facts: Facts, category: str) -> _Claims | None:
    """What may claim the time of a category; None if the trace does not tell."""
    on_device = any(activity.index != HOST_DEVICE for activity in facts.leading)
    if category in ON_DEVICE and on_device:
        claims = facts.derived(_of_devices)
        # Other devices may copy meanwhile, which is not compute time.
        return claims.only(computes(facts.trace, claims.row)) if category == "compute" else claims
    return facts.derived(_of_driver)


def _of_devices(facts: Facts) -> _Claims:
    """The claims of work on devices in steady steps, some of which an earlier step has launched."""
    slices, steps = facts.trace.slices, facts.steps
    rows = np.concatenate([a.rows for a in facts.leading if a.index != HOST_DEVICE])
    rows = np.sort(rows).astype(np.int64)
    if facts.steady_count:
        first, last = steps.starts[steps.steady][0], steps.ends[steps.steady][-1]
        rows = rows[(facts.trace.ends(rows) > first) & (slices.start_ns[rows] < last)]
    starts = slices.start_ns[rows]
    calls = facts.launches.calls_of(rows).astype(np.int64)
    ops = nearest(facts.nesting, facts.trace.is_kind(Kind.OP))
    op = np.where(calls == NULL, NULL, ops[calls])
    name = np.where(op == NULL, slices.name[rows], slices.name[op]).astype(np.int64)
    line = facts.derived(slice_lines)[rows].astype(np.int64)
    return _Claims(starts, starts + slices.dur_ns[rows], line, facts.phases[rows], name, rows, True)


def _of_driver(facts: Facts) -> _Claims | None:
    """The claims of the driving thread."""
    parts = driver_parts(facts)
    if parts is None:
        return None
    unit = parts.unit
    # What the backward pass runs belongs to the line of the forward pass.
    slice_at = np.where(unit == NULL, _nodes_around(facts, parts), unit)
    of_slice = np.append(facts.derived(traced_lines), NULL)[slice_at]
    line = np.where(of_slice == NULL, parts.line, of_slice).astype(np.int64)
    phase = np.where(unit == NULL, Phase.UNKNOWN, facts.phases[unit]).astype(np.int8)
    name = np.where(unit == NULL, NULL, facts.trace.slices.name[unit]).astype(np.int64)
    return _Claims(parts.starts, parts.ends, line, phase, name, unit, False)


def _nodes_around(facts: Facts, parts: DriverParts) -> Ints:
    """The slice whose line has the time of the backward pass between operations, NULL for none.

    It is the node that runs, and between two nodes the operation of the next: the backward pass
    prepares it.
    """
    # Index of the next part that is an operation, NULL after the last one.
    count = len(parts.unit)
    place = np.where(parts.unit != NULL, np.arange(count), count)
    place = np.minimum.accumulate(place[::-1])[::-1]
    following = np.where(place == count, NULL, place)
    at_end = following == NULL
    following = np.where(at_end | ~parts.engine[following], NULL, parts.unit[following])
    is_between = np.zeros(len(parts.line), dtype=bool)
    around = parts.engine[:-2] & parts.engine[2:] & (parts.line[:-2] == parts.line[2:])
    is_between[1:-1] = around & (parts.line[1:-1] == parts.line[2:])
    node = np.where(parts.engine, _innermost_at(facts, node_rows(facts), parts.starts), NULL)
    found: Ints = np.where((node == NULL) & (is_between | parts.engine), following, node)
    return found


def _innermost_at(facts: Facts, rows: Ints, times: Ints) -> Ints:
    """Innermost of some slices of the driving thread at each time, NULL for none; (times,)."""
    trace = facts.trace
    rows = rows[trace.slices.track[rows] == facts.threads.driving]
    is_one = np.zeros(len(trace.slices) + 1, dtype=bool)
    is_one[rows] = True
    around = nearest(facts.nesting, is_one[:-1])
    above = np.append(np.append(around, NULL)[facts.nesting.parent], NULL)
    place = np.searchsorted(trace.slices.start_ns[rows], times, side="right") - 1
    found = np.append(rows, NULL)[place]
    while len(over := np.flatnonzero((found != NULL) & (trace.ends(found) <= times))):
        found[over] = above[found[over]]
    return found


def _credits(claims: _Claims, time: Intervals) -> NDArray[np.float64]:
    """Time of a set that each claim is credited with, ns; claims share common time; (claims,)."""
    if not claims.overlap:
        return Measure(time).within(claims.starts, claims.ends).astype(np.float64)
    edges, place = numbered(np.concatenate([claims.starts, claims.ends]))
    first, last = place[: len(claims.starts)], place[len(claims.starts) :]
    changes = np.bincount(first, minlength=len(edges)) - np.bincount(last, minlength=len(edges))
    active = np.maximum(np.cumsum(changes)[:-1], 1)
    each = Measure(time).within(edges[:-1], edges[1:]) / active
    until = np.append(0.0, np.cumsum(each))
    found: NDArray[np.float64] = until[last] - until[first]
    return found


def _usual(facts: Facts, claims: _Claims, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """The times of the claims, ns, with the weight that optimizers have in unprofiled steps."""
    optimizer = facts.derived(optimizer_time)
    if optimizer is None or claims.overlap:
        return times
    inside = optimizer.recorded.within(claims.starts, claims.ends) > 0
    return np.where(inside, optimizer.weight * times, times)


def _by_owner(
    facts: Facts, claims: _Claims, shares: NDArray[np.float64]
) -> tuple[dict[Owner, float], Counter[Owner]]:
    """Sums of shares, and numbers of operations, by owner."""
    some = np.flatnonzero(shares > 0)
    keys = claims.line[some], claims.phase[some], claims.name[some]
    first, group = group_rows(*keys)
    sums = np.bincount(group, shares[some], minlength=len(first))
    is_op = claims.row[some] != NULL
    numbers = np.bincount(group, is_op, minlength=len(first))
    found: dict[Owner, float] = {}
    counts: Counter[Owner] = Counter()
    text = facts.trace.string
    for place, share, number in zip(some[first], sums.tolist(), numbers.tolist(), strict=True):
        line = text(int(claims.line[place]))
        phase, name = Phase(int(claims.phase[place])), text(int(claims.name[place]))
        owner = Owner(line, phase, name) if line else NOBODY
        found[owner] = found.get(owner, 0.0) + share
        counts[owner] += round(number)
    return found, counts


def sampled_shares(facts: Facts, category: str) -> dict[Owner, float]:
    """Shares by the stack samples of the driving thread; all is nobody's if there are too few."""
    counts = Counter[str]()
    of_kind = Counter[str]()
    for (line, package), count in driver_packages(facts.sampled).items():
        counts[line] += count
        if (package not in NOT_OWN) == (category in _OWN_CODE):
            of_kind[line] += count
    counts = of_kind or counts
    total = counts.total()
    if not total:
        return {NOBODY: 1.0}
    return {
        Owner(line, Phase.UNKNOWN, "") if line else NOBODY: count / total
        for line, count in counts.items()
    }
