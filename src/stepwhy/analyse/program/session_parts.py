"""Parts of a step of `Session.run` calls, from its wall time to single bursts of operations.

A timeline shows only the operations. The wall time also includes the time before the first
operation, between operations, after the last one, and between two runs. Traced runs show how a run
divides, untraced ones how long it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.steps.overhead import handed_over, ratio_of_medians
from stepwhy.base.columns.groups import distinct, distinct_rows
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Kind, Phase, Role, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.trace import Trace

RUN = "session.run"
"""Name of the slice that is one `Session.run`."""
# An executor starts the next operation within microseconds. When nothing runs for longer (ns), it
# waits for something that was not recorded.
LONGEST_SCHEDULING_NS = 1_000_000

# Operations that read, write and hold variables. A variable 'v' is read by the Identity 'v/read'.
# Source: TensorFlow's op registry.
_VARIABLES = regex(r"Var(?:iable|Handle)\w*|(?:Destroy|Read)Variable\w*|Assign\w*")
_READ = regex(r".*/read(?:/_\d+)?")
_BY_KIND = {
    Kind.INPUT: "input",
    Kind.WAIT: "waiting for other workers",
    Kind.STORAGE: "checkpoints and summaries",
    Kind.PYTHON: "Python functions",
    Kind.COLLECTIVE: "communication",
    Kind.MEMCPY: "copies",
}
_BY_PHASE = {
    Phase.FORWARD: "forward",
    Phase.BACKWARD: "backward",
    Phase.OPTIMIZER: "optimizer",
    Phase.INPUT: "input",
    Phase.COMMUNICATION: "communication",
}
_VARIABLE_TRAFFIC = "variables"
_OTHER = "other operations"
# If several run at once, the time belongs to the first of these, as in the breakdown: computation
# before copies before waiting.
_ORDER = (
    "backward",
    "forward",
    "optimizer",
    _OTHER,
    "Python functions",
    "communication",
    "copies",
    _VARIABLE_TRAFFIC,
    "input",
    "waiting for other workers",
    "checkpoints and summaries",
)


class Burst(msgspec.Struct, frozen=True):
    """The operations of one kind on one device, per mean steady traced step.

    Args:
        device: Name of the device.
        name: What they do: 'forward', 'backward', 'optimizer', 'variables', 'input', ...
        busy_ns: Time in which any of them ran.
        start_ns, end_ns: Of the first and the last of them, from the start of the step.
    """

    device: str
    name: str
    busy_ns: int
    start_ns: int
    end_ns: int


class SessionParts(msgspec.Struct, frozen=True):
    """The parts of the mean steady step; those before `bursts` sum to `wall_ns`.

    Args:
        wall_ns: Wall time of the step, untraced if that was observed.
        outside_ns: Python between two runs, without time in which the thread was blocked.
        preparing_ns: Preparation of new fetches or a grown graph.
        before_ns: Rest of the time before the first operation: Python, conversion of fed values.
        bursts_ns: Time by kind of operation, longest first; overlapping time counts once.
        scheduling_ns: Short gaps, until the executor starts the next operation.
        after_ns: After the last operation: copies of fetched values, Python.
        silent_ns: Longer gaps, in which the executor waits for something that was not recorded.
        unexplained_ns: As in the breakdown: the driving thread was blocked between two runs, or
            untraced runs are longer than traced ones can explain.
        bursts: The bursts on each device, in the order of their start.
        handing_over_ns: Time of a traced run, after its last operation, to write its trace.
        slower: Relative slowdown of the rest of a traced run; None if unknown.
    """

    wall_ns: int
    outside_ns: int
    preparing_ns: int
    before_ns: int
    bursts_ns: dict[str, int]
    scheduling_ns: int
    after_ns: int
    silent_ns: int
    unexplained_ns: int
    bursts: tuple[Burst, ...]
    handing_over_ns: int
    slower: float | None

    @property
    def gap_ns(self) -> int:
        """Time inside a run that is known to pass around operations, without its preparation."""
        return self.before_ns + self.scheduling_ns + self.after_ns


def find_session_parts(facts: Facts) -> SessionParts | None:
    """The parts of the steps; None if they are not traced `Session.run` calls.

    Args:
        facts: Facts of the run.
    """
    trace, steps = facts.trace, facts.steps
    if steps.source != "marker" or RUN not in trace.strings:
        return None
    steady = Intervals.of(steps.starts[steps.steady], steps.ends[steps.steady])
    rows = _working(trace, steps)
    runs = _runs(trace, steps, rows)
    if not len(runs.starts):
        return None
    spans = Intervals.of(runs.first, runs.last)
    busy = intervals_of(trace, rows) & steady
    preparing = intervals_of(trace, trace.rows(Kind.COMPILE)) & steady
    around = steady - spans
    before = (around & Intervals.of(runs.starts, runs.first)) - preparing
    idle = spans - busy
    long = idle.ends - idle.starts > LONGEST_SCHEDULING_NS
    silent = Intervals(idle.starts[long], idle.ends[long])
    kinds = _kinds(facts, rows)
    times = {
        "preparing": (around & preparing).total_ns,
        "before": before.total_ns,
        "scheduling": (idle - silent).total_ns,
        "after": (around - before - preparing).total_ns,
        "silent": silent.total_ns,
        **_exclusive(trace, rows, kinds, spans),
    }
    means = {name: facts.mean_ns(ns) for name, ns in times.items()}
    return _scaled_to_wall_time(facts, means, _bursts(facts, rows, kinds))


class _Runs(msgspec.Struct, frozen=True):
    """The runs of the steady steps in which anything ran, ns; (runs,).

    Args:
        starts: Their starts.
        first, last: Start of the first and end of the last operation.
    """

    starts: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def _runs(trace: Trace, steps: StepTable, rows: NDArray[np.int64]) -> _Runs:
    """The runs of the steady steps; each lasts until the next one begins, or the step ends.

    Args:
        trace: The trace.
        steps: Its steps.
        rows: The slices that ran.
    """
    marks = trace.rows(Kind.STEP, Kind.ANNOTATION, role=Role.HOST_THREAD)
    marks = marks[np.isin(trace.slices.name[marks], trace.strings_where({RUN}))]
    runs = distinct(trace.slices.start_ns[marks])
    runs = runs[steps.in_steady(runs)]
    starts, ends = trace.slices.start_ns[rows], trace.ends(rows)
    run = np.searchsorted(runs, starts, side="right") - 1
    starts, ends, run = starts[run >= 0], ends[run >= 0], run[run >= 0]
    first = np.full(len(runs), np.iinfo(np.int64).max)
    last = np.full(len(runs), np.iinfo(np.int64).min)
    np.minimum.at(first, run, starts)
    np.maximum.at(last, run, ends)
    # An operation that outlasts its run must not extend into the next one.
    following = np.append(runs[1:], np.iinfo(np.int64).max)
    step_ends = steps.ends[np.searchsorted(steps.starts, runs, side="right") - 1]
    last = np.minimum(last, np.minimum(following, step_ends))
    ran = first < last
    return _Runs(runs[ran], first[ran], last[ran])


def _working(trace: Trace, steps: StepTable) -> NDArray[np.int64]:
    """The slices of executors and streams in the steady steps."""
    slices = trace.slices
    role = trace.tracks.role[slices.track]
    works = among(role, (Role.EXECUTOR, Role.STREAM))
    works &= ~trace.is_kind(Kind.DEVICE_WAIT, Kind.DEVICE_ANNOTATION)
    rows = np.flatnonzero(works)
    return rows[steps.in_steady(slices.start_ns[rows])]


def _kinds(facts: Facts, rows: NDArray[np.int64]) -> NDArray[np.int8]:
    """Kind of each operation, as its index in `_ORDER`; (rows,)."""
    slices, phases = facts.trace.slices, facts.phases[rows]
    columns = slices.name[rows], slices.scope[rows], slices.kind[rows], phases
    keys, key = distinct_rows(*columns)
    places = [_ORDER.index(_kind_name(facts.trace, *values)) for values in keys]
    return np.asarray(places, dtype=np.int8)[key]


def _kind_name(trace: Trace, name: int, scope: int, kind: int, phase: int) -> str:
    """Kind of an operation, as named in `_ORDER`."""
    op, node = trace.string(name), "" if scope == NULL else trace.string(scope)
    is_read = op in {"Identity", "Snapshot"} or kind == Kind.MEMCPY
    if is_read and _READ.fullmatch(node):
        return _VARIABLE_TRAFFIC
    if _VARIABLES.fullmatch(op) and phase != Phase.OPTIMIZER:
        return _VARIABLE_TRAFFIC
    return _BY_KIND.get(Kind(kind)) or _BY_PHASE.get(Phase(phase), _OTHER)


def _exclusive(
    trace: Trace, rows: NDArray[np.int64], kinds: NDArray[np.int8], spans: Intervals
) -> dict[str, int]:
    """Time of each kind of work, overlapping time counted once, ns."""
    times, counted = {}, Intervals.empty()
    for place in np.unique(kinds):
        time = (intervals_of(trace, rows[kinds == place]) & spans) - counted
        counted = counted | time
        times[_ORDER[place]] = time.total_ns
    return times


def _bursts(facts: Facts, rows: NDArray[np.int64], kinds: NDArray[np.int8]) -> tuple[Burst, ...]:
    """The bursts on each device."""
    trace, found = facts.trace, []
    devices = trace.tracks.device[trace.slices.track[rows]]
    for device in np.unique(devices):
        for place in np.unique(kinds[devices == device]):
            own = rows[(devices == device) & (kinds == place)]
            start_ns, end_ns = _extent(facts, own)
            name = trace.string(int(trace.devices.name[device]))
            busy_ns = facts.mean_ns(intervals_of(trace, own).total_ns)
            found.append(Burst(name, _ORDER[place], busy_ns, start_ns, end_ns))
    return tuple(sorted(found, key=lambda b: (b.start_ns, b.device, b.name)))


def _extent(facts: Facts, rows: NDArray[np.int64]) -> tuple[int, int]:
    """Mean start of the first and mean end of the last of some slices, from the step's start."""
    steps, starts = facts.steps, facts.trace.slices.start_ns[rows]
    step = np.searchsorted(steps.starts, starts, side="right") - 1
    seen = np.unique(step)
    first = [int(starts[step == s].min() - steps.starts[s]) for s in seen]
    last = [int(facts.trace.end_ns[rows[step == s]].max() - steps.starts[s]) for s in seen]
    return round(float(np.mean(first))), round(float(np.mean(last)))


