"""Batch normalisation consists of many operations instead of one fused operation.

## What it means
Mean, variance, difference, square root, scale and shift of each batch normalisation are separate
operations, and so are their gradients.

## Why it costs
The operations are limited by memory bandwidth, not by arithmetic. A fused operation reads its input
once or twice and writes its output once. Without fusion, each operation reads and writes a whole
activation, and more activations are kept for the backward pass.

## How it is measured
From the operations alone. In a graph: a scope with two means, a square root and a product, which is
named after batch normalisation or keeps running statistics, and the gradients of its nodes. In an
eager program: consecutive operations with two statistics, a square root and updates of running
statistics, and the backward operations with the same autograd sequence numbers. A graph that only
predicts normalises by stored statistics: operations of `tf.nn.batch_normalization` without moments,
or a scope with variables such as `moving_mean` in which values are scaled and shifted. Layer,
instance and group normalisation consist of the same operations but have no running statistics, so
they do not count.

The cost is the time of these operations in the steady steps, minus the fastest pass over the
activation per normalisation and direction, which a fused operation needs as well. It is an upper
bound: the gain is smaller if the accelerator is idle in between, or if other operations run at the
same time.

## Fix
Use the library's batch normalisation, which is fused if the device supports it.

## Fix risk
The last digits differ, and some libraries use the unbiased variance for running statistics. Names
of variables change, so old checkpoints need a mapping.

## When it abstains
When operations are unknown: without host operations, in a TensorFlow trace without names of nodes,
or when a compiler fuses operations. `incomplete` when it is unclear whether normalisations are over
batches, and when most kernels cannot be attributed to an operation, as with CUDA graphs.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from stepwhy.base.columns.types import Ints
from stepwhy.diagnose.compute.shared.batch_norm import (
    CONVOLUTION,
    FUSED,
    UnfusedNorms,
    count_of,
    in_calls,
    in_graph,
)
from stepwhy.diagnose.compute.shared.calls import NOT_ATTRIBUTED, attributed
from stepwhy.diagnose.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnose.shared.placement import listed
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Unfused batch normalisation",
    found="Use a fused batch normalisation",
    clear="All batch normalisation is fused",
    needs=(("host-ops", "graph-ops"), ("device-time",), ("steps",)),
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.5,  # of the cost; a fused operation reads its input twice in each direction
    change="fuse batch normalisation (bound: all of it but one pass over the activation)",
    edit=Edit("ops", "fused"),
)

FEWEST_KNOWN = 0.5  # of the kernels' time; replayed graphs record no operations
FULL_PASS = 0.25  # of the longest operation; shorter ones process one value per channel


def diagnose(facts: Facts) -> Finding:
    """Judge the time of batch normalisations that are not fused."""
    framework = facts.trace.meta.framework
    if framework == "jax":
        return RULE.not_applicable("The compiler fuses operations.")
    has_nodes = facts.names_nodes
    if framework == "tensorflow" and not has_nodes:
        return RULE.lacks("graph-ops")
    if not has_nodes and attributed(facts) < FEWEST_KNOWN:
        return RULE.incomplete("kernel-launches", NOT_ATTRIBUTED)
    if not count_of(facts, CONVOLUTION):
        return RULE.nothing((Evidence("convolutions", 0, "count"),))
    found = in_graph(facts) if has_nodes else in_calls(facts)
    if not found.per_step:
        return _none(facts, found)
    # Beyond one pass over each activation.
    needed = facts.mean_ns(_one_pass_ns(facts.trace.slices.dur_ns[found.rows], found.group))
    together = mean_within(facts, time_of(facts, found.rows))
    cost = on_scale(facts, max(together - needed, 0), "compute")
    evidence = (*_evidence(facts, found, cost), *times_at_lines(facts, found.rows))
    fix = RULE.fix("pytorch" if not has_nodes else "predicting" if found.predicts else "tensorflow")
    return RULE.judge(facts, cost, evidence, fix, shown=2)


def _none(facts: Facts, found: UnfusedNorms) -> Finding:
    if found.doubtful:
        return RULE.incomplete(
            "running-statistics",
            "There are unfused normalisations, but they update no running statistics in "
            "these steps, so they may not be batch normalisations.",
        )
    fused = count_of(facts, FUSED) / max(facts.steady_count, 1)
    return RULE.nothing((Evidence("fused batch normalisations", fused, "count"),))


def _one_pass_ns(dur_ns: Ints, group: Ints) -> int:
    """Sum over the groups of the shortest operation that works on a whole activation, ns.

    Args:
        dur_ns: Duration of each operation; (operations,).
        group: Group of each; (operations,).
    """
    _, place = np.unique(group, return_inverse=True)
    count = int(place.max(initial=-1)) + 1
    longest = np.zeros(count, dtype=np.int64)
    np.maximum.at(longest, place, dur_ns)
    is_full = dur_ns >= FULL_PASS * longest[place]
    shortest = longest.copy()
    np.minimum.at(shortest, place[is_full], dur_ns[is_full])
    return int(shortest.sum())


def _evidence(facts: Facts, found: UnfusedNorms, cost: int) -> tuple[Evidence, ...]:
    share = cost / max(facts.wall_ns, 1)
    forward, backward = found.rows[~found.backward], found.rows[found.backward]
    evidence = [
        Evidence("unfused batch normalisations", found.per_step, "count",
                 listed(found.names)),
        Evidence("share of the step beyond one pass over each activation", share, "fraction"),
        Evidence("their operations per step",
                 len(found.rows) / max(facts.steady_count, 1), "count"),
    ]  # fmt: skip
    evidence += _line(facts, found)
    for what, rows in (("forward", forward), ("backward", backward)):
        running = mean_within(facts, time_of(facts, rows))
        if running:
            evidence.append(Evidence(f"time in which they run, {what}", running, "ns"))
    return tuple(evidence)


def _line(facts: Facts, found: UnfusedNorms) -> list[Evidence]:
    """The line of the program that builds what takes longest, if the graph names one."""
    nodes, text = facts.trace.nodes, facts.trace.string
    sources = dict(zip(nodes.name.tolist(), nodes.source.tolist(), strict=True))
    slices, times = facts.trace.slices, Counter[int]()
    columns = slices.scope[found.rows].tolist(), slices.dur_ns[found.rows].tolist()
    for scope, ns in zip(*columns, strict=True):
        times[sources.get(scope, NULL)] += ns
    del times[NULL]
    return [
        Evidence("device time of the line that takes longest", facts.mean_ns(ns), "ns", text(line))
        for line, ns in times.most_common(1)
    ]
