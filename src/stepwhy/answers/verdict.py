"""What bounds the step: one answer from the closed breakdown, or 'unknown' with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.findings import Verdict
from stepwhy.passes.cores import CONTENDED, run_delay_share
from stepwhy.passes.sampled_lines import python_lines
from stepwhy.passes.selection import mask, of_role
from stepwhy.passes.usable import ENOUGH_STEADY, MOSTLY_START_UP, unusable
from stepwhy.trace import DeviceKind, Kind, Role
from stepwhy.units import format_fraction, format_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.findings import BoundBy
    from stepwhy.passes.facts import Facts

# A device that computes this share of the step is the limit: the rest cannot save much.
COMPUTE_BOUND = 0.8
# Dispatch is what the host does when nothing specific explains the idle device. A specific cause
# that comes within this share of the step of it is the better answer.
SPECIFIC_WITHIN = 0.10
# Causes below this share of the step do not bound it.
SMALLEST_CAUSE = 0.10
# More than this share without evidence, and no answer is better than a guess.
MOST_UNEXPLAINED = 0.5
# A CPU-only step of a deep network runs dozens of operations; fewer than this per step, and the
# record was sampled or filtered.
FEWEST_HOST_OPS = 10
# Fewer device slices than this in a record without steps show single calls, not a training step.
FEWEST_DEVICE_SLICES = 10

_SPECIFIC: dict[str, BoundBy] = {
    "input_wait": "input",
    "communication": "communication",
    "transfer": "transfer",
    "compile": "startup",
    "storage": "storage",
}
_HOST = ("sync", "dispatch", "python")


def decide(facts: Facts) -> Verdict:
    """What bounds the mean steady step of a trace."""
    reason = _cannot_tell(facts)
    if reason:
        return Verdict("unknown", 0.0, reason)
    share = start_up_share(facts)
    # Where stepwhy watched the run, set-up in steady steps is no start of it.
    if share > MOSTLY_START_UP and facts.observed is None and not _outlasts_start_up(facts):
        return Verdict(
            "startup",
            _confidence(facts, share),
            f"Start-up takes {format_fraction(share)} of what was recorded: first-run set-up, not "
            "the training step, is what this record shows.",
        )
    bound_by, cause = _largest(facts)
    return Verdict(bound_by, _confidence(facts, facts.share(cause)), _sentence(facts, bound_by))


def _outlasts_start_up(facts: Facts) -> bool:
    """Whether the record shows the training step well, however long its first steps took."""
    is_set_up = facts.share("compile") > MOSTLY_START_UP
    return facts.steady_count >= ENOUGH_STEADY and not is_set_up


def start_up_share(facts: Facts) -> float:
    """Share of the recorded steps that is start-up: warm-up beyond a steady step, or set-up."""
    durations = facts.steps.durations_ns
    total = int(durations.sum())
    if not total:
        return 0.0
    warm, steady = durations[: facts.steps.warm_up], durations[facts.steps.steady]
    excess = int(warm.sum()) - len(warm) * float(np.median(steady)) if len(warm) else 0.0
    return float(max(excess / total, facts.share("compile")))


def _cannot_tell(facts: Facts) -> str:
    """Why no verdict is possible, '' when one is."""
    checks: tuple[Callable[[Facts], str], ...]
    checks = (unusable, _sampled, _too_little, _sliced, _wait_not_traced, _no_evidence)
    return next((reason for reason in (check(facts) for check in checks) if reason), "")


def _sampled(facts: Facts) -> str:
    if not len(facts.trace.slices):
        return ""
    if facts.has_accelerator or len(facts.trace.nodes) or facts.trace.meta.framework == "jax":
        return ""  # XLA fuses a whole step into a handful of operations
    on_host, on_executors = (of_role(facts.trace, r) for r in (Role.HOST_THREAD, Role.EXECUTOR))
    ops = mask(facts.trace, (Kind.OP,), on_host) | mask(facts.trace, (Kind.KERNEL,), on_executors)
    per_step = np.count_nonzero(ops & facts.is_steady) / max(facts.steady_count, 1)
    if per_step < FEWEST_HOST_OPS:
        return (
            f"Cannot tell: the file has no device activity and only {per_step:.0f} operations per "
            "step; it was sampled or filtered. Record again with all operations."
        )
    return ""


def _too_little(facts: Facts) -> str:
    if not facts.has_accelerator or facts.steps.source != "whole-trace":
        return ""
    slices = sum(len(a.rows) for a in facts.leading)
    if slices < FEWEST_DEVICE_SLICES and facts.share("compile") < MOSTLY_START_UP:
        return (
            f"Cannot tell: without a step marker, and with only {slices} pieces of device work, "
            "this is a record of single calls. Record a few whole training steps."
        )
    return ""


def _sliced(facts: Facts) -> str:
    """A wait on a device that does nothing is a wait for work outside the record."""
    if facts.steps.source == "whole-trace" and facts.share("sync") > MOST_UNEXPLAINED:
        return (
            f"Cannot tell: for {format_fraction(facts.share('sync'))} of the record the host waits "
            "for device work that is not in it; the file is a slice of a longer run. An idle "
            "device here means nothing. Record whole steps."
        )
    return ""


def _wait_not_traced(facts: Facts) -> str:
    """What the device does behind a host that runs ahead is in the steps that wait for it."""
    if facts.observed is None or facts.observed.wait_traced:
        return ""
    return (
        "Cannot tell: the host runs ahead and waits for the device only in some steps, none of "
        "which was traced. Read the loss in every step, or wait for it (block_until_ready), while "
        "you watch."
    )


def _no_evidence(facts: Facts) -> str:
    if facts.share("unexplained") > MOST_UNEXPLAINED:
        return (
            f"Cannot tell: {format_fraction(facts.share('unexplained'))} of the step has no "
            f"evidence in this file. {_where_to_look(facts)}"
        )
    known = max(*(facts.share(c) for c in _SPECIFIC), sum(facts.share(c) for c in _HOST))
    if known < SMALLEST_CAUSE and facts.share("unexplained") > 1 - COMPUTE_BOUND:
        return (
            f"Cannot tell: for {format_fraction(facts.share('unexplained'))} of the step the "
            "device idles, and nothing in this file says why. Record again with host operations."
        )
    return ""


def _where_to_look(facts: Facts) -> str:
    """What would tell more: of a watched run, all that can be recorded was."""
    if facts.observed is None:
        return "Record again with host operations and Python stacks."
    waiting = run_delay_share(facts.sampled)
    if waiting is not None and waiting >= CONTENDED:
        share = format_fraction(waiting)
        return (
            f"The machine was busy: for {share} of the time it wanted to run, the process waited "
            "for a CPU core. Run it again when the machine is quiet."
        )
    lines = python_lines(facts.sampled)
    if lines and lines[0][1] >= SMALLEST_CAUSE:
        line, share = lines[0][0], format_fraction(lines[0][1])
        return f"In {share} of the stack samples the driving thread was at {line}: begin there."
    return "Look at what the loop waits for between two framework calls."


def _largest(facts: Facts) -> tuple[BoundBy, str]:
    """The bound and the category that stands for it."""
    if facts.share("compute") >= COMPUTE_BOUND:
        return "compute", "compute"
    specific = max(_SPECIFIC, key=facts.share)
    host = sum(facts.share(c) for c in _HOST)
    best = facts.share(specific)
    if max(best, host) < SMALLEST_CAUSE:
        return "compute", "compute"
    if best >= SMALLEST_CAUSE and host - best <= SPECIFIC_WITHIN:
        return _SPECIFIC[specific], specific
    return "host", max(_HOST, key=facts.share)


def _confidence(facts: Facts, share: float) -> float:
    """Falls with what is unexplained, with guesses, with lost data and with close calls."""
    base = 1.0 - facts.share("unexplained")
    if facts.steps.source == "whole-trace" and "whole-step" not in facts.trace.meta.signals:
        base *= 0.8
    elif facts.steps.source != "whole-trace":
        base *= 0.5 + 0.5 * facts.steps.confidence
    if any(c.severity == "error" for c in facts.trace.health.counters):
        base *= 0.5
    if facts.trace.health.has("guessed-device-time"):
        base *= 0.5
    return round(float(base * min(1.0, 0.6 + share)), 2)


_SENTENCES: dict[BoundBy, str] = {
    "input": "The step waits for input: for {time} of every {step} ({share}) {idle} because the "
    "next batch is not there.",
    "communication": "The step waits for communication: for {time} of every {step} ({share}) data "
    "is exchanged while nothing computes.",
    "transfer": "The step waits for copies: for {time} of every {step} ({share}) data moves while "
    "nothing computes.",
    "startup": "The step waits for set-up: {time} of every {step} ({share}) is tracing, compiling "
    "or first-run initialisation.",
    "storage": "The step waits for storage: {time} of every {step} ({share}) writes checkpoints, "
    "summaries or logs.",
    "host": "The host holds the step up: for {time} of every {step} ({share}) {idle} while the "
    "host {doing}.",
    "compute": "The step is bound by compute: {busy} for {time} of every {step} ({share}).",
}
_INPUT_LOCKED = (
    "The step waits for input: for {time} of every {step} ({share}) {idle}, mostly because threads "
    "that prepare batches in Python hold the interpreter's lock or a core."
)
_DOING = {
    "sync": "is mostly blocked in calls that wait for the device",
    "dispatch": "mostly executes framework code to launch the next work",
    "python": "mostly runs Python outside the framework",
}
_CATEGORY_OF: dict[BoundBy, tuple[str, ...]] = {
    "input": ("input_wait",),
    "communication": ("communication",),
    "transfer": ("transfer",),
    "startup": ("compile",),
    "storage": ("storage",),
    "host": _HOST,
    "compute": ("compute",),
}


def _subject(facts: Facts) -> tuple[str, str]:
    """The devices as a sentence has them: what idles, and what computes."""
    if len(facts.leading) > 1:
        count = len(facts.leading)
        all_of_them = "both devices" if count == 2 else f"all {count} devices"
        return f"{all_of_them} idle", f"at least one of {count} devices computes"
    if not facts.has_accelerator:
        return "nothing computes", "the CPU computes"  # what it does instead is no idleness
    gpu = facts.leading[0].kind is DeviceKind.GPU
    name = "the GPU" if gpu else "the accelerator"
    return f"{name} idles", f"{name} computes"


def _sentence(facts: Facts, bound_by: BoundBy) -> str:
    time_ns = sum(facts.breakdown[c] for c in _CATEGORY_OF[bound_by])
    idle, busy = _subject(facts)
    sentence = _SENTENCES[bound_by]
    if bound_by == "input" and facts.lock_wait_ns > time_ns / 2:
        sentence = _INPUT_LOCKED
    return sentence.format(
        idle=idle,
        busy=busy,
        time=format_ns(time_ns),
        step=format_ns(facts.wall_ns),
        share=format_fraction(time_ns / facts.wall_ns),
        doing=_DOING[max(_HOST, key=facts.share)],
    )
