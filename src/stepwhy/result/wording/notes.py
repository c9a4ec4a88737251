"""Notes on ranks, files, devices and operations, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.units import format_fraction, format_ns
from stepwhy.result.reasons import NoView
from stepwhy.result.wording.names import shown_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.result import Op
    from stepwhy.result.profile import Cost, ProfileNode
    from stepwhy.result.reasons import RankChoice

# Most ranks that are named.
_MOST_RANKS = 10
# Most files that are listed as left out.
_MOST_FILES = 50

PROCESSES_BESIDE_OPERATIONS = (
    (
        "Worker processes compete with the operations for the CPU cores, and hand each batch over "
        "through shared memory. How long that takes was not measured."
    ),
    "Measure the fix with 'stepwhy try'.",
)
"""Why the saving of such processes is not predicted, and what to do."""

NO_VIEWS = {
    NoView.NO_OPERATIONS: "no operation ran in the steady steps",
    NoView.NO_SCOPES: "it records no name scopes, modules or ranges",
    NoView.NO_LINES: "it records no lines of the program",
    NoView.NO_READS: "it does not record which operation reads from which",
}
"""Why a trace cannot show a view of its operations; ends a sentence."""


def rank_note(choice: RankChoice) -> str:
    """The note on which rank a result of several ranks covers, and why."""
    reason = f"the slowest of {choice.ranks}"
    if not choice.is_slowest:
        which = "a typical one" if choice.is_pipeline else "one"
        why = "" if choice.is_pipeline else ", which waits least for the others"
        reason = f"{which} of the slowest of {choice.ranks}{why}"
    unequal = ""
    if choice.least_computing is not None:
        rank, compute_ns = choice.least_computing
        unequal = (
            f" Rank {choice.rank} computes for {format_ns(choice.compute_ns)} of that, rank "
            f"{rank} for {format_ns(compute_ns)}."
        )
    return (
        f"The report covers rank {choice.rank}, {reason}; its list of devices covers all ranks. "
        f"The slowest rank takes {format_ns(choice.slowest_ns)} per step, the fastest "
        f"{format_ns(choice.fastest_ns)}.{unequal}"
    )


def rank_again(path: str, rank: int, first: str) -> str:
    """What was left out because another file contains the same rank, a clause."""
    return f"{path} contains rank {rank} again, as {first} does"


def cut_ranks(ranks: Sequence[int]) -> str:
    """The note on ranks whose files end early."""
    are, their = ("is", "its file ends") if len(ranks) == 1 else ("are", "their files end")
    return f"{_named(ranks)} {are} not compared, and counted as missing: {their} early."


def missing_ranks(ranks: Sequence[int]) -> str:
    """The note on ranks of which nothing is recorded."""
    are, it = ("is", "it") if len(ranks) == 1 else ("are", "them")
    return f"{_named(ranks)} {are} missing: whether others wait for {it} cannot be told."


def _named(ranks: Sequence[int]) -> str:
    """Ranks by their numbers, at the beginning of a sentence."""
    if len(ranks) == 1:
        return f"Rank {ranks[0]}"
    numbers = ", ".join(map(str, ranks[:_MOST_RANKS]))
    more = len(ranks) - _MOST_RANKS
    return f"Ranks {numbers}" + (f" and {more:,} more" if more > 0 else "")


def ranks_by_name() -> str:
    """The note on traces whose ranks only the names of their files tell."""
    return "The traces do not record their ranks: the numbers in the names of the files are used."


def work_missing(share: float) -> str:
    """A sentence on kernels and copies that were launched, but not recorded or not timed."""
    return (
        f"{format_fraction(share)} of the kernels and copies that the steps launched are not in "
        "this file, or have no duration: the device was busier than shown."
    )


def mostly_set_up(share: float) -> str:
    """A sentence on set-up that takes most of a record, and that the report does not cover."""
    return (
        f"Set-up takes {format_fraction(share)} of the recorded time; the report covers the rest."
    )


def left_out(problems: Sequence[str]) -> list[str]:
    """Notes on the files that were left out.

    Args:
        problems: The problem with each file, a sentence without a full stop.
    """
    notes = [f"Left out: {what}." for what in problems[:_MOST_FILES]]
    more = len(problems) - _MOST_FILES
    return [*notes, f"Left out: {more:,} more."] if more > 0 else notes


def other_processes(paths: Sequence[str]) -> str:
    """The note on observed processes that a result does not cover."""
    return f"Other observed processes, to be explained separately: {', '.join(paths)}."


def devices_together(most: int) -> str:
    """The note that only the first devices are listed separately."""
    return (
        f"Only the first {most:,} devices are listed separately. The others are combined into one "
        "device, and still count in the step and its categories."
    )


def longest(ops: Sequence[Op], *, per_step: bool) -> str:
    """The note on the operations that take longest.

    Args:
        ops: The operations, at least one.
        per_step: Whether their times are per step, not over the whole trace.
    """
    named = ", ".join(
        f"'{shown_name(op.name)}' {format_ns(op.self_ns)}"
        + (f" on {op.device}" if op.device != "host" else "")
        for op in ops
    )
    when = "per step" if per_step else "in all"
    return f"Longest {when}, excluding nested operations: {named}."


def rows_left_out(count: int) -> str:
    """The note that the table of operations is not complete."""
    return f"The op table omits the {count} rows with the least time."


def tree_notes(nodes: Sequence[ProfileNode], total: Cost) -> Iterator[str]:
    """What the tree of the program does not credit to a line, and what is not in it.

    Args:
        nodes: Its nodes.
        total: Cost of all of them.
    """
    if not nodes:
        return
    if not any(node.kind == "line" for node in nodes):
        yield "The trace names no line of the program: the tree begins with what it does name."
    else:
        yield from _without_line([node.total for node in nodes if node.kind == "rest"], total)
    yield (
        "Host time is that of the thread that runs the steps, and of operations on other threads; "
        "device time that of the device's work. Threads and streams overlap, and times are those "
        "of the recorded steps: both may add up to more than the step."
    )


def _without_line(rest: Sequence[Cost], total: Cost) -> Iterator[str]:
    times = (
        ("host", sum(cost.host_ns for cost in rest), total.host_ns),
        ("device", sum(cost.device_ns for cost in rest), total.device_ns),
    )
    parts = [
        f"{format_fraction(ns / all_ns)} of the {what}'s time" for what, ns, all_ns in times if ns
    ]
    if parts:
        yield f"No line of the program is credited with {' and '.join(parts)}."


def operations_added_up(listed: int, others: int, name: str) -> str:
    """The note that a view lists only some operations, and combines the others under a name."""
    return (
        f"Only the {listed:,} operations that took the longest are listed; the other {others:,} "
        f"are added up as '{name}'."
    )
