"""Parts of a run in which other programs take the cores, and the part in which they do least."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.analyse.steps.cores import CONTENDED, FEW_CORES, background_cores, run_delay_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.trace import Trace

# Share of the runnable time; the wait for cores of a quiet machine varies by a third of it.
CALMER = 0.15


def contention(trace: Trace, span_ns: tuple[int, int] | None = None) -> float | None:
    """Share of its runnable time in which other programs kept a process waiting for a core, 0..1.

    Args:
        trace: The trace, with `counters`.
        span_ns: From when to when; None for the whole run.

    Returns:
        0 if only threads and processes of the job itself compete; None if not sampled.
    """
    share, others = run_delay_share(trace, span_ns), background_cores(trace, span_ns)
    if share is None or others is None:
        return None
    return max(share, 0.0) if others >= FEW_CORES else 0.0


def differs(first: float | None, second: float | None) -> bool:
    """Whether one of two parts of a run is contended, and the other one clearly less."""
    if first is None or second is None:
        return False
    return max(first, second) >= CONTENDED and abs(first - second) >= CALMER


def least_contended(shares: Sequence[float | None], preferred: int) -> list[int]:
    """The parts that are clearly less contended than a preferred one, the least contended first.

    Args:
        shares: Result of `contention` for each part.
        preferred: Index of a part.

    Returns:
        Indices of parts; [] if the preferred one is not contended.
    """
    usual = shares[preferred]
    if usual is None or usual < CONTENDED:
        return []
    calmer = {i: s for i, s in enumerate(shares) if s is not None and s <= usual - CALMER}
    return sorted(calmer, key=lambda i: (calmer[i], i))
