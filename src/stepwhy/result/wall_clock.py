"""The wall clock of a run, set against what its timeline shows."""

from __future__ import annotations

from typing import Literal

import msgspec

GapKind = Literal[
    "first-runs",
    "slow-runs",
    "between-runs",
    "preparation",
    "before",
    "between",
    "long-gaps",
    "after",
    "set-up",
    "input",
    "other-workers",
    "python-functions",
    "storage",
    "host-operations",
    "unexplained",
]


class GapPart(msgspec.Struct, frozen=True):
    """A part of the wall time in which no device works.

    Args:
        kind: 'first-runs', 'slow-runs': what the first runs, and later ones that take longer than
            most, add to the mean; 'between-runs': Python between two runs; 'preparation' of the
            graph; time 'before' the first operation, 'between' two (in 'long-gaps' something else
            ran), and 'after' the last one; first-run 'set-up'; waits for 'input' and
            'other-workers'; 'python-functions' of the graph; 'storage'; 'host-operations' while
            the accelerator idles; 'unexplained'.
        ns: Its time in the mean run.
    """

    kind: GapKind
    ns: int


class WallClock(msgspec.Struct, frozen=True):
    """Wall time of a run, the time in which devices work, and the gap between both.

    Args:
        runs: Number of runs that `wall_ns` is the mean of; 1 where only one was recorded.
        steady: Number of steady runs among them; 0 where only one was recorded.
        wall_ns: The mean of all unprofiled runs, as a stopwatch around the loop shows it. For a
            file that holds one run, the time from its first operation to its last.
        busy_ns: Time in which a device works; None if no run was traced.
        gap: The parts of the difference, longest first; with `busy_ns` they sum to `wall_ns`.
            Empty if no run was traced.
        is_whole: Whether the time before the first operation and after the last one is known.
        first_runs: Number of first runs that are not steady.
        slowest_ns: The longest of them; 0 without any.
        sentence: All of this in words.
    """

    runs: int
    steady: int
    wall_ns: int
    busy_ns: int | None
    gap: tuple[GapPart, ...]
    is_whole: bool = True
    first_runs: int = 0
    slowest_ns: int = 0
    sentence: str = ""
