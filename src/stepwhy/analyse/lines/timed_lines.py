"""Divide recorded steps by the time that other steps were seen to spend at each line.

For TensorFlow and JAX, the lines of a few steps were noted without their operations. A recorded
step passes through the same lines in the same order, and is taken to spend the same share of its
time at each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.lines.driver_lines import DriverParts, NotedStep, noted_steps
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts

    Ints = NDArray[np.int64]


def timed_parts(facts: Facts) -> DriverParts | None:
    """The recorded steps by line; None if no lines were noted, or their operations were, too."""
    noted = noted_steps(facts)
    if not noted or any(len(one.names) for one in noted) or facts.threads.driving < 0:
        return None
    steps = facts.steps
    bounds = zip(steps.host_starts.tolist(), steps.host_ends.tolist(), strict=True)
    parts = [
        _divided(noted[number % len(noted)], start, end)
        for number, (start, end) in enumerate(bounds)
    ]
    starts, ends, line = (np.concatenate(column) for column in zip(*parts, strict=True))
    kept = ends > starts
    none = np.full(int(kept.sum()), NULL, dtype=np.int64)
    return DriverParts(starts[kept], ends[kept], line[kept], none, none != NULL, none)


def _divided(noted: NotedStep, start: int, end: int) -> tuple[Ints, Ints, Ints]:
    """Starts, ends and lines of the parts of one step."""
    until = np.cumsum(np.maximum(noted.dur_ns, 1), dtype=np.float64)
    cuts = start + (until * ((end - start) / until[-1])).astype(np.int64)
    cuts[-1] = end
    return np.append(start, cuts[:-1]), cuts, noted.line[:-1]


def lines_at(parts: DriverParts, times: Ints) -> Ints:
    """The line at each time, NULL where none is known; (times,).

    Args:
        parts: Consecutive parts, ascending.
        times: ns; (times,).
    """
    place = np.searchsorted(parts.starts, times, side="right") - 1
    inside = (place >= 0) & (np.append(parts.ends, 0)[place] > times)
    return np.where(inside, np.append(parts.line, NULL)[place], NULL)


def with_times(parts: DriverParts | None, timed: DriverParts) -> DriverParts:
    """The parts that the trace records, with the line by time where it records none.

    Args:
        parts: What runs by the trace; None if that names no line.
        timed: The lines by time.
    """
    if parts is None:
        return timed
    edges = np.unique(np.concatenate([parts.starts, parts.ends, timed.starts, timed.ends]))
    starts, ends = edges[:-1], edges[1:]
    place = np.searchsorted(parts.starts, starts, side="right") - 1
    place[np.append(parts.ends, 0)[place] <= starts] = NULL
    line, unit = np.append(parts.line, NULL)[place], np.append(parts.unit, NULL)[place]
    line = np.where(line == NULL, lines_at(timed, starts), line)
    known = (place != NULL) | (line != NULL)
    engine = np.append(parts.engine, False)[place]
    columns = (column[known] for column in (starts, ends, line, unit, engine))
    starts, ends, line, unit, engine = columns
    none = np.full(len(starts), NULL, dtype=np.int64)
    return DriverParts(starts, ends, line, unit, engine, none)
