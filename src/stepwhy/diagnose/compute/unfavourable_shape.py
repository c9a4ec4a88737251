"""Matrix products read rows that are not aligned, one value at a time.

## What it means
The rows of some matrix do not start at multiples of 16 bytes, because a size is not a multiple of 4
(TF32) or 8 (bfloat16, float16), such as a vocabulary of 50,257 words. If the size is odd, the
library has to choose a kernel that loads one value at a time; for other sizes it may.

## Why it costs
Matrix units compute faster than single values can be loaded. On an A100, products of large matrices
in TF32 ran at 55 to 65 TFLOP/s with unaligned rows, and at 110 with aligned ones.

## How it is measured
CUTLASS, which cuBLAS uses, writes into the name of a kernel how many values it loads at once:
`align1` is one. The diagnosis adds up the time of such kernels for TF32, bfloat16, float16 and
shorter types. The cost is half of it, because aligned rows can be twice as fast. Kernels that load
two values are left out: libraries also choose them for aligned rows.

## Fix
Pad features, hidden sizes and vocabularies to a multiple of 8, or of 64 for large ones. If all
sizes are multiples already, look for slices of a wider matrix: their rows are as far apart as the
rows of the whole.

## Fix risk
Layers, and thus checkpoints, change their size. Padded inputs must be zero, and padded outputs,
such as words that do not exist, must be ignored.

## When it abstains
Without an accelerator, and when no kernel name shows how values are loaded, as on AMD devices, with
kernels that a compiler generates, and with most kernels for Hopper.
"""

from __future__ import annotations

import re

import numpy as np

from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.compute.shared.calls import calls_in_order
from stepwhy.diagnose.shared.measure import by_name, by_string, mean_within, on_scale, time_of
from stepwhy.diagnose.shared.measure import times as time_of_each
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.slices import steady_work
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import Kind

RULE = Rule(
    __name__,
    name="Matrix products of unaligned rows",
    found="Pad matrix sizes so that rows are aligned",
    clear="Few matrix products load single values",
    needs=(("device-time",), ("kernels",), ("steps",)),
    accelerator_only=True,
)

SHARE = 0.05  # of the step is in such products; at most half of that can be saved
SAVED = 0.5  # of the time at most; aligned rows are twice as fast
LEAST_SAVED = 0.2  # of the time; small products have other limits
COMPUTE_BOUND = 0.8  # of the step; if the host is nearly as busy, faster kernels may save nothing

# Products on matrix units by the values that they load at once. FP64 and complex values have 8
# bytes or more, of which units load one. Source: `KernelNames` of CUTLASS, `library.py`.
_ALIGNED = regex(r"tensorop_(?![cdz]\d)\w*gemm\w*_align\d")
_SINGLE = regex(r"tensorop_(?![cdz]\d)\w*gemm\w*_align1(?!\d)")


def diagnose(facts: Facts) -> Finding:
    """Judge the time of matrix kernels that load single values."""
    kernels = steady_work(facts, Kind.KERNEL)
    if not len(_matching(facts, kernels, _ALIGNED)):
        return RULE.no_data(
            "kernel-names", "No kernel name shows how a matrix product loads its values."
        )
    rows = _matching(facts, kernels, _SINGLE)
    time = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
    evidence = _evidence(facts, rows, time)
    least = LEAST_SAVED if facts.share("compute") >= COMPUTE_BOUND else 0.0
    gain = saving("pad matrix sizes", least * time, SAVED * time)
    fix = RULE.fix("pytorch" if is_pytorch(facts) else "any")
    edit = Edit("kernels", "faster", "*align1*", factor=1 / (1 - SAVED), cost_ns=time)
    is_short, cost = time < SHARE * facts.wall_ns, round(SAVED * time)
    return RULE.judge(facts, cost, evidence, fix, shown=2, unless=is_short, gain=gain, edit=edit)


def _matching(facts: Facts, rows: AnyRows, pattern: re.Pattern[str]) -> AnyRows:
    found: AnyRows = rows[facts.trace.matches(facts.trace.slices.name[rows], pattern.search)]
    return found


def _evidence(facts: Facts, rows: AnyRows, time: int) -> tuple[Evidence, ...]:
    found = (
        Evidence("share of the step in products of unaligned rows", time / max(facts.wall_ns, 1),
                 "fraction"),
        Evidence("such products per step", len(rows) / max(facts.steady_count, 1), "count"),
    )  # fmt: skip
    slices, calls = facts.trace.slices, calls_in_order(facts)
    own = np.isin(calls.rows, rows)
    ops = by_string(facts, slices.name[calls.ops[own]], slices.dur_ns[calls.rows[own]])
    places = time_of_each(facts, "time in products of the operation", ops[:3])
    kernels = time_of_each(facts, "time of the kernel", by_name(facts, rows)[:3])
    return (*found, *places, *kernels, *times_at_lines(facts, rows))
