"""Decide what bounds the step, from the closed breakdown; 'unknown' without enough evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.activity.selection import mask, of_role
from stepwhy.analyse.answers.host_load import described_load
from stepwhy.analyse.answers.host_notes import core_contention
from stepwhy.analyse.input.pipelines import find_pipelines, starved_queue
from stepwhy.analyse.run.host_path import host_path_ns
from stepwhy.analyse.run.single_run import is_single, is_whole_graph, lone_runs
from stepwhy.analyse.run.usable import (
    MOST_MISSING_WORK,
    MOSTLY_START_UP,
    shows_steady_steps,
    unusable,
)
from stepwhy.analyse.steps.cores import CONTENDED
from stepwhy.analyse.steps.sampled_lines import python_lines
from stepwhy.result.reasons import (
    Bound,
    Gap,
    Lack,
    Lead,
    MostlyStartUp,
    NeverAhead,
    NoEvidence,
    StarvedQueue,
)
from stepwhy.trace import Kind, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.analyse.facts import Facts
    from stepwhy.result import BoundBy, Finding
    from stepwhy.result.reasons import HostCategory, Reason, Recorded, Unknown

# A device that computes for this share of the step is the limit: nothing else can save half as
# much.
COMPUTE_BOUND = 0.7
# The host is the answer if nothing specific explains the idle device. A specific cause is the
# better answer even if its time is shorter than that of the host by this share of the step.
SPECIFIC_WITHIN = 0.10
# Causes below this share of the step do not bound it.
SMALLEST_CAUSE = 0.10
# In a record of one pass, set-up of up to this share is excluded: the rest shows the pass.
MOSTLY_SET_UP = 2 / 3
# If more than this share has no evidence, the answer is unknown: better than a guess.
MOST_UNEXPLAINED = 0.5
# With no cause at all, idle time beyond this share of the step calls for an explanation.
MOST_IDLE_UNEXPLAINED = 0.2
# A CPU-only step of a deep network runs dozens of operations; with fewer than this per step, the
# record was sampled or filtered.
FEWEST_HOST_OPS = 10
# Fewer device slices than this in a record without steps show single calls, not a training step.
FEWEST_DEVICE_SLICES = 10

UNSEEN_CONFIDENCE = 0.6  # the steps themselves were not seen
# A prefetching thread pauses when its buffer is full. Shorter pauses are those of its loop.
NEVER_AHEAD = 0.95

# Traced steps that take this many times as long as the others, or as short, show other steps.
UNTYPICAL = 3.0

_SPECIFIC: dict[str, BoundBy] = {
    "input_wait": "input",
    "communication": "communication",
    "transfer": "transfer",
    "compile": "startup",
    "storage": "storage",
}
_HOST: tuple[HostCategory, ...] = ("sync", "dispatch", "python")
_CATEGORIES_OF: dict[BoundBy, tuple[str, ...]] = {
    "input": ("input_wait",),
    "communication": ("communication",),
    "transfer": ("transfer",),
    "startup": ("compile",),
    "storage": ("storage",),
    "host": _HOST,
    "compute": ("compute",),
}
# Work of the device that runs beside a host that does not wait for it.
_BESIDE_HOST = frozenset({"transfer", "communication"})
_LOSSES: tuple[BoundBy, ...] = tuple(b for b in _CATEGORIES_OF if b != "compute")


class Decision(msgspec.Struct, frozen=True):
    """What bounds the step; `bound_by` is 'unknown' if the reason is one of `Unknown`."""

    bound_by: BoundBy
    confidence: float
    reason: Reason


def decide(facts: Facts) -> Decision:
    """What bounds the mean steady step of a trace."""
    unknown = unusable(facts) or next(_gaps(facts), None)
    if unknown:
        starved = _starved_queue(facts) if unknown == Gap(Lack.CONTENT_BESIDE_QUEUES) else None
        waits = starved or _never_ahead(facts)
        if waits is not None:
            return Decision("input", UNSEEN_CONFIDENCE, waits)
        return Decision("unknown", 0.0, unknown)
    share = start_up_share(facts)
    # In a run that stepwhy observed, set-up in steady steps is not start-up.
    # If the whole trace is one pass, set-up can be excluded, and the rest still shows the pass.
    most_start_up = MOSTLY_SET_UP if facts.steps.source == "whole-trace" else MOSTLY_START_UP
    if share > most_start_up and facts.observed is None and not _outlasts_start_up(facts):
        return Decision("startup", _confidence(facts, share), MostlyStartUp(share))
    # Set-up is left out: later passes do not repeat it.
    set_up, wall = set_up_ns(facts), facts.wall_ns
    own = {**facts.breakdown, "compile": facts.breakdown["compile"] - set_up}
    losses = {category: time / max(wall - set_up, 1) for category, time in own.items()}
    bound_by = _largest(losses)
    if bound_by in _BESIDE_HOST and _host_works_throughout(facts):
        share = host_path_ns(facts) / facts.wall_ns
        return Decision("host", _confidence(facts, share), _bound(facts, "host"))
    category = max(_CATEGORIES_OF[bound_by], key=losses.__getitem__)
    return Decision(bound_by, _confidence(facts, losses[category]), _bound(facts, bound_by))


def _host_works_throughout(facts: Facts) -> bool:
    """Whether the host's own work leaves so little of the step that nothing else can bound it."""
    return host_path_ns(facts) > (1 - SMALLEST_CAUSE) * facts.wall_ns


