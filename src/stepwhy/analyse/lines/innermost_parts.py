"""The driving thread's time by what runs innermost, where the trace itself names lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.activity.selection import of_threads
from stepwhy.analyse.lines.driver_lines import DriverParts
from stepwhy.base.columns.nesting import nearest
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts


def innermost_parts(facts: Facts, lines: NDArray[np.int32]) -> DriverParts | None:
    """The parts of the driving thread's time; None if none of its slices has a line.

    Args:
        facts: Facts of the run.
        lines: Line of each slice, a string of the trace; NULL if unknown; (slices,).
    """
    trace, driving = facts.trace, facts.threads.driving
    if driving < 0:
        return None
    on_thread = of_threads(trace, (driving,))[trace.slices.track]
    rows = np.flatnonzero(on_thread & (trace.slices.dur_ns > 0))
    if not (lines[rows] != NULL).any():
        return None
    edges, owner = _edges(facts, rows)
    line = np.append(lines, NULL)[owner].astype(np.int64)
    op = np.append(nearest(facts.nesting, trace.is_kind(Kind.OP)), NULL)[owner]
    known = (owner[:-1] != NULL) & (edges[1:] > edges[:-1])
    starts, ends = edges[:-1][known], edges[1:][known]
    engine = np.zeros(len(starts), dtype=bool)
    line, op = line[:-1][known], op[:-1][known].astype(np.int64)
    return DriverParts(starts, ends, line, op, engine, np.full(len(starts), NULL, dtype=np.int64))


def _edges(facts: Facts, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Times at which another slice becomes innermost, and that slice, NULL for none; (edges,) each.

    Args:
        facts: Facts of the run.
        rows: Slices of one thread that take time, ascending; (rows,).
    """
    starts, ends = facts.trace.slices.start_ns[rows], facts.nesting.ends(rows)
    times = np.concatenate([starts, ends])
    owner = np.concatenate([rows, facts.nesting.parent[rows].astype(np.int64)])
    is_start = np.repeat([True, False], len(rows))
    # At one time, ends come first, the innermost before what contains it; then starts.
    order = np.lexsort((np.concatenate([rows, -rows]), is_start, times))
    return times[order], owner[order]
