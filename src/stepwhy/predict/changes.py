"""What edits change in a graph: durations of device work, host work, and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.predict.change import Change, NothingToChangeError
from stepwhy.predict.copy_changes import change_communication, change_copies
from stepwhy.predict.host_changes import change_host, change_input, change_launches, change_waits
from stepwhy.predict.kernel_changes import change_work
from stepwhy.predict.replay import recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.analyse.facts import Facts
    from stepwhy.predict.graph import Graph
    from stepwhy.result.edits import Edit

# How long other operations take, or how much other ranks wait, is not in the record of one rank.
_UNKNOWN = ("moved", "replaced", "balanced")
_APPLY: dict[str, Callable[[Change, Edit], None]] = {
    "input": change_input,
    "ops": change_work,
    "kernels": change_work,
    "copies": change_copies,
    "launches": change_launches,
    "syncs": change_waits,
    "communication": change_communication,
    "compile": change_host,
    "dispatch": change_host,
    "python": change_host,
    "storage": change_host,
}


def changed(facts: Facts, graph: Graph, edits: tuple[Edit, ...], *, best: bool) -> Change:
    """The schedule after some edits.

    Args:
        facts: Facts of the run.
        graph: Its graph.
        edits: The edits, applied one after the other.
        best: Whether to apply them at their best, or at their least.

    Raises:
        NothingToChangeError: The trace has nothing that an edit is about.
    """
    start = recorded(graph)
    change = Change(
        facts, graph, start.duration_ns.copy(), start.delay_ns.copy(), start.lag_ns, best
    )
    for edit in edits:
        if edit.what not in _APPLY or edit.change in _UNKNOWN:
            raise NothingToChangeError(f"A replay of one run does not show what {edit} does")
        _APPLY[edit.what](change, edit)
    return change


__all__ = ["Change", "NothingToChangeError", "changed"]
