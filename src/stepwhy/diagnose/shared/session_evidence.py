"""Evidence from the parts of `Session.run` calls, for several diagnoses."""

from __future__ import annotations

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.placement import Node, placed_nodes
from stepwhy.analyse.program.session_parts import SessionParts
from stepwhy.base.patterns import regex
from stepwhy.base.units import format_count, format_ns
from stepwhy.diagnose.shared.advice import advice
from stepwhy.diagnose.shared.sampled import launching_lines
from stepwhy.result import Evidence, Fix

OVERHEAD = 0.20  # of the step; less is not worth changing what is fed and fetched
LEAST_OVERHEAD_NS = 1_000_000  # per step; each Session.run takes some tenths of a millisecond
WORTH_NAMING = 0.01  # of the step; shorter bursts only make the list longer

# Source: `gradients_util.py`, names of the scopes that tf.gradients opens.
_BACKWARD = regex(r"(?:^|/)gradients(?:_\d+)?/|_grad/")


def feed_less() -> Fix:
    """What to do about time around the operations of `Session.run`."""
    return advice(__name__, "feed-less")


def is_overhead(facts: Facts, parts: SessionParts, explained_ns: float = 0) -> bool:
    """Whether a step spends much time in `Session.run` while no operation runs.

    Time between two operations does not count, nor time in which other threads hold the GIL:
    feeding or fetching less would shorten neither.

    Args:
        facts: Facts of the run.
        parts: Parts of the steps.
        explained_ns: Time per step that does not count, because its cause is known.
    """
    around_ns = parts.before_ns + parts.after_ns - facts.lock_wait_ns - explained_ns
    return around_ns >= max(OVERHEAD * parts.wall_ns, LEAST_OVERHEAD_NS)


def session_evidence(facts: Facts, parts: SessionParts) -> tuple[Evidence, ...]:
    """Evidence on the backward pass, the parts of the step, and when each device works.

    Args:
        facts: Facts of the run.
        parts: Parts of the steps.
    """
    nodes = placed_nodes(facts)
    inside = (*_first_runs(facts), *_sum(facts, parts), *_bursts(parts))
    return (*_graph(nodes), *inside, *launching_lines(facts))


def _graph(nodes: list[Node]) -> list[Evidence]:
    """Number of backward operations that ran, if the graph has any."""
    built = {n.name for n in nodes if _BACKWARD.search(n.name)}
    ran = {n.name for n in nodes if n.actual and n.name in built}
    if not built:
        return []
    where = f"of {format_count(len(built))} built" + ("" if ran else ": no burst is backward")
    return [Evidence("operations of backpropagation that ran", len(ran), "count", where)]


def _first_runs(facts: Facts) -> list[Evidence]:
    """Mean step including the first runs, which prepare the graph: what a stopwatch shows."""
    observed = facts.observed
    if observed is None or not observed.warm_up:
        return []
    mean = round(float(observed.durations_ns.mean()))
    first = "the first run" if observed.warm_up == 1 else f"the first {observed.warm_up} runs"
    slowest = format_ns(int(observed.durations_ns[: observed.warm_up].max()))
    where = f"of all untraced runs; the slowest of the first ones takes {slowest}"
    return [Evidence(f"mean step including {first}", mean, "ns", where)]


def _sum(facts: Facts, parts: SessionParts) -> list[Evidence]:
    """The wall time, the parts that it is the sum of, and the cost of tracing."""
    by_time = [
        ("before the first operation of Session.run", parts.before_ns, ""),
        *((name, ns, "any device") for name, ns in parts.bursts_ns.items()),
        ("between two operations", parts.scheduling_ns, ""),
        ("longer gaps between two operations", parts.silent_ns, ""),
        ("after the last operation of Session.run", parts.after_ns, ""),
        ("Python between two runs", parts.outside_ns, ""),
        ("preparation of the graph", parts.preparing_ns, ""),
        ("without evidence", parts.unexplained_ns, ""),
    ]
    found = [Evidence("wall time of the step", parts.wall_ns, "ns")]
    found += [Evidence(what, ns, "ns", where) for what, ns, where in by_time if ns]
    unexplained = Evidence(
        "share of the step without evidence", facts.share("unexplained"), "fraction"
    )
    found.append(unexplained)
    if parts.handing_over_ns:
        what = "extra time of a traced run"
        found.append(Evidence(what, parts.handing_over_ns, "ns", "not in the sum"))
    if parts.slower is not None:
        change = "slowdown" if parts.slower >= 0 else "relative speed-up"
        what = f"{change} of the rest of a traced run"
        found.append(Evidence(what, abs(parts.slower), "fraction"))
    return found


def _bursts(parts: SessionParts) -> list[Evidence]:
    """Work of each device in a traced run, with its start and end."""
    return [
        Evidence(
            f"traced: {b.name} on {b.device}",
            b.busy_ns,
            "ns",
            f"from {format_ns(b.start_ns)} to {format_ns(b.end_ns)}",
        )
        for b in parts.bursts
        if b.busy_ns >= WORTH_NAMING * parts.wall_ns
    ]
