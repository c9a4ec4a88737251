"""The line of the program behind each slice, forward, backward and on devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.lines.driver_lines import DriverParts, carried_parts, node_rows
from stepwhy.analyse.lines.program_lines import has_program_line
from stepwhy.analyse.lines.timed_lines import lines_at, timed_parts
from stepwhy.base.columns.groups import looked_up
from stepwhy.base.columns.nesting import inherit, nearest
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts

    Ints = NDArray[np.int64]
    Lines = NDArray[np.int32]


def slice_lines(facts: Facts) -> Lines:
    """Line of the program that causes each slice, a string of the trace; (slices,).

    NULL where none is known. An operation of the backward pass, and the kernels that it launches,
    are of the line whose forward operation made its node; code that the backward pass calls is of
    its own line. Device work is of the line that launched it. Where lines were noted by time alone,
    what else the driving thread runs is of the line at which it was in the middle of that.
    """
    lines, timed = facts.derived(traced_lines), facts.derived(timed_parts)
    return lines if timed is None else _with_launched(facts, _with_times(facts, lines, timed))


def traced_lines(facts: Facts) -> Lines:
    """As `slice_lines`, without the lines that are known by time alone; (slices,)."""
    recorded = facts.derived(recorded_lines)
    parts = facts.derived(carried_parts)
    lines = recorded.copy() if parts is None else _with_parts(facts, recorded, parts)
    return spread(facts, lines, parts)


def spread(facts: Facts, values: Lines, parts: DriverParts | None) -> Lines:
    """What is known of forward operations, also for their backward pass and device work; (slices,).

    Args:
        facts: Facts of the run.
        values: Strings of the trace, NULL where unknown; (slices,).
        parts: The driving thread's time, if its lines were noted.
    """
    return _with_launched(facts, _with_backward(facts, values, parts))


def _with_launched(facts: Facts, found: Lines) -> Lines:
    """Add the lines of calls to the device work that they have launched."""
    work, calls = facts.launches.joined
    unknown = found[work] == NULL
    found[work[unknown]] = found[calls[unknown]]
    return found


def recorded_lines(facts: Facts) -> Lines:
    """Line of the program that the trace itself records for each slice; (slices,)."""
    lines = np.where(has_program_line(facts.trace), facts.trace.slices.source, NULL)
    return inherit(facts.nesting.parent, lines.astype(np.int32), NULL)


def _with_parts(facts: Facts, recorded: Lines, parts: DriverParts) -> Lines:
    """The lines of the driving thread's operations, and of all that they call."""
    lines = np.full(len(recorded), NULL, dtype=np.int32)
    is_op = parts.unit != NULL
    lines[parts.unit[is_op]] = parts.line[is_op]
    found = inherit(facts.nesting.parent, lines, NULL)
    return np.where(found == NULL, recorded, found)


def _with_times(facts: Facts, lines: Lines, timed: DriverParts) -> Lines:
    """The lines, with those of the time in slices of the driving thread that have none.

    That thread runs eager operations itself, on a track of their own for each device.
    """
    trace, rows = facts.trace, np.flatnonzero(lines == NULL)
    ids = trace.tracks.thread
    on_thread = (ids == ids[facts.threads.driving]) & (ids != NULL)
    rows = rows[on_thread[trace.slices.track[rows]]]
    found = lines.copy()
    found[rows] = lines_at(timed, trace.slices.start_ns[rows] + trace.slices.dur_ns[rows] // 2)
    return found


def _with_backward(facts: Facts, lines: Lines, parts: DriverParts | None) -> Lines:
    """The lines, with those of the forward pass in the nodes of the backward pass."""
    nodes = node_rows(facts)
    if not len(nodes):
        return lines
    of_node = node_lines(facts, lines, nodes)
    mask = np.zeros(len(lines), dtype=bool)
    mask[nodes] = True
    node = nearest(facts.nesting, mask)
    own = np.full(len(lines), NULL, dtype=np.int32)
    own[nodes] = of_node
    inside = node != NULL
    if parts is not None:
        # Code of the program that the backward pass calls has a line of its own. Operations that no
        # noted step has, as of the reducer of DistributedDataParallel, have none.
        called = np.zeros(len(lines), dtype=bool)
        called[parts.unit[(parts.unit != NULL) & (parts.line != NULL) & ~parts.engine]] = True
        inside &= ~_inside(facts, called)
    found = lines.copy()
    known = own[node] != NULL
    found[inside & known] = own[node][inside & known]
    rows = np.flatnonzero((found == NULL) & (node == NULL) & _engine_threads(facts, nodes))
    found[rows] = _line_before(facts, rows, nodes, of_node)
    return found


def _engine_threads(facts: Facts, nodes: Ints) -> NDArray[np.bool_]:
    """Mask of the slices on threads that only run the backward pass; (slices,)."""
    track = facts.trace.slices.track
    threads = np.zeros(len(facts.trace.tracks), dtype=bool)
    threads[track[nodes]] = True
    if facts.threads.driving >= 0:
        threads[facts.threads.driving] = False
    found: NDArray[np.bool_] = threads[track]
    return found


def _line_before(facts: Facts, rows: Ints, nodes: Ints, lines: Lines) -> Lines:
    """Line of the last node that began before each slice on the same thread; (rows,).

    Between two nodes, the engine sums the gradients that the first one has computed.

    Args:
        facts: Facts of the run.
        rows: Slices outside of nodes; (rows,).
        nodes: The nodes, ascending; (nodes,).
        lines: Their lines; (nodes,).
    """
    track = facts.trace.slices.track.astype(np.int64)
    key = track * len(track) + np.arange(len(track))
    order = np.argsort(key[nodes])
    place = np.searchsorted(key[nodes[order]], key[rows])
    before = np.append(order, NULL)[place - 1]
    same = (before != NULL) & (track[nodes[before]] == track[rows])
    return np.where(same, lines[before], NULL).astype(np.int32)


def node_lines(facts: Facts, lines: Lines, nodes: Ints) -> Lines:
    """Line whose forward operation made each node of the backward pass; (nodes,).

    The forward operations that have a node's number show the number that the next node gets, so
    the last one of them made it. Nodes that accumulate gradients have none; each follows the node
    that computed its gradient.

    Args:
        facts: Facts of the run.
        lines: Line of each forward operation; (slices,).
        nodes: The nodes, ascending; (nodes,).
    """
    sequence = facts.trace.slices.sequence
    forward = (sequence != NULL) & (lines != NULL) & facts.trace.is_kind(Kind.OP)
    forward[nodes] = False
    rows = np.flatnonzero(forward)[::-1]
    numbers, last = np.unique(sequence[rows], return_index=True)
    made_by = looked_up(numbers, rows[last].astype(np.int32), sequence[nodes], NULL)
    found = np.where(made_by == NULL, NULL, lines[made_by]).astype(np.int32)
    return _filled(found, facts.trace.slices.track[nodes])


def _filled(lines: Lines, tracks: Ints) -> Lines:
    """The lines, where unknown that of the node before on the same thread; (nodes,)."""
    order = np.argsort(tracks, kind="stable")
    place = np.where(lines[order] == NULL, NULL, np.arange(len(order)))
    place = np.maximum.accumulate(place)
    same = (place != NULL) & (tracks[order][place] == tracks[order])
    found = lines.copy()
    found[order] = np.where(same, lines[order][place], NULL)
    return found


def _inside(facts: Facts, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = inherit(facts.nesting.parent, chosen.view(np.int8).copy()).view(
        np.bool_
    )
    return found
