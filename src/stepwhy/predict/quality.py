"""Whether a recorded trace can be replayed: how much of its critical path has a known cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.activity.selection import mask, of_threads
from stepwhy.base.columns.intervals import Intervals, Measure
from stepwhy.base.columns.longest import critical_path
from stepwhy.base.units import format_fraction
from stepwhy.predict.graph import OPAQUE_NS, build_graph
from stepwhy.predict.points import Point
from stepwhy.predict.replay import recorded_steps, replayed, usual_delays
from stepwhy.result import Replay
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.analyse.facts import Facts
    from stepwhy.base.columns.types import Rows
    from stepwhy.predict.graph import Graph


LEAST_JOINED = 0.6
"""Share of the device work whose launch has to be known."""
MOST_OPAQUE = 0.1
"""Share of the critical path up to which its cause may be unknown."""
MOST_ERROR = 0.05
"""Error of the median step up to which a replay with usual delays reproduces the record."""
# A thread that records nothing for this long may be blocked, ns.
_SILENCE_NS = 1_000_000
_SEEN = (
    Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC, Kind.FRAMEWORK, Kind.PYTHON, Kind.INPUT,
    Kind.COMPILE, Kind.STORAGE,
)  # fmt: skip


class CriticalPath(msgspec.Struct, frozen=True):
    """What the critical path of the steady steps consists of, as shares of their time, 0..1.

    Args:
        device: Work of the device.
        opaque: Delays, silence and waits whose cause was not recorded.
    """

    device: float
    opaque: float


def judge(facts: Facts) -> Replay:
    """Whether the steps of a trace can be replayed."""
    graph = facts.derived(build_graph)
    if not len(graph.nodes.rows) or not len(graph.steps.starts[graph.steady]):
        return Replay(qualifies=False, reasons=("No device work was recorded in a step.",))
    joined = float((graph.nodes.calls != NULL).mean())
    path = critical(facts, graph)
    error, drift = _errors(graph)
    reasons = tuple(_reasons(joined, path.opaque, error))
    return Replay(
        qualifies=not reasons,
        reasons=reasons,
        joined_share=joined,
        opaque_share=path.opaque,
        median_error=error,
        worst_error=drift,
        device_share=path.device,
    )


def _reasons(joined: float, opaque: float, error: float) -> Iterator[str]:
    if joined < LEAST_JOINED:
        share = format_fraction(1 - joined)
        yield f"The launches of {share} of the device work were not recorded."
    if opaque > MOST_OPAQUE:
        share = format_fraction(min(opaque, 1.0))
        yield f"For {share} of the critical path, the trace does not show what was waited for."
    elif error > MOST_ERROR:
        yield f"Delays vary so much that a replay misses the step by {format_fraction(error)}."


def _errors(graph: Graph) -> tuple[float, float]:
    """Error of the median step with usual delays, and the largest of a step's end."""
    steady = graph.steady
    base = recorded_steps(graph)
    usual = replayed(graph, usual_delays(graph))
    before, after = ((steps.end_ns - steps.begin_ns)[steady] for steps in (base, usual))
    ends = [steps.end_ns[steady] - steps.begin_ns[steady][0] for steps in (base, usual)]
    drift = float(np.abs(ends[1] - ends[0]).max() / max(before.mean(), 1))
    return abs(float(np.median(after)) / max(float(np.median(before)), 1) - 1), drift


def critical(facts: Facts, graph: Graph) -> CriticalPath:
    """What the critical path of the steady steps consists of."""
    nodes = graph.nodes
    base = recorded_steps(graph)
    begin_ns, end_ns = int(base.begin_ns[graph.steady][0]), int(base.end_ns[-1])
    path = critical_path(graph.net, graph.binding, _last(graph, end_ns))
    path = path[nodes.end_ns[path] >= begin_ns]
    ran = np.append(graph.edges.from_end[graph.binding[path[1:]]], True)
    on_device, spent = path >= nodes.first, np.where(ran, nodes.duration_ns[path], 0)
    delay_ns = graph.delay_ns[path[1:]]
    opaque = int(delay_ns[delay_ns > OPAQUE_NS].sum())
    opaque += _unseen_ns(facts, graph, path[~on_device & ran])
    total = max(end_ns - begin_ns, 1)
    return CriticalPath(float(spent[on_device].sum() / total), opaque / total)


def _last(graph: Graph, end_ns: int) -> int:
    """The node with which the last step ends."""
    nodes = graph.nodes
    work = nodes.first + np.flatnonzero(graph.step == len(nodes.points.of(Point.STEP_END)) - 1)
    last = work[nodes.end_ns[work] == end_ns]
    return int(last[0]) if len(last) else int(nodes.points.of(Point.STEP_END)[-1])


def _unseen_ns(facts: Facts, graph: Graph, points: Rows) -> int:
    """Time after some points in which nothing was recorded, or a wait without a known cause."""
    nodes = graph.nodes
    duration_ns, start_ns = nodes.duration_ns[points], nodes.start_ns[points]
    silent = _silences(facts, int((start_ns + duration_ns).max(initial=facts.span[0])))
    waits = (nodes.points.kind[points] == Point.WAIT_BEGIN) & (duration_ns > OPAQUE_NS)
    unseen = silent.within(start_ns, start_ns + duration_ns)
    return int(np.where(waits, duration_ns, unseen).sum())


def _silences(facts: Facts, until_ns: int) -> Measure:
    """Gaps before `until_ns` in which the driving threads record nothing for long."""
    trace, (since_ns, end_ns) = facts.trace, facts.span
    # What comes so soon after ends the last gap; nothing later matters.
    until_ns = min(until_ns + _SILENCE_NS, end_ns)
    before = slice(np.searchsorted(trace.slices.start_ns, until_ns))
    is_seen = mask(trace, _SEEN, of_threads(trace, facts.threads.all))[before]
    gaps = Intervals.single(since_ns, until_ns) - intervals_of(trace, np.flatnonzero(is_seen))
    long = gaps.ends - gaps.starts > _SILENCE_NS
    return Measure(Intervals(gaps.starts[long], gaps.ends[long]))