def _starved_queue(facts: Facts) -> StarvedQueue | None:
    """The queue that was empty nearly all the time; None if there is none."""
    emptiest = starved_queue(find_pipelines(facts.trace, None))
    if emptiest is None:
        return None
    return StarvedQueue(emptiest.name, emptiest.empty_share or 0.0)


def _never_ahead(facts: Facts) -> NeverAhead | None:
    """Fetches that never pause, in a record of nothing else; None if there is something else."""
    kinds = facts.trace.slices.kind
    if not len(kinds) or (kinds != Kind.INPUT).any():
        return None
    first_ns, last_ns = facts.span
    share = facts.evidence["input_wait"].total_ns / max(last_ns - first_ns, 1)
    return NeverAhead(share) if share >= NEVER_AHEAD else None


def _outlasts_start_up(facts: Facts) -> bool:
    """Whether the record shows the training step well, however long its first steps took."""
    return shows_steady_steps(facts) and facts.share("compile") <= MOSTLY_START_UP


def start_up_share(facts: Facts) -> float:
    """Share of the recorded steps that is start-up: warm-up beyond a steady step, or set-up."""
    durations = facts.steps.durations_ns
    total = int(durations.sum())
    if not total:
        return 0.0
    warm, steady = durations[: facts.steps.warm_up], durations[facts.steps.steady]
    excess = int(warm.sum()) - len(warm) * float(np.median(steady)) if len(warm) else 0.0
    return float(max(excess / total, facts.share("compile")))


def _gaps(facts: Facts) -> Iterator[Unknown]:
    """Why a usable record cannot show what bounds the step, the reason to report first."""
    ops, device_slices = _ops_per_step(facts), sum(len(a.rows) for a in facts.leading)
    is_whole = facts.steps.source == "whole-trace"
    if ops is not None and ops < FEWEST_HOST_OPS and not (ops and _is_complete(facts)):
        yield Gap(Lack.OPERATIONS, ops)
    is_single = facts.has_accelerator and is_whole and device_slices < FEWEST_DEVICE_SLICES
    if is_single and facts.share("compile") < MOSTLY_START_UP:
        yield Gap(Lack.WHOLE_STEP, device_slices)
    # A wait for a device that does nothing is a wait for work outside the record.
    if is_whole and facts.share("sync") > MOST_UNEXPLAINED:
        yield Gap(Lack.AWAITED_WORK, facts.share("sync"))
    observed = facts.observed
    if observed is not None and observed.ahead is not None and observed.ahead.at_least:
        yield Gap(Lack.LAST_WAIT, observed.wall_ns)
    # If the host runs ahead, only steps that wait for the device show what it does.
    if facts.observed is not None and not facts.observed.wait_traced and not _is_decided(facts):
        yield Gap(Lack.TRACED_WAITS)
    yield from _without_evidence(facts)


