"""What other ranks are compared with: the summary of one rank."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.lateness.rank_collectives import find_collectives
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.ranks.rank_times import MOST_OPERATIONS, OpTime, Rank
from stepwhy.analyse.ranks.step_work import log_of
from stepwhy.analyse.ranks.untraced_ranks import UntracedRank
from stepwhy.analyse.run.usable import unusable
from stepwhy.analyse.steps.cores import CONTENDED, core_waits_ns_per_step, run_delay_share
from stepwhy.analyse.steps.sampled_lines import FRAMEWORKS, driver_packages, python_lines
from stepwhy.result import CATEGORIES
from stepwhy.trace import NULL, Kind, Phase

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts

# Share of the samples from which on a line can be why a rank is late.
_FREQUENT = 0.1


def summarise_rank(facts: Facts) -> Rank | None:
    """The summary of a rank; None if its record cannot show where its time goes.

    Args:
        facts: Facts of the rank.
    """
    if unusable(facts) or not facts.steady_count:
        return None
    meta, per_step = facts.trace.meta, facts.per_step[facts.steps.steady]
    is_own = np.array([name != "communication" for name in CATEGORIES])
    lines = python_lines(facts.sampled)
    passes, passes_ns = _passes(facts)
    return Rank(
        number=meta.rank,
        stage=dict(meta.stages).get(meta.rank, NULL),
        breakdown=facts.breakdown,
        own_ns=per_step[:, is_own].sum(axis=1),
        line=lines[0][0] if lines and lines[0][1] >= _FREQUENT else "",
        contended=(run_delay_share(facts.sampled) or 0.0) >= CONTENDED,
        cpu_ns=facts.observed.driver.cpu_ns if facts.observed else None,
        core_wait_ns=_core_wait(facts),
        core_waits_ns=core_waits_ns_per_step(facts.sampled, facts.wall_ns),
        on_cpu=not facts.has_accelerator,
        passes=passes,
        passes_ns=passes_ns,
        log=log_of(facts.trace, facts.observed),
        collectives=find_collectives(facts),
        per_step=per_step,
        operations=_operations(facts),
        lines=_lines(facts),
    )


def summarise_untraced(facts: Facts) -> UntracedRank | None:
    """The summary of a rank without a traced step; None if it has no steps, or too few samples.

    Args:
        facts: Facts of the rank.
    """
    samples = driver_packages(facts.sampled)
    if len(facts.trace.slices) or facts.observed is None or not samples:
        return None
    outside: Counter[str] = Counter()
    for (line, package), count in samples.items():
        if line and package not in FRAMEWORKS:
            outside[line] += count
    return UntracedRank(
        number=facts.trace.meta.rank,
        wall_ns=facts.wall_ns,
        samples=samples.total(),
        outside=outside.total(),
        line=max(outside, key=lambda line: outside[line], default=""),
        core_wait_ns=facts.observed.driver.core_wait_ns,
        cpu_ns=facts.observed.driver.cpu_ns,
    )


def _core_wait(facts: Facts) -> int | None:
    """Mean wait of the driving thread for a core in the steady recorded steps; None if unknown.

    In a few steps it may be far from what it is on average, and their work is what is compared.
    """
    marks, steps = facts.trace.marks, facts.steps
    middle_ns = (steps.host_starts + steps.host_ends)[steps.steady] // 2
    rows = np.searchsorted(marks.start_ns, middle_ns, side="right") - 1
    waits_ns = marks.run_delay_ns[rows[rows >= 0]]
    known = waits_ns[waits_ns != NULL]
    return round(float(known.mean())) if len(known) else None


def _operations(facts: Facts) -> tuple[OpTime, ...]:
    """What takes longest in the mean steady step on the host and on devices, except collectives."""
    rows = [row for row in facts.ops.largest(2 * MOST_OPERATIONS) if row.kind != Kind.COLLECTIVE]
    found = []
    for on_host in (True, False):
        mine = [row for row in rows if (row.device == "host") is on_host][:MOST_OPERATIONS]
        found += [OpTime(row.name, row.phase, on_host, facts.mean_ns(row.self_ns)) for row in mine]
    return tuple(found)


def _lines(facts: Facts) -> tuple[OpTime, ...]:
    """The lines of the program that take longest, if any are known."""
    known = facts.derived(line_breakdown)
    rows = [] if known is None else [row for row in known.lines if row.kind == "line"]
    return tuple(
        OpTime(row.line, Phase.UNKNOWN, on_host=True, self_ns=row.time_ns)
        for row in rows[:MOST_OPERATIONS]
    )


def _passes(facts: Facts) -> tuple[float | None, int]:
    """Forward passes per step, None if not recorded, and the time in passes of both kinds."""
    if "passes" not in facts.trace.meta.signals:
        return None, 0
    slices, rows = facts.trace.slices, facts.slices(Kind.KERNEL, steady=True)
    phase, dur_ns = slices.phase[rows], slices.dur_ns[rows]
    forward = phase == Phase.FORWARD
    total_ns = int(dur_ns[forward | (phase == Phase.BACKWARD)].sum())
    return int(forward.sum()) / facts.steady_count or None, facts.mean_ns(total_ns)
