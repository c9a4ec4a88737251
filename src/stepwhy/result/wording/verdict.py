"""Verdicts and their reasons, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.units import format_count, format_fraction, format_ns
from stepwhy.result.reasons import (
    Bound,
    Gap,
    Lack,
    Lead,
    Limited,
    MostlyStartUp,
    NeverAhead,
    NoEvidence,
    NotTraced,
    StarvedQueue,
)

if TYPE_CHECKING:
    from stepwhy.result import BoundBy, Finding
    from stepwhy.result.reasons import Reason, Recorded, Unknown

_LACKS = {
    Lack.EVENTS: "the file records no timed event.",
    Lack.STEP_CONTENT: "the file holds step times, but not what the steps do.",
    Lack.CONTENT_BESIDE_QUEUES: "the file holds fill levels of queues, but not what the steps do.",
    Lack.CONTENT_BESIDE_MEMORY: "the file holds memory use over time, but not what the steps do.",
    Lack.FRAMEWORK: "the steps were timed, but no framework that can be traced ran in them. Start "
    "with the line where your code was sampled most often.",
    Lack.TRACED_STEPS: "the steps were timed, but the run ended before one could be traced. Let it "
    "train for 20 steps or more.",
    Lack.DEVICE_ACTIVITY: "the run used an accelerator, but this file has no record of what the "
    "device did. Record again with device activity on.",
    Lack.DEVICE_USE: "the machine has an accelerator, and nothing in this file shows whether the "
    "run used it. Record again with device activity on.",
    Lack.DEVICE_ACTIVITY_CUT_OFF: "the file is cut off before any record of what an accelerator "
    "did. Copy the file again, or let the profiler finish writing it.",
    Lack.KERNELS: "the run used an accelerator, but the profiler recorded none of its kernels, so "
    "the time on the device is unknown. Record in a new process, and without another profiler of "
    "the device.",
    Lack.KERNELS_OF_A_DEVICE: "the run launched work on accelerators whose kernels are missing "
    "from this file; the capture is partial. Record again, with every device of the process.",
    Lack.DEVICE_WORK: "{share} of the kernels and copies that the steps launched are not in this "
    "file, or have no duration; while they ran, the device seems idle. Record fewer steps at a "
    "time, so that the profiler loses nothing, and every device of the process.",
    Lack.DEVICE_OWNERS: "{number} processes were merged into this file, and its rows do not say "
    "which process used which device. Explain the file of each rank instead.",
    Lack.COMMON_CLOCK: "host and device were recorded by two clocks that disagree; device work "
    "appears before its launch, or outside the steps that launched it. Record again.",
    Lack.OPERATIONS: "the file has no device activity and so few operations per step ({number}) "
    "that it was sampled or filtered. Record again with all operations.",
    Lack.WHOLE_STEP: "the file has no step marker and little device work (kernels and copies: "
    "{number}); it is a record of single calls. Record a few whole training steps.",
    Lack.AWAITED_WORK: "for {share} of the record the host waits for device work that is not in "
    "it; the file is a slice of a longer run. An idle device here means nothing. Record whole "
    "steps.",
    Lack.TRACED_WAITS: "the host runs ahead and waits for the device only in some steps, none of "
    "which was traced. Read the loss in every step, or wait for it (block_until_ready), while "
    "stepwhy observes the run.",
    Lack.LAST_WAIT: "the host runs ahead of the device, which was still at work when the last step "
    "was launched, so a step takes at least {time}. Wait for the last step before the program ends "
    "(jax.block_until_ready), or let it train for longer.",
    Lack.CAUSE_OF_IDLE_TIME: "for {share} of the step the device idles, and nothing in this file "
    "says why. Record again with host operations.",
}
_LEADS = {
    Lead.RECORD_AGAIN: "Record again with host operations and Python stacks.",
    Lead.RECORD_STACKS: "Record a few later steps, with Python stacks.",
    Lead.BETWEEN_CALLS: "Look at what the loop waits for between two framework calls.",
    Lead.BUSY_CORES: "The machine was busy: for {share} of the time it wanted to run, the process "
    "waited for a CPU core. Run it again when the machine is quiet.",
    Lead.SAMPLED_LINE: "In {share} of the stack samples the driving thread was at {line}: start "
    "there.",
}
_IDLES = "for {time} of {whole} ({share}) {idle}"
# What the step waits for, and the loss; the loss alone follows where something else is larger.
_BOUNDS: dict[BoundBy, tuple[str, str]] = {
    "input": ("{subject} waits for input", f"{_IDLES} because the next batch is not ready."),
    "communication": (
        "{subject} waits for communication",
        "for {time} of {whole} ({share}) {communicating}.",
    ),
    "transfer": (
        "{subject} waits for copies",
        "for {time} of {whole} ({share}) data is copied while nothing computes.",
    ),
    "startup": (
        "{subject} waits for compilation or set-up",
        "{time} of {whole} ({share}) goes to tracing, compiling or initialisation.",
    ),
    "storage": (
        "{subject} waits for storage",
        "{time} of {whole} ({share}) goes to writing checkpoints, summaries or logs.",
    ),
    "host": ("The host holds {subject} up", f"{_IDLES} while the host {{doing}}."),
}
_COMPUTE = "{subject} is bound by compute: {busy} for {time} of {whole} ({share})."
_MOSTLY_COMPUTE = (
    "{subject} is mostly compute: {busy} for {time} of {whole} ({share}); {lost} is lost to "
    "{lost_to}."
)
# What the times are of, as the subject of a sentence, and before a time.
_WHOLES: dict[Recorded, tuple[str, str]] = {
    "steps": ("the step", "every "),
    "step": ("this one step", ""),
    "run": ("this one run", ""),
    "runs": ("a run", ""),
    "trace": ("the recorded work", ""),
}
_HOST_THROUGHOUT = (
    "The host holds {subject} up: it works for {host} of {whole} ({host_share}), whatever the "
    "device does meanwhile."
)
_LOST_TO: dict[BoundBy, str] = {
    "input": "the wait for input",
    "communication": "communication that nothing overlaps",
    "transfer": "copies that nothing overlaps",
    "startup": "compilation or set-up",
    "storage": "storage",
    "host": "the host",
}
_INPUT_LOCKED = (
    f"{_IDLES}, mostly because threads that prepare batches in Python hold the interpreter's lock "
    "or a core."
)
_SAME_TIME = 0.2  # of the loss; a finding that costs about as much is its cause
_DOING = {
    "sync": "is mostly blocked in calls that synchronise with the device",
    "dispatch": "mostly executes framework code to launch the next work",
    "python": "mostly runs Python outside the framework",
}


def verdict_sentence(reason: Reason, fix_first: str = "") -> str:
    """The sentence of a verdict.

    Args:
        reason: The reason for the verdict.
        fix_first: Title of the finding to fix first, if it is another cause than the verdict.
    """
    fix = f" Fix first: {_inner(fix_first)}." if fix_first else ""
    match reason:
        case Bound():
            return f"{_sentence(reason, _template(reason))}{fix}"
        case MostlyStartUp(share):
            return (
                f"Start-up takes {format_fraction(share)} of what was recorded: first-run set-up, "
                f"not the training step, is what this record shows.{fix}"
            )
        case StarvedQueue(name, share):
            return (
                f"The steps probably wait for input: queue {name!r} was empty in "
                f"{format_fraction(share)} of the time. How long they wait was not recorded.{fix}"
            )
        case NeverAhead(share):
            return (
                "The steps probably wait for input: a batch was being fetched "
                f"{format_fraction(share)} of the time. A pipeline that is ahead of the steps "
                f"pauses. To see how long they wait, record the steps as well.{fix}"
            )
        case _ if fix_first:
            why = why_unknown(reason)
            return f"{fix_first}. Whether something else takes as long, stepwhy cannot tell: {why}"
        case _:
            return f"Cannot tell: {why_unknown(reason)}"


def cause_sentence(reason: Reason, first: Finding | None = None) -> str:
    """What is wrong, without what is fine and what to do about it.

    Args:
        reason: The reason for the verdict.
        first: The finding to fix first, if it is another cause than the verdict.
    """
    if first is None:
        match reason:
            case Bound():
                return _sentence(reason, _loss(reason))
            case MostlyStartUp() | StarvedQueue() | NeverAhead():
                return verdict_sentence(reason)
            case _:
                why = why_unknown(reason)
                return f"{why[:1].upper()}{why[1:]}"
    name = first.id.replace("-", " ").replace("warmup", "warm-up").capitalize()
    ns = first.cost_ns_per_step or 0
    if not ns:
        shares = (e for e in first.evidence if e.what.startswith("share of the "))
        parts = (
            f": {format_fraction(float(e.value))} of {e.what[len('share of ') :]}" for e in shares
        )
        return f"{name}{next(parts, '')}."
    if not isinstance(reason, Bound):
        return f"{name} costs {format_ns(ns)} of each step."
    if reason.by != "compute" and abs(ns - reason.time_ns) <= _SAME_TIME * reason.time_ns:
        return _sentence(reason, _loss(reason))
    wall_ns, every = reason.wall_ns + reason.set_up_ns, _WHOLES[reason.of][1]
    share = format_fraction(ns / wall_ns)
    return f"{name}: {format_ns(ns)} of {every}{format_ns(wall_ns)} ({share})."


def _sentence(bound: Bound, template: str) -> str:
    """A template with the times of a step and the names of its devices."""
    idle, busy, communicating = _devices(bound)
    subject, every = _WHOLES[bound.of]
    sentence = template.format(
        subject=subject,
        idle=idle,
        busy=busy,
        communicating=communicating,
        time=format_ns(bound.time_ns),
        whole=f"{every}{format_ns(bound.wall_ns)}",
        share=format_fraction(bound.time_ns / bound.wall_ns),
        computing=format_fraction(bound.compute_ns / bound.wall_ns),
        lost=format_fraction(bound.lost_ns / bound.wall_ns),
        lost_to=_LOST_TO[bound.lost_to] if bound.lost_to else "",
        doing=_DOING[bound.host],
        host=format_ns(bound.host_ns),
        host_share=format_fraction(bound.host_ns / bound.wall_ns),
    )
    sentence = sentence[:1].upper() + sentence[1:]
    if bound.set_up_ns:
        set_up = format_ns(bound.set_up_ns)
        return f"First-run set-up takes {set_up} of this record; without it, {_inner(sentence)}"
    return sentence


def _template(bound: Bound) -> str:
    if bound.by == "compute":
        return _MOSTLY_COMPUTE if bound.lost_to else _COMPUTE
    if bound.host_ns and bound.lost_to in {"transfer", "communication"}:
        return _HOST_THROUGHOUT
    loss = _loss(bound)
    if bound.compute_ns > bound.time_ns:
        return f"Compute is {{computing}} of {{subject}}. {loss[:1].upper()}{loss[1:]}"
    return f"{_BOUNDS[bound.by][0]}: {loss}"


def _loss(bound: Bound) -> str:
    if bound.by not in _BOUNDS or (
        bound.host_ns and bound.lost_to in {"transfer", "communication"}
    ):
        return _template(bound)
    return _INPUT_LOCKED if bound.locked else _BOUNDS[bound.by][1]


def _inner(sentence: str) -> str:
    """A sentence to continue another one with."""
    return sentence[:1].lower() + sentence[1:]


def _devices(bound: Bound) -> tuple[str, str, str]:
    """The devices as subject and verb: idle, computing, and only communicating."""
    if bound.devices > 1:
        count = bound.devices
        every = "both devices" if count == 2 else f"all {count} devices"
        return (
            f"{every} idle",
            f"at least one of {count} devices computes",
            f"{every} only exchange data or wait for other ranks",
        )
    only = "only exchanges data or waits for other ranks"
    if bound.kind == "cpu":  # a CPU that waits is not idle
        return "nothing computes", "the CPU computes", f"the process {only}"
    name = "the GPU" if bound.kind == "gpu" else "the accelerator"
    return f"{name} idles", f"{name} computes", f"{name} {only}"


def why_unknown(reason: Unknown) -> str:
    """Why there is no verdict, and what to do about it; continues a sentence."""
    match reason:
        case Gap(lack, number):
            text = "several" if number is None else f"{number:.0f}"
            share, time = format_fraction(number or 0.0), format_ns(round(number or 0.0))
            return _LACKS[lack].format(number=text, share=share, time=time)
        case NotTraced(steps, why, advice, unit):
            timed = f"1 {unit} was" if steps == 1 else f"{format_count(steps)} {unit}s were"
            return f"{timed} timed, but none was traced: {why}. {advice}."
        case Limited(why):
            return f"{why}."
        case NoEvidence(unexplained, lead, share, line):
            missing = f"{format_fraction(unexplained)} of the step has no evidence in this file."
            return f"{missing} {_LEADS[lead].format(share=format_fraction(share), line=line)}"
