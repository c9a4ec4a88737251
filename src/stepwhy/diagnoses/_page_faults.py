"""Memory that the kernel gives to a process anew while it trains, and what that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.passes.counters import series

if TYPE_CHECKING:
    from stepwhy.passes.counters import Series
    from stepwhy.passes.facts import Facts

PAGE_BYTES = 4096  # bytes; the smallest page, so that what is mapped is not overestimated
# ns; giving a page and taking it back, in a virtual machine. What the kernel does beyond is other
# work: reading files, waking threads. On bare metal it is a fifth of this.
_LONGEST_NS = 4_000


class PageFaults(msgspec.Struct, frozen=True):
    """What the kernel told of the process while its steps were steady.

    Args:
        per_step: Pages that it was given, per step.
        kept_bytes: By how much its resident memory grew, per step.
        per_step_ns: How long a step takes for it at most, ns.
        kernel_share: Share of its CPU time in the kernel.
    """

    per_step: float
    kept_bytes: float
    per_step_ns: int
    kernel_share: float

    @property
    def mapped_bytes(self) -> int:
        """Memory that was given per step, at least."""
        return round(self.per_step * PAGE_BYTES)


def find_page_faults(facts: Facts) -> PageFaults | None:
    """The pages that the process was given, None where the kernel was not asked often enough.

    Args:
        facts: Facts of the run.
    """
    faults = _steady(facts, "minor_faults").per_second
    kernel, own = (_steady(facts, f"{name}_ns").per_second for name in ("system", "user"))
    grown = _steady(facts, "resident_bytes").per_second
    if faults is None or kernel is None or own is None or kernel + own <= 0:
        return None
    step_s = facts.wall_ns / 1e9
    # A thread that waits for a core is as far from its end as one that runs.
    waiting = _steady(facts, "run_delay_ns").per_second or 0.0
    active = min((kernel + own + waiting) / 1e9, 1.0)
    giving = min(kernel, faults * _LONGEST_NS) / (kernel + own)
    kept = max(grown or 0.0, 0.0)
    per_step_ns = round(giving * active * facts.wall_ns)
    return PageFaults(faults * step_s, kept * step_s, per_step_ns, kernel / (kernel + own))


def _steady(facts: Facts, name: str) -> Series:
    """The samples of a counter from the first steady step to the last one."""
    steps, observed = facts.steps, facts.observed
    span = observed.steady_span_ns if observed is not None else None
    if span is None:
        span = int(steps.starts[steps.steady][0]), int(steps.ends[steps.steady][-1])
    return series(facts.trace, name).between(*span)