def _scaled_to_wall_time(
    facts: Facts, means: dict[str, int], bursts: tuple[Burst, ...]
) -> SessionParts:
    """Parts of traced runs on the scale of untraced ones.

    If traced runs take longer, the difference is the cost of tracing, so their parts shrink. If
    they are shorter, their parts are stretched as far as those of the breakdown.
    """
    observed = facts.observed
    wall_ns = facts.wall_ns if observed is None else observed.wall_ns
    outside_ns, unexplained_ns = _around_runs(facts)
    inside_ns = max(wall_ns - outside_ns - unexplained_ns, 0)
    scale = inside_ns / sum(means.values())
    parts = {name: int(ns * scale) for name, ns in means.items()}
    # A few nanoseconds are lost in rounding.
    parts[max(parts, key=lambda name: parts[name])] += inside_ns - sum(parts.values())
    steady = facts.steps.steady
    handed_over_ns = int(handed_over(facts.trace, facts.steps)[steady].sum())
    return SessionParts(
        wall_ns=wall_ns,
        outside_ns=outside_ns,
        preparing_ns=parts.pop("preparing"),
        before_ns=parts.pop("before"),
        scheduling_ns=parts.pop("scheduling"),
        after_ns=parts.pop("after"),
        silent_ns=parts.pop("silent"),
        unexplained_ns=unexplained_ns,
        bursts_ns=dict(sorted(parts.items(), key=lambda part: -part[1])),
        bursts=bursts,
        handing_over_ns=facts.mean_ns(handed_over_ns),
        slower=_slower(facts),
    )


def _around_runs(facts: Facts) -> tuple[int, int]:
    """Python between two runs, and the time without evidence, of the mean step, ns."""
    observed, unexplained_ns = facts.observed, facts.breakdown["unexplained"]
    if observed is None:
        return 0, 0  # imported runs show all of their time
    outside_ns, runnable_ns = observed.driver.outside_ns or 0, observed.driver.runnable_ns
    blocked_ns = 0 if runnable_ns is None else max(outside_ns - runnable_ns, 0)
    return outside_ns - min(blocked_ns, unexplained_ns), unexplained_ns


def _slower(facts: Facts) -> float | None:
    """Relative slowdown of traced runs; None if unknown, as where other programs use the cores."""
    observed = facts.observed
    if observed is None or observed.is_contended:
        return None
    free = observed.durations_ns[observed.warm_up :] - (observed.driver.outside_ns or 0)
    if (free <= 0).any():
        return None
    return ratio_of_medians(facts.steps.durations_ns[facts.steps.steady], free)[0]
