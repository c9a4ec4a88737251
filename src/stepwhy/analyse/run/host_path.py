"""Work of the host that the step contains whatever the device does.

A step cannot take less than what its driving thread does itself. Calls of the device API are left
out, because a call may wait in them, and so are gaps between calls.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from stepwhy.analyse.activity.callbacks import callback_time
from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.activity.graph_captures import capture_time
from stepwhy.analyse.activity.selection import mask, of_threads, rows_of
from stepwhy.analyse.breakdown.evidence import range_time
from stepwhy.base.columns.nesting import innermost_time
from stepwhy.trace import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.analyse.facts import Facts
    from stepwhy.result.edits import Edit

_OPERATIONS = (Kind.OP, Kind.FRAMEWORK)
_WORK = (*_OPERATIONS, Kind.PYTHON, Kind.INPUT, Kind.COMPILE, Kind.STORAGE)


def host_path_ns(facts: Facts, without: frozenset[Kind] = frozenset()) -> int:
    """Time per mean steady step in which the driving threads certainly work, ns.

    0 if the record does not show what they wait for.

    Args:
        facts: Facts of the run.
        without: Kinds of slices that do not count.
    """
    return facts.derived(_path_without(without))


@cache
def _path_without(without: frozenset[Kind]) -> Callable[[Facts], int]:
    """A function of facts, the same one at each call, so that facts can keep its result."""
    return lambda facts: _path_ns(facts, without)


def _path_ns(facts: Facts, without: frozenset[Kind]) -> int:
    trace, threads, nesting = facts.trace, facts.threads, facts.nesting
    if "runtime-calls" not in trace.meta.signals or not facts.has_accelerator:
        return 0
    tracks = of_threads(trace, threads.all)
    kinds = [kind for kind in _WORK if kind not in without]
    work = innermost_time(nesting, mask(trace, kinds, tracks))
    if Kind.PYTHON not in without:
        work = work | range_time(trace, threads, nesting)
    else:
        work = work - callback_time(trace)  # what a callback calls is recorded inside it
    if Kind.COMPILE not in without:
        work = work | capture_time(trace)
    if Kind.COMPILE in without:  # and the operations that are compiled
        work = work - intervals_of(trace, rows_of(trace, (Kind.COMPILE,), tracks))
    if Kind.INPUT in without:
        work = work - intervals_of(trace, rows_of(trace, (Kind.INPUT,), tracks))
    # What is recorded inside a wait, such as the runtime's own polling, belongs to it.
    waits = intervals_of(trace, rows_of(trace, (Kind.SYNC,), tracks))
    waits = waits | intervals_of(trace, facts.launches.blocking_calls)
    # Threads of the framework stage arrays; one that launches work on them may wait for these.
    waits = waits | facts.evidence["transfer"]
    return facts.mean_ns(facts.steady_time.common_ns(work - waits))


_TOUCHED: dict[str, tuple[Kind, ...]] = {
    "input": (Kind.INPUT,),
    "python": (Kind.PYTHON,),
    "storage": (Kind.STORAGE,),
    "compile": (Kind.COMPILE,),
    "dispatch": _OPERATIONS,
    "launches": _OPERATIONS,
    "ops": _OPERATIONS,
    "kernels": (),
    "copies": (),
    "communication": (),
    "syncs": (),
}
"""Kinds of host work that an edit of each part of a step may shorten; other parts: any."""
_FEWER = frozenset({"gone", "fused", "replaced", "bucketed"})
"""Changes after which there are fewer operations that launch work."""


def least_step_ns(facts: Facts, edits: Sequence[Edit]) -> int:
    """What the step takes at least after some edits: the host's work that they leave, ns.

    Args:
        facts: Facts of the run.
        edits: The edits, applied together.
    """
    touched: set[Kind] = set()
    for edit in edits:
        if edit.what not in _TOUCHED:
            return 0
        touched.update(_TOUCHED[edit.what])
        if edit.change in _FEWER and edit.what in {"kernels", "copies", "communication"}:
            touched.update(_OPERATIONS)
    return min(host_path_ns(facts, frozenset(touched)), facts.wall_ns)
