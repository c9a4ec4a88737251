"""The kernel maps and clears fresh memory in every step.

## What it means
The program frees the memory of its tensors, the C library returns it to the kernel, and the next
step gets new pages for the same tensors. The C library does so with every block of 32 MiB or more,
and with smaller ones at the end of its heap.

## Why it costs
The kernel clears each page at its first use, one page fault at a time: up to microseconds for
4 KiB. A timeline does not show it: the operations that touch the memory first are just slow.

## How it is measured
`stepwhy run` samples the kernel's count of minor page faults, and how much CPU time the process
spends in the kernel. It counts only as much of that time as page faults can cause. Its
share of the CPU time is its share of the step, except where the step waits for input,
synchronisation, communication or storage. A process that keeps most of the new pages is growing,
which is a different problem. The fix has saved a part of the cost in most programs, and little in
some. Where the usual part is less than steps vary by, the finding comes last, without a cost.

## Fix
Make the C library keep freed memory, use an allocator that does (jemalloc, tcmalloc), or allocate
less: operations in place.

## Fix risk
The process uses more memory, for as long as it lives.

## When it abstains
Without the kernel's counts, which `stepwhy run` samples every half second. It does not apply to
runs on an accelerator, whose tensors are in device memory, and to JAX: measured with and without
them, the settings do not change its page faults.
"""

from __future__ import annotations

import msgspec

from stepwhy.analyse.steps.counters import Series, series
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule

_USUAL = 0.45  # of the cost, which the fix saved in seven programs, see least_saved

RULE = Rule(
    __name__,
    name="Page faults in every step",
    found="Keep memory from step to step, instead of returning it to the kernel",
    clear="Steady steps reuse their memory",
    needs=(("steps",),),
    usual_share=_USUAL,
    least_share=0.10,  # of the step; below it the gain is less than the variation between steps
    # Of the cost: part of the memory may be fresh after the fix, too. Of seven programs whose
    # setting was tried, it saved most of the cost in three, 30 to 45 % in two, and less than a
    # fifth in two.
    least_saved=0.1,
    change="reuse host memory",
    edit=Edit("memory", "gone"),
)

_LITTLE = "Steps get fresh memory; to keep it may gain little: try it"
KEPT = 0.5  # of the new pages; a process that keeps more than it returns is growing
PAGE_BYTES = 4096  # bytes; the smallest page, so that the memory is not overestimated
# ns; mapping, clearing and unmapping a page in a virtual machine; a fifth of this on bare metal.
# More kernel time than that is other work: reading files, waking threads.
LONGEST_FAULT_NS = 4_000

_WAITING = ("communication", "input_wait", "sync", "storage")


class PageFaults(msgspec.Struct, frozen=True):
    """Page faults of the process during its steady steps.

    Args:
        per_step: Number of minor page faults per step.
        kept_bytes: Growth of the resident memory, per step.
        per_step_ns: Longest time that a step can spend on them, ns.
        kernel_share: Share of the CPU time that the process spends in the kernel.
    """

    per_step: float
    kept_bytes: float
    per_step_ns: int
    kernel_share: float

    @property
    def mapped_bytes(self) -> int:
        """Memory that the faults mapped per step, at least."""
        return round(self.per_step * PAGE_BYTES)


def diagnose(facts: Facts) -> Finding:
    """Judge how much of a step the kernel spends on mapping new pages."""
    if facts.has_accelerator:
        return RULE.not_applicable("The run uses an accelerator: its tensors are in device memory.")
    if facts.trace.meta.framework == "jax":
        return RULE.not_applicable("The settings of the C library do not change JAX's page faults.")
    if facts.trace.meta.device_expected:
        return RULE.lacks("device-activity")
    faults = find_page_faults(facts)
    if faults is None:
        return RULE.no_data(
            "page-faults", "The trace does not record page faults; `stepwhy run` does."
        )
    working = facts.wall_ns - sum(facts.breakdown[c] for c in _WAITING)
    cost = min(faults.per_step_ns, working)
    evidence = _evidence(faults)
    is_growing = faults.kept_bytes > KEPT * faults.mapped_bytes
    if not is_growing and RULE.least_share <= cost / facts.wall_ns < RULE.least_share / _USUAL:
        return RULE.finding(None, evidence, RULE.fix(), title=_LITTLE)
    return RULE.judge(facts, cost, evidence, RULE.fix(), shown=1, unless=is_growing)


def find_page_faults(facts: Facts) -> PageFaults | None:
    """Page faults of the steady steps; None if the counters have too few samples.

    Args:
        facts: Facts of the run.
    """
    faults = _steady(facts, "minor_faults").per_second
    kernel, user = (_steady(facts, f"{name}_ns").per_second for name in ("system", "user"))
    grown = _steady(facts, "resident_bytes").per_second
    if faults is None or kernel is None or user is None or kernel + user <= 0:
        return None
    step_s = facts.wall_ns / 1e9
    # A thread that waits for a core makes as little progress as one in the kernel.
    waiting = _steady(facts, "run_delay_ns").per_second or 0.0
    active = min((kernel + user + waiting) / 1e9, 1.0)
    faulting = min(kernel, faults * LONGEST_FAULT_NS) / (kernel + user)
    kept = max(grown or 0.0, 0.0)
    per_step_ns = round(faulting * active * facts.wall_ns)
    return PageFaults(faults * step_s, kept * step_s, per_step_ns, kernel / (kernel + user))


def _steady(facts: Facts, name: str) -> Series:
    """The samples of a counter from the first steady step to the last one."""
    steps, observed = facts.steps, facts.observed
    span = observed.steady_span_ns if observed is not None else None
    if span is None:
        span = int(steps.starts[steps.steady][0]), int(steps.ends[steps.steady][-1])
    return series(facts.trace, name).between(*span)


def _evidence(faults: PageFaults) -> tuple[Evidence, ...]:
    return (
        Evidence("fresh memory per step, at least", faults.mapped_bytes, "bytes"),
        Evidence("page faults per step", round(faults.per_step), "count"),
        Evidence("share of the CPU time in the kernel", faults.kernel_share, "fraction"),
    )
