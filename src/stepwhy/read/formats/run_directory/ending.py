"""How an observed run ended, and why none of its steps was traced, as sentences."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.units import format_bytes, format_count, format_exit, format_ns
from stepwhy.read.formats.run_directory.files import ProcessEnd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.read.formats.run_directory.files import Message, ProcessFile, RunFile
    from stepwhy.trace import Trace

_SIGNAL_BASE = 128
_KILLED = _SIGNAL_BASE + signal.SIGKILL
# Signals that end native code; Python can print the stack (faulthandler).
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
_WHERE = " Run it with 'python -X faulthandler' to see where."
_LAST_STEPS = " Steps of the last half second may be missing."

# By then some have warmed up and a window has been traced.
ENOUGH_STEPS = 20
_RUN_LONGER = f"Let it train for {ENOUGH_STEPS} steps or more"
_LOOP = (
    f"Call session.run {ENOUGH_STEPS} times or more in a loop, or trace a single run with "
    "RunOptions(trace_level=RunOptions.FULL_TRACE) and run_metadata, which stepwhy reads"
)
_RUN_ON = "Run it again for longer: a trace is written only after the steps that it shows"
_FIX_FIRST = f"Fix what ended it, then let it train for {ENOUGH_STEPS} steps or more"
_FREE_SPACE = "Free some space, or name a directory on another disk with --out"
_CHECK = "Run 'stepwhy check' to see what keeps it from tracing"
_NO_ROOM = ("No space left", "quota exceeded", "File too large", "free on the disk")
# What the observer says about windows that it did not keep, by slug, and what to do about it; ''
# where it says that itself.
_ADVICE = {
    "profiler-in-use": "Stop that profiler after some steps, or run without it",
    "forks": "Start processes by 'spawn' of multiprocessing, or fork in fewer steps",
    "loop-in-thread": "",
    "several-workers": "",
    "step-in-backward": "",
    "window-too-large": "Mark shorter steps with stepwhy.step()",
    "window-lost": _CHECK,
    "observer-stopped": _CHECK,
}


class Ending(msgspec.Struct, frozen=True):
    """How a run ended.

    Args:
        exit_code: Exit code of the command; None if it is unknown.
        exception: Type of the exception that ended the process, '' for none.
        sentence: For the report; '' if the run succeeded or is still going.
    """

    exit_code: int | None = None
    exception: str = ""
    sentence: str = ""


class Untraced(msgspec.Struct, frozen=True):
    """Why no step was traced.

    Args:
        reason: A clause without a full stop; '' where steps were traced.
        advice: What to do, without a full stop.
    """

    reason: str = ""
    advice: str = ""


def ending_of(run: RunFile, process: ProcessFile, log: Trace, untimed: int = 0) -> Ending:
    """How a run ended, as one of its processes saw it.

    Args:
        run: `run.json`.
        process: `process.json`.
        log: The steps and samples of that process, as a trace.
        untimed: Number of steps beyond those in the log.
    """
    code = run.exit_code
    if not code:
        return Ending(code)
    exception = _exception(run, process)
    complete = isinstance(process.ended_ns, int) or process.ended_ns is msgspec.UNSET
    # Peak resident memory in the samples, bytes; 0 without samples.
    resident = log.counters.value[
        [log.string(int(name)) == "resident_bytes" for name in log.counters.name]
    ]
    memory = int(resident.max()) if len(resident) else 0
    sentence = f"{_how(run, code, exception)}{_completed(log, untimed, complete=complete)}"
    sentence += f"; it held up to {format_bytes(memory)} of memory." if memory else "."
    if code - _SIGNAL_BASE in _CRASHES:
        sentence += _WHERE
    return Ending(code, exception, sentence if complete else sentence + _LAST_STEPS)


def _exception(run: RunFile, process: ProcessFile) -> str:
    """The exception that ended this process, or else the first process that failed.

    The first rank to fail is the cause: the others fail because it is gone.
    """
    first = next((p.exception for p in run.processes.values() if p.exception), "")
    if (process.world_size or 1) > 1:
        return first
    return run.processes.get(str(process.pid), ProcessEnd()).exception or first


def _how(run: RunFile, code: int, exception: str) -> str:
    if code == _KILLED:
        by_kernel = " by the kernel for lack of memory" if run.oom_kills else " (SIGKILL)"
        return f"The training was killed{by_kernel}"
    if code > _SIGNAL_BASE:
        return f"The training was ended by {format_exit(code)}"
    type_of = f" ({exception})" if exception else ""
    return f"The training ended with {format_exit(code)}{type_of}"


def _completed(log: Trace, untimed: int, *, complete: bool) -> str:
    """The number of completed steps, and the duration of the last one, as text."""
    steps = len(log.marks)
    if not steps:
        return ""
    least = "" if complete else "at least "
    last = format_ns(int(log.marks.dur_ns[-1]))
    if untimed:
        return f" after {least}{_steps(steps + untimed)}, of which the last timed one took {last}"
    which = "which" if steps == 1 else "the last of which"
    return f" after {least}{_steps(steps, 'timed ')}, {which} took {last}"


def _steps(count: int, kind: str = "") -> str:
    return f"1 {kind}step" if count == 1 else f"{format_count(count)} {kind}steps"


def untraced(
    run: RunFile,
    process: ProcessFile,
    messages: Sequence[Message],
    log: Trace,
    *,
    unfinished: bool = False,
    lone: bool = False,
) -> Untraced:
    """The reason why none of the steps was traced.

    Args:
        run: `run.json`.
        process: `process.json`.
        messages: Messages of the observer.
        log: Its steps, as a trace.
        unfinished: Whether a window was begun and never finished.
        lone: Whether the steps are single runs of a session, too few for a loop.
    """
    stopped = run.processes.get(str(process.pid), ProcessEnd()).stopped
    if stopped:
        went_on = _planned(run, process, log)
        more = f"; the training went on{went_on}" if went_on else ""
        return Untraced(f"{stopped}{more}", _advice(stopped))
    reasons = [m for m in messages if m.slug in _ADVICE]
    if reasons:
        return _parse_message(reasons[-1])
    if unfinished or log.marks.profiled.any():
        advice = _RUN_LONGER if len(log.marks) < ENOUGH_STEPS else _RUN_ON
        return Untraced("the run ended while the first of them were being traced", advice)
    if len(log.marks) < ENOUGH_STEPS and run.exit_code:
        failed = f"the training failed too early ({format_exit(run.exit_code)})"
        return Untraced(failed, _FIX_FIRST)
    if lone:
        return Untraced("runs of a session are traced from the third on", _LOOP)
    if len(log.marks) < ENOUGH_STEPS:
        return Untraced("the run ended too early", _RUN_LONGER)
    return Untraced("the observer left no reason", _CHECK)


def _parse_message(message: Message) -> Untraced:
    """The reason in a message of the observer, with its advice or stepwhy's."""
    text = message.text.removeprefix("the steps were timed, but not profiled: ")
    reason, _, rest = text.partition(". ")
    advice = _ADVICE[message.slug]
    return Untraced(reason, _advice(text, advice) if advice else rest)


def _advice(reason: str, otherwise: str = _CHECK) -> str:
    """Advice to free space if the reason is a full disk; otherwise the given one."""
    return _FREE_SPACE if any(words in reason for words in _NO_ROOM) else otherwise


def stopped_note(run: RunFile, process: ProcessFile, log: Trace) -> str:
    """That the log ends early, with the number of steps; '' where it does not.

    Args:
        run: `run.json`.
        process: `process.json`.
        log: The steps, as a trace.
    """
    stopped = run.processes.get(str(process.pid), ProcessEnd()).stopped
    if not stopped:
        return ""
    return (
        f"The step log ends after {_steps(len(log.marks))}: {stopped}. The training went on"
        f"{_planned(run, process, log)}."
    )


def _planned(run: RunFile, process: ProcessFile, log: Trace) -> str:
    """Number of all steps of a training whose log ends early, as text; '' if unknown."""
    steps = run.processes.get(str(process.pid), ProcessEnd()).optimizer_steps
    return f", for {format_count(steps)} steps in all" if steps > len(log.marks) + 1 else ""