def _is_complete(facts: Facts) -> bool:
    """Whether a record with few operations lacks none: the work is small, or a few calls.

    Windows that stepwhy traced itself leave no operation out.
    """
    if facts.observed is not None:
        return facts.share("unexplained") <= MOST_UNEXPLAINED
    worked = facts.share("compute") + facts.share("compile")
    return facts.steps.source == "whole-trace" and worked > 1 - MOST_UNEXPLAINED


def _is_decided(facts: Facts) -> bool:
    """Whether it is known what takes most of the mean step, whatever untraced waits are for.

    Stalls, such as compilations, were measured without a trace.
    """
    most = MOST_UNEXPLAINED * facts.wall_ns
    stalled = sum(facts.observed.stalls_ns.values()) if facts.observed else 0
    known = max(ns for category, ns in facts.breakdown.items() if category != "unexplained")
    return stalled > most or (known > most and next(_without_evidence(facts), None) is None)


def _ops_per_step(facts: Facts) -> float | None:
    """Operations per steady step on the CPU; None if their number is no evidence."""
    trace = facts.trace
    if not len(trace.slices) or facts.has_accelerator or len(trace.nodes):
        return None
    if trace.meta.framework == "jax":
        return None  # XLA fuses a whole step into a handful of operations
    if is_whole_graph(facts):
        return None  # the graph is small
    on_host, on_executors = (of_role(trace, r) for r in (Role.HOST_THREAD, Role.EXECUTOR))
    ops = mask(trace, (Kind.OP,), on_host) | mask(trace, (Kind.KERNEL,), on_executors)
    return float(np.count_nonzero(ops & facts.is_steady) / max(facts.steady_count, 1))


def _without_evidence(facts: Facts) -> Iterator[Unknown]:
    unexplained = facts.share("unexplained")
    if unexplained > MOST_UNEXPLAINED:
        yield _no_evidence(facts)
    known = max(*(facts.share(c) for c in _SPECIFIC), sum(facts.share(c) for c in _HOST))
    if known < SMALLEST_CAUSE and unexplained > MOST_IDLE_UNEXPLAINED:
        yield Gap(Lack.CAUSE_OF_IDLE_TIME, unexplained)


def _no_evidence(facts: Facts) -> NoEvidence:
    unexplained = facts.share("unexplained")
    if facts.observed is None:
        has_ops = "host-ops" in facts.trace.meta.signals
        return NoEvidence(unexplained, Lead.RECORD_STACKS if has_ops else Lead.RECORD_AGAIN)
    load = described_load(facts)
    waiting = load.run_delay_share if load else None
    if waiting is not None and waiting >= CONTENDED:
        return NoEvidence(unexplained, Lead.BUSY_CORES, waiting)
    lines = python_lines(facts.sampled)
    if lines and lines[0][1] >= SMALLEST_CAUSE:
        line, share = lines[0]
        return NoEvidence(unexplained, Lead.SAMPLED_LINE, share, line)
    return NoEvidence(unexplained, Lead.BETWEEN_CALLS)


def set_up_share(facts: Facts) -> float:
    """Share of the time of the record that is set-up, in the described steps or before them; 0..1.

    0 in a run that stepwhy observed: it reports the start of the program by itself.
    """
    if facts.observed is not None or not len(facts.trace.slices):
        return 0.0
    first_ns, last_ns = facts.span
    durations, warm_up = facts.recorded_steps.durations_ns, facts.recorded_steps.warm_up
    excess = durations[:warm_up].sum() - warm_up * np.median(durations[warm_up:]) if warm_up else 0
    set_up = max(facts.partition.sets["compile"].total_ns, float(excess))
    return float(set_up / max(last_ns - first_ns, 1))


def set_up_ns(facts: Facts) -> int:
    """First-run set-up in a record of a single pass, ns; 0 if steps are known to repeat."""
    is_one_pass = facts.steps.source == "whole-trace" and facts.observed is None
    return facts.breakdown["compile"] if is_one_pass else 0


