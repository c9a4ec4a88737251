"""A schedule while edits are applied to it, and what several kinds of edits do to it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.base.columns.intervals import Intervals, Measure
from stepwhy.predict.edges import Cause
from stepwhy.predict.replay import Schedule
from stepwhy.read.kernel_names.short import short_name
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.base.columns.types import Mask, Rows
    from stepwhy.predict.graph import Graph
    from stepwhy.result.edits import Edit


class NothingToChangeError(Exception):
    """The trace has nothing that an edit is about; its text says what."""


class Change(msgspec.Struct):
    """A schedule while edits are applied to it.

    Args:
        facts: Facts of the run.
        graph: Its graph.
        duration_ns: Duration of each node; (nodes,).
        delay_ns: Delay of each node; (nodes,).
        lag_ns: Lag of each edge; (edges,).
        best: Whether edits are applied at their best.
        floor_ns: The step cannot take less than this, because of work that moved beside it.
        slowed_ns: Time per step that kernels may take longer beside other work.
        notes: What was assumed, in sentences.
    """

    facts: Facts
    graph: Graph
    duration_ns: NDArray[np.int64]
    delay_ns: NDArray[np.int64]
    lag_ns: NDArray[np.int64]
    best: bool
    floor_ns: float = 0.0
    slowed_ns: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def schedule(self) -> Schedule:
        """What to replay."""
        return Schedule(self.duration_ns, self.delay_ns, self.lag_ns)

    def note(self, text: str) -> None:
        """Say what was assumed, once."""
        if text not in self.notes:
            self.notes += (text,)


def kept_share(edit: Edit) -> float:
    """Share of its time that a part keeps."""
    return 1 / edit.factor if edit.factor else 0.0


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a name, or its short form, matches a shell pattern, regardless of case."""
    lower = pattern.lower()
    return lambda name: any(fnmatchcase(text.lower(), lower) for text in (name, short_name(name)))


def work_of_kinds(change: Change, edit: Edit, *kinds: Kind) -> Rows:
    """Device slices of some kinds whose name matches, as positions."""
    trace, rows = change.facts.trace, change.graph.nodes.rows
    fits = np.isin(trace.slices.kind[rows], [int(kind) for kind in kinds])
    if edit.pattern and edit.what != "copies":
        fits &= trace.matches(trace.slices.name[rows], matcher(edit.pattern))
    chosen = np.flatnonzero(fits)
    if not len(chosen):
        of = f" of the name {edit.pattern}" if edit.pattern else ""
        raise NothingToChangeError(f"The trace has no {edit.what}{of} on the device")
    return chosen


def scale(change: Change, chosen: Rows, kept: float) -> None:
    """Work takes a share of its time, and so do calls that return while it runs."""
    nodes = change.graph.nodes.first + chosen
    change.duration_ns[nodes] = np.rint(change.duration_ns[nodes] * kept)
    held = waits_for(change, chosen) & (change.lag_ns > 0)
    change.lag_ns[held] = np.rint(change.lag_ns[held] * kept)


def waits_for(change: Change, chosen: Rows) -> Mask:
    """Mask of the edges by which the host waits for some work; (edges,)."""
    graph = change.graph
    is_chosen = np.zeros(len(graph.nodes), dtype=bool)
    is_chosen[graph.nodes.first + chosen] = True
    found: Mask = is_chosen[graph.edges.source] & (graph.edges.cause == Cause.WAIT)
    return found


def remove_work(change: Change, chosen: Rows) -> None:
    """Work that no longer runs: neither it nor its launch takes time."""
    stop_work(change, chosen)
    remove_launches(change, chosen)


def stop_work(change: Change, chosen: Rows) -> None:
    """Work on the device that takes no time."""
    nodes = change.graph.nodes
    change.duration_ns[nodes.first + chosen] = 0
    change.delay_ns[nodes.first + chosen] = 0


def remove_launches(change: Change, chosen: Rows) -> None:
    """The calls that launched some work take no time."""
    calls = change.graph.nodes.calls[chosen]
    shorten_host(change, intervals_of(change.facts.trace, np.sort(calls[calls != NULL])), 0.0)


def shorten_host(change: Change, where: Intervals, kept: float) -> None:
    """Host work within some time takes only a share of it."""
    points = change.graph.nodes.points
    start_ns = points.time_ns
    removed = Measure(where).within(start_ns, np.append(start_ns[1:], start_ns[-1:]))
    own = change.duration_ns[: len(points)]
    own -= np.minimum(np.rint((1 - kept) * removed).astype(np.int64), own)
