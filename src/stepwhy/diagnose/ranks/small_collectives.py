"""Gradients, or numbers such as metrics, are exchanged one by one, in many small collectives.

## What it means
A step runs about as many all-reduces as there are gradients, or many that carry a number each. Each
is short: its time is mostly latency, and hardly depends on the number of bytes.

## Why it costs
The latency is paid for each exchange, and each waits for the slowest rank. In buckets of some
megabytes, or one tensor with all numbers, it is paid a few times per step.

## How it is measured
By the number of all-reduces per step, beside the number of gradients that the backward pass
completes, and by their median time. The cost is the time in which only all-reduces run, and on a
CPU also the time between two of them in which nothing runs. All-reduces are known by the name of
their kernel, by its arguments, or by the range `nccl:all_reduce` around its launch. Sizes are not
needed: an exchange as large as a bucket of DistributedDataParallel, 25 MB, takes longer. Where they
are recorded, and most all-reduces carry at most 64 bytes, only these are counted, whatever the
number of gradients.

## Fix
Wrap the model in DistributedDataParallel, or copy all gradients into one tensor and exchange that.
If the model is wrapped already, do not make its buckets small. Put the numbers of a logger into one
tensor and exchange that, or exchange them only in steps that are logged.

## Fix risk
A different order of summation may change the last bits. A second copy of the gradients is held.

## When it abstains
On a run without collectives, or if the trace does not record which collectives are all-reduces, or
when gradients are ready.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.lines.line_shares import driver_parts
from stepwhy.analyse.lines.timed_lines import lines_at
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.types import AnyRows
from stepwhy.diagnose.shared.ddp import (
    FORWARD,
    GRADIENT,
    all_reduce_ns,
    all_reduces,
    exchange_calls,
)
from stepwhy.diagnose.shared.measure import idle, mean_within, on_scale
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.slices import named
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Many small exchanges",
    found="Combine many small exchanges into a few",
    clear="Exchanges are few or large",
    needs=(("host-ops",), ("steps",)),
    refines="exposed-communication",
    least_share=0.10,  # of the step; below it the gain is less than the variation between steps
    edit=Edit("communication", "bucketed"),
)

FEWEST = 10  # all-reduces per step; fewer are usual for buckets
PER_GRADIENT = 0.8  # all-reduces per gradient; buckets hold several, and layers exchange less often
SHORT = 50_000  # ns; 25 MB take longer, except over the fastest links
SHORT_CPU = 5_000_000  # ns; 25 MB take longer over gloo
NUMBERS = 64  # bytes; gradients of layers are larger, what is logged is a number or a few
MOSTLY = 0.8  # of the all-reduces; gradients that are exchanged one by one include small ones
LEAST_SAVED = 0.3  # of the cost; the bytes, and the wait for the slowest rank, remain


def diagnose(facts: Facts) -> Finding:
    """Judge the number of all-reduces and their time."""
    rows, gradients = all_reduces(facts), named(facts, GRADIENT)
    if not len(facts.slices(Kind.COLLECTIVE, steady=True)):
        return RULE.not_applicable("The run has no collectives.")
    if not len(rows):
        return RULE.no_data(
            "collective-names", "None of the recorded collectives is named as an all-reduce."
        )
    if len(numbers := _numbers(facts, rows)):
        return _judge(facts, numbers, (_carried(facts, numbers),), RULE.fix("numbers"))
    if not len(gradients):
        return RULE.no_data("backward-ops", "The trace does not show when gradients are complete.")
    per_step = Evidence("gradients per step", len(gradients) / max(facts.steady_count, 1), "count")
    fix = RULE.fix("wrapped" if len(named(facts, FORWARD)) else "by-hand")
    fewest = PER_GRADIENT * len(gradients)
    return _judge(facts, rows, (per_step,), fix, fewest)


def _numbers(facts: Facts, rows: AnyRows) -> AnyRows:
    """Those all-reduces that carry a number or a few, if most do; else none."""
    sizes = facts.trace.slices.bytes[rows]
    found: AnyRows = rows[(sizes != NULL) & (sizes <= NUMBERS)]
    is_usual = len(found) < max(MOSTLY * len(rows), FEWEST * max(facts.steady_count, 1))
    return found[:0] if is_usual else found


def _judge(
    facts: Facts, rows: AnyRows, beside: tuple[Evidence, ...], fix: Fix, fewest: float = 0
) -> Finding:
    """Judge some all-reduces, of which there must be so many, and their time."""
    count = len(rows) / max(facts.steady_count, 1)
    median_ns = float(np.median(facts.trace.slices.dur_ns[rows]))
    share = _total_ns(facts, rows) / max(_total_ns(facts, all_reduces(facts)), 1)
    cost = round(share * all_reduce_ns(facts))
    cost += 0 if facts.has_accelerator else _between_ns(facts, rows)
    evidence = (
        Evidence("all-reduces per step", count, "count", _usual_line(facts)),
        *beside,
        Evidence("median time of an all-reduce", round(median_ns), "ns"),
    )
    is_short = median_ns < (SHORT if facts.has_accelerator else SHORT_CPU)
    is_many = count >= FEWEST and len(rows) >= fewest
    gain = saving("combine small exchanges", LEAST_SAVED * cost, (1 - 1 / count) * cost)
    is_usual = not (is_many and is_short)
    return RULE.judge(facts, cost, evidence, fix, unless=is_usual, gain=gain)


def _total_ns(facts: Facts, rows: AnyRows) -> float:
    return float(facts.trace.slices.dur_ns[rows].sum())


def _carried(facts: Facts, rows: AnyRows) -> Evidence:
    """Bytes of most of these all-reduces."""
    sizes = facts.trace.slices.bytes[rows]
    return Evidence("bytes of such an all-reduce", int(np.median(sizes)), "bytes")


def _usual_line(facts: Facts) -> str:
    """The line that usually calls them; '' if it is not known."""
    parts = driver_parts(facts)
    calls = facts.trace.slices.start_ns[exchange_calls(facts)]
    lines = lines_at(parts, calls) if parts is not None else np.empty(0, dtype=np.int64)
    lines = lines[lines != NULL]
    return facts.trace.string(int(np.bincount(lines).argmax())) if len(lines) else ""


def _between_ns(facts: Facts, rows: AnyRows) -> int:
    """Time of the step between two all-reduces in which nothing runs: threads wake each other."""
    starts, ends = facts.trace.slices.start_ns[rows], facts.trace.ends(rows)
    step = np.searchsorted(facts.steps.starts, starts)
    is_gap = (starts[1:] > ends[:-1]) & (step[1:] == step[:-1])
    gaps = Intervals.of(ends[:-1][is_gap], starts[1:][is_gap])
    return on_scale(facts, mean_within(facts, gaps & idle(facts)))