def _largest(losses: dict[str, float]) -> BoundBy:
    """What bounds a step with these shares."""
    if losses["compute"] >= COMPUTE_BOUND:
        return "compute"
    specific = max(_SPECIFIC, key=losses.__getitem__)
    host = sum(losses[c] for c in _HOST)
    best = losses[specific]
    if max(best, host) < SMALLEST_CAUSE:
        return "compute"
    if best >= SMALLEST_CAUSE and host - best <= SPECIFIC_WITHIN:
        return _SPECIFIC[specific]
    return "host"


def _confidence(facts: Facts, share: float) -> float:
    """Confidence, 0..1; lower with unexplained, guessed or lost time, and untypical steps."""
    base = 1.0 - facts.share("unexplained")
    if facts.steps.source == "whole-trace" and "whole-step" not in facts.trace.meta.signals:
        base *= 0.8
    elif facts.steps.source != "whole-trace":
        base *= 0.5 + 0.5 * facts.steps.confidence
    if any(c.severity == "error" for c in facts.trace.health.counters):
        base *= 0.5
    if facts.trace.health.has("guessed-device-time"):
        base *= 0.5
    # Lower with each missing kernel, down to the share from which on the verdict is unknown.
    if facts.has_accelerator:
        base *= 1 - min(facts.missing_work.share / MOST_MISSING_WORK, 1.0)
    if facts.observed is not None:
        # Traced steps may be several times longer or shorter than the others.
        ratio = 1 + (facts.observed.profiler_cost or 0.0)
        base *= 1.0 if 1 / UNTYPICAL < ratio < UNTYPICAL else 0.5
        contention = core_contention(described_load(facts))
        base *= 1 - (contention.share if contention else 0.0)
    return round(float(base * min(1.0, 0.6 + share)), 2)


def _bound(facts: Facts, by: BoundBy) -> Bound:
    times = {bound: sum(facts.breakdown[c] for c in _CATEGORIES_OF[bound]) for bound in _LOSSES}
    set_up = set_up_ns(facts)
    times["startup"] -= set_up
    wall_ns = facts.wall_ns - set_up
    lost_to = max(_LOSSES, key=times.__getitem__)
    is_worth_naming = lost_to != by and times[lost_to] >= SMALLEST_CAUSE * wall_ns
    compute_ns = facts.breakdown["compute"]
    return Bound(
        by,
        compute_ns if by == "compute" else times[by],
        wall_ns,
        compute_ns=compute_ns,
        lost_to=lost_to if is_worth_naming else None,
        lost_ns=times[lost_to],
        set_up_ns=set_up,
        devices=len(facts.leading),
        kind=facts.leading[0].kind.name.lower() if facts.has_accelerator else "cpu",
        host=max(_HOST, key=facts.share),
        host_ns=host_path_ns(facts) if by == "host" and _host_works_throughout(facts) else 0,
        locked=by == "input" and facts.lock_wait_ns > times["input"] / 2,
        of=recorded_of(facts),
    )


def recorded_of(facts: Facts) -> Recorded:
    """What the times of a record are of."""
    if not is_single(facts):
        return "runs" if lone_runs(facts) else "steps"
    is_run = "whole-step" in facts.trace.meta.signals
    return "run" if is_run else "trace" if facts.steps.source == "whole-trace" else "step"


# A fix that saves less than this share of the cost of its problem is not the first one to make.
LITTLE_SAVED = 0.1
# Findings that only repeat the verdict in more detail.
_SAME = {
    "unknown": {"wall-device-gap", "warmup-included", "slow-startup", "noisy-steps"},
    "input": {"input-bound"},
    "host": {"launch-bound", "host-sync", "session-overhead", "wall-device-gap"},
    "communication": {"exposed-communication"},
    "transfer": {"exposed-transfer"},
    "startup": {"warmup-included"},
}


def first_to_fix(bound_by: BoundBy, findings: Sequence[Finding]) -> Finding | None:
    """The costliest finding, if it is another cause than the verdict, else None.

    Args:
        bound_by: What bounds the step.
        findings: All findings, the costliest first.
    """
    first = findings[0]
    is_cause = first.verdict == "found" and bool(first.cost_ns_per_step)
    repeats = first.id in _SAME.get(bound_by, ())
    saves_little = first.saving is not None and first.saving.high_ns < LITTLE_SAVED * (
        first.cost_ns_per_step or 0
    )
    return first if is_cause and not repeats and not saves_little else None
