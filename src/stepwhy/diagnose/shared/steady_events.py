"""Logged events and recorded calls in the steady steps, and the evidence made from them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.stalls import StepEvents, events_in, rows_of_kinds
from stepwhy.base.columns.types import AnyRows, Ints
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import by_name, name_of, source_lines
from stepwhy.result import Evidence
from stepwhy.trace import Trace

SHOWN: Final = 3
"""Functions that a finding names."""

FEWEST_EVALUATIONS: Final = 3
"""Calls after the first one that evaluate or predict; fewer do not recur."""

SUMMARY_LINE: Final = "time at the line that makes summaries"
"""Evidence of `logging-stall`: a line whose operations run one by one."""
SUMMARY: Final = regex(r"[Ss]ummar|tensorboard|[Ee]vent")
"""Names of recorded calls that write summaries and no checkpoint."""


def steady_events(facts: Facts, rows: Ints) -> StepEvents:
    """Those of some events that begin in steady, unprofiled steps of the described stretch.

    Args:
        facts: Facts of the run.
        rows: Rows of the trace's `events`; (events,).
    """
    return events_in(facts.trace, facts.unprofiled_rows, rows)


def cost_per_step(facts: Facts, inside: StepEvents) -> int:
    """Time of some events per step, as a part of the step that the breakdown describes, ns.

    Args:
        facts: Facts of the run.
        inside: The events.
    """
    if facts.observed is not None and facts.observed.stalls_ns:
        return min(inside.mean_ns, facts.wall_ns)
    return round(inside.share * facts.wall_ns)


def evaluations_recur(trace: Trace) -> bool:
    """Whether so many evaluations were logged that `frequent-evaluation` judges them."""
    return len(rows_of_kinds(trace, "evaluation")) > FEWEST_EVALUATIONS


def by_lines(trace: Trace, rows: Ints) -> list[tuple[str, int]]:
    """Lines of the program that caused some events, and their time, ns; the longest first.

    Args:
        trace: The trace.
        rows: Rows of its `events`; (events,).
    """
    times: Counter[str] = Counter()
    for source, dur_ns in zip(
        trace.events.source[rows].tolist(), trace.events.dur_ns[rows].tolist(), strict=True
    ):
        times[trace.string(source)] += dur_ns
    return times.most_common()


def summary(inside: StepEvents, does: str, doing: str) -> tuple[Evidence, ...]:
    """How many steps are affected, for how long, and their share of the time.

    Args:
        inside: The events.
        does: What such a step does, such as 'save'.
        doing: The same as a gerund.
    """
    affected, steps = int(inside.affected.sum()), f"of {len(inside.steps):,} steady steps"
    return (
        Evidence(f"steps that {does}", affected, "count", steps),
        Evidence(f"{doing} in such a step", inside.per_affected_ns, "ns"),
        Evidence("share of the time of all steps", inside.share, "fraction"),
    )


def recorded_calls(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """Time per step of some recorded calls by name, with a line, the longest first.

    Args:
        facts: Facts of the run.
        rows: Their slices; (rows,).
    """
    lines = source_lines(facts, rows).tolist()
    line_of = dict(zip((name_of(facts, row) for row in rows.tolist()), lines, strict=True))
    return tuple(
        Evidence(
            f"time in {group.name}",
            facts.mean_ns(group.total_ns),
            "ns",
            facts.trace.string(line_of[group.name]),
        )
        for group in by_name(facts, rows)[:SHOWN]
    )
