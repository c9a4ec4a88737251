"""The breakdown of the mean step, and how it follows from the record."""

from __future__ import annotations

import msgspec


class Correction(msgspec.Struct, frozen=True):
    """One correction of the recorded breakdown.

    Args:
        why: Its reason, as named in `docs/explanation/breakdown.md`, such as 'own-lines'.
        changes: ns that it added to categories; negative for what it took from them.
        sentence: The same in words.
    """

    why: str
    changes: dict[str, int]
    sentence: str = ""


class Breakdown(msgspec.Struct, frozen=True):
    """The closed partition of a step: `categories` sum to `wall_ns` exactly.

    Args:
        wall_ns: Mean wall time of the steady steps.
        categories: ns per category, all of `result.CATEGORIES`.
        phases: Compute ns per phase ('forward', 'backward', 'optimizer', ..., 'unknown').
            Overlapping work counts in each phase, so the sum may be larger than `compute`.
        hottest_line: Source line in which the driving thread is most often while the device is
            idle.
        core_wait_ns: Time in which the driving thread was ready to run, but waited for a CPU core;
            the categories include it. None if not recorded.
        note: One sentence about that wait, or '' if it is short.
        recorded: ns per category as recorded, before `corrections`; {} if nothing was corrected.
        corrections: What was corrected, in order: their changes, added to `recorded`, make
            `categories`.
    """

    wall_ns: int
    categories: dict[str, int]
    phases: dict[str, int]
    hottest_line: str = ""
    core_wait_ns: int | None = None
    note: str = ""
    recorded: dict[str, int] = msgspec.field(default_factory=dict)
    corrections: tuple[Correction, ...] = ()
