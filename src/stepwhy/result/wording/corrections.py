"""How the breakdown follows from the record, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.base.units import format_ns
from stepwhy.result.reasons import Corrected

if TYPE_CHECKING:
    from stepwhy.result import Breakdown

# Share of what a correction moved; smaller parts are not worth a name.
_NAMED = 0.01
_SHORTER = "steps without the profiler are shorter"
_LONGER = "steps without the profiler are longer"
_WHY = {
    Corrected.DISK_WAITS_APART: "waits until files are on disk are counted apart, because they "
    "last longer while the profiler runs",
    Corrected.RARE_TIME_APART: "only some steps do this; the mean of all steps is added below",
    Corrected.INPUT_MEASURED: "the wait for the next batch is that of steps without the profiler",
    Corrected.BEYOND_THE_RECORD: "steps without the profiler take longer than the recorded ones "
    "can explain",
    Corrected.RUNNABLE: "the driving thread used a CPU core in this time, or waited for one",
    Corrected.OUTSIDE_RUNS: "the time between two runs of the session",
    Corrected.COMPILING: "compilation was timed in steps without the profiler",
    Corrected.RARE_TIME: "the mean, over all steps, of what only some of them do",
    Corrected.DISK_WAITS: "the usual wait until files are on disk, by the log of the run",
    Corrected.LOCK_WAIT: "threads that prepare batches held the interpreter's lock, or the cores",
    Corrected.SAVES: "checkpoints were logged in this time",
    Corrected.GENERATORS: "stack samples show the driving thread in a generator that makes batches",
    Corrected.OWN_LINES: "stack samples show the driving thread in lines of the program",
    Corrected.LOGGING: "stack samples show the driving thread in libraries that log",
}


def with_sentences(breakdown: Breakdown) -> Breakdown:
    """The breakdown with a sentence for each of its corrections."""
    corrections = tuple(
        replace(one, sentence=correction_sentence(Corrected(one.why), one.changes))
        for one in breakdown.corrections
    )
    return replace(breakdown, corrections=corrections)


def correction_sentence(why: Corrected, changes: dict[str, int]) -> str:
    """What a correction moved, from where to where, and why.

    Args:
        why: Its reason.
        changes: ns that it added to categories; negative for what it took from them.
    """
    total_ns = sum(changes.values())
    if not total_ns:
        moved_ns = sum(ns for ns in changes.values() if ns > 0)
        what = f"{format_ns(moved_ns)} moved from {_names(changes, -1)} to {_names(changes, 1)}"
    elif total_ns > 0:
        what = f"{format_ns(total_ns)} added to {_names(changes, 1)}"
    else:
        what = f"{format_ns(-total_ns)} taken from {_names(changes, -1)}"
    return f"{what}: {_WHY.get(why) or (_LONGER if total_ns > 0 else _SHORTER)}."


def _names(changes: dict[str, int], sign: int) -> str:
    """The categories that gained (sign 1) or lost (-1) much, the one with the most first."""
    changed = {c.replace("_", " "): ns * sign for c, ns in changes.items() if ns * sign > 0}
    least_ns = _NAMED * sum(changed.values())
    *most, last = sorted((c for c in changed if changed[c] > least_ns), key=lambda c: -changed[c])
    return f"{', '.join(most)} and {last}" if most else last
