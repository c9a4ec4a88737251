"""Explain, in a sentence for the user, why a run has no observed step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.units import format_exit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NOT_ATTACHED = (
    "the observer was never loaded: the command does not start Python 3.11 or later, or starts it "
    "with -I, -E or -S, or elsewhere (sudo, env -i, a container, another machine). "
    "Start the training with an interpreter that reads PYTHONPATH"
)
NO_LOOP = (
    "no training loop was seen: no torch optimizer took a step, and no backward(), session, Keras "
    "fit, tf.function or jitted JAX function ran often enough. Check that the command trains with "
    "one of them, or call stepwhy.step() once per step in the program"
)
_NOT_WRITTEN = (
    "{seen}, but none was logged: {reason}. Free some space if the disk is full, or name a "
    "directory on another disk with --out"
)
_NOT_LOADED = (
    "the program ran unobserved, because the observer could not be loaded: {reason}. Rename what "
    "the program has under a name of stepwhy or of Python's own modules"
)
_LOST = (
    "no training loop was seen, perhaps for this reason: {reason}. Look for a newer stepwhy, or "
    "call stepwhy.step() once per step in the program"
)
_SIGNAL_BASE = 128  # exit codes of a shell: 128 + n for signal n
_FEW = "too few steps to time one: {seen}. Timing needs at least {needed}, tracing 20 or more"
_FAILED = "the command failed before it trained: {ending}. Fix that first: no step was seen"
_FAILED_EARLY = "the command failed after {seen}: {ending}. Fix that first: no step could be timed"
_KILLED = (
    "{ending} ended the command after at least {seen}, before a step could be timed. The last "
    "moments of a process that is killed are not recorded"
)
# Count -> phrase, noun, and the number needed to time a step, which lasts from one to the next.
# Observers log calls of a compiled function from the third on.
_KINDS = {
    "optimizer_steps": ("{} of a torch optimizer", "step", 2),
    "calls": ("{} of a compiled function", "call", 3),
    "marked_steps": ("{} of stepwhy.step()", "call", 2),
}


def why_no_step(
    exit_code: int, processes: Mapping[str, Mapping[str, Any]], *, attached: bool
) -> str:
    """Why nothing was observed; the most direct reason wins.

    Args:
        exit_code: The command's own, as a shell gives it.
        processes: Reports of its processes (`registry.reports`).
        attached: Whether any of them loaded the observer.
    """
    stopped = next((p for p in processes.values() if p.get("stopped")), None)
    if stopped is not None:
        return _NOT_WRITTEN.format(seen=_steps_of(stopped), reason=stopped["stopped"])
    failed = next((p["failed"] for p in processes.values() if p.get("failed")), "")
    if failed:
        ended = f"the command failed ({format_exit(exit_code)}), and " if exit_code else ""
        return f"{ended}{_NOT_LOADED.format(reason=failed)}"
    seen = _most(processes)
    if exit_code and attached:
        ending = ending_of(exit_code, exception_of(processes))
        if seen and exit_code > _SIGNAL_BASE:
            return _KILLED.format(seen=_counted(*seen), ending=ending)
        return (_FAILED_EARLY if seen else _FAILED).format(seen=_counted(*seen), ending=ending)
    if not attached:
        failed = f"the command failed ({format_exit(exit_code)}), and " if exit_code else ""
        return f"{failed}{NOT_ATTACHED}"
    if seen:
        return _FEW.format(seen=_counted(*seen), needed=_KINDS[seen[0]][2])
    lost = next((p["lost"] for p in processes.values() if p.get("lost")), "")
    return _LOST.format(reason=lost) if lost else NO_LOOP


def _steps_of(process: Mapping[str, Any]) -> str:
    """Steps that were seen in a process that could not log them, in words."""
    steps = max(int(process.get("optimizer_steps", 0)), int(process.get("steps", 0)))
    if not steps:
        return "a training loop was seen"
    return "1 training step was seen" if steps == 1 else f"{steps:,} training steps were seen"


def ending_of(exit_code: int, exception: str) -> str:
    """How a command ended: 'exit code 1 (ValueError)', 'SIGSEGV'."""
    return f"{format_exit(exit_code)} ({exception})" if exception else format_exit(exit_code)


def exception_of(processes: Mapping[str, Mapping[str, Any]]) -> str:
    """Type of the first exception that ended a process; '' if there is none."""
    return next((str(p["exception"]) for p in processes.values() if p.get("exception")), "")


def _most(processes: Mapping[str, Mapping[str, Any]]) -> tuple[str, int] | tuple[()]:
    """The largest count and its kind; () if there is none."""
    counts = [
        (int(about[kind]), kind)
        for about in processes.values()
        for kind in _KINDS
        if isinstance(about.get(kind), int)
    ]
    if not counts:
        return ()
    count, kind = max(counts)
    return kind, count


def _counted(kind: str = "", count: int = 0) -> str:
    """'1 step of a torch optimizer'; '' without a kind."""
    if not kind:
        return ""
    phrase, noun, _ = _KINDS[kind]
    return phrase.format(f"{count} {noun}" if count == 1 else f"{count} {noun}s")
