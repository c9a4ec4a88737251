"""Batch normalisation is written out in single operations instead of one fused one.

## What it means
The mean, the variance, the difference, the root, the scale and the shift of each batch
normalisation are operations of their own, and so are their gradients.

## Why it costs
There is next to nothing to compute: the time goes into memory. A fused operation reads its input
once or twice and writes its output once; written out, each operation reads and writes a whole
activation, and keeps more of them for the backward pass.

## How it is measured
From the operations alone. In a graph: a scope with two means, a root and a product, whose name
says batch normalisation or in which running statistics are assigned, with the gradients of its
nodes. In an eager program: a run of operations with two statistics, a root, and updates of running
statistics, with the backward operations of the same autograd numbers. Layer, instance and group
normalisation are made of the same operations but keep no running statistics: they do not count.

The cost is the time in which their work runs in the steady steps, without that of the fastest
pass over the activation per normalisation and direction, which a fused operation needs as well. It
is a bound: on an accelerator that is idle meanwhile, or beside other operations, less is gained.

## Fix
The library's batch normalisation, which is fused where the device has it.

## Fix risk
The last digits differ, and some libraries keep the unbiased variance among their running
statistics. Names of variables change: old checkpoints need a mapping.

## When it abstains
Where operations cannot be told: without them on the host, in a TensorFlow trace without names of
nodes, or where a compiler fuses operations by itself. It is incomplete where normalisations are
written out but nothing tells whether they are of batches, and where most kernels cannot be traced
to an operation, as those of CUDA graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.diagnoses.shared.batch_norm import (
    CONVOLUTION,
    FUSED,
    attributed,
    count_of,
    in_calls,
    in_graph,
)
from stepwhy.diagnoses.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnoses.shared.placement import listed
from stepwhy.diagnoses.shared.rule import Rule, missing, saving
from stepwhy.findings import Evidence, Fix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.diagnoses.shared.batch_norm import WrittenOut
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="unfused-batch-norm",
    family="compute",
    name="Batch normalisation in single operations",
    found="Use a fused batch normalisation",
    clear="No batch normalisation is written out in single operations",
    needs=(("host-ops", "graph-ops"), ("device-time",), ("steps",)),
)

SHARE = 0.05  # of the step; below it the cure gains less than what steps vary by
LEAST_SAVED = 0.5  # of the cost; a fused operation reads its input twice in each direction
FEWEST_KNOWN = 0.5  # of the kernels' time; of graphs that are replayed no operation is recorded
FULL_PASS = 0.25  # of the longest operation; shorter ones work on a value per channel


def diagnose(facts: Facts) -> Finding:
    """Judge the time of batch normalisations that are written out."""
    framework = facts.trace.meta.framework
    if framework == "jax":
        return RULE.not_applicable("The compiler fuses operations by itself.")
    has_nodes = facts.names_nodes
    if framework == "tensorflow" and not has_nodes:
        return RULE.no_data(missing("graph-ops"))
    if not has_nodes and attributed(facts) < FEWEST_KNOWN:
        return RULE.incomplete("Of most kernels it is not recorded which operation launched them.")
    if not count_of(facts, CONVOLUTION):
        return RULE.nothing((Evidence("convolutions", 0, "count"),))
    found = in_graph(facts) if has_nodes else in_calls(facts)
    if not found.per_step:
        return _none(facts, found)
    cost = _cost_ns(facts, found)
    evidence = _evidence(facts, found, cost)
    if cost < SHARE * facts.wall_ns:
        return RULE.nothing(evidence[:2])
    fix = _TENSORFLOW if has_nodes else _PYTORCH
    edit = "fuse batch normalisation (bound: all of it but one pass over the activation)"
    return RULE.finding(cost, evidence, fix, saving(edit, LEAST_SAVED * cost, cost))


def _none(facts: Facts, found: WrittenOut) -> Finding:
    if found.doubtful:
        return RULE.incomplete(
            "Normalisations are written out, but nothing tells whether they are of batches: they "
            "keep no running statistics in these steps."
        )
    fused = count_of(facts, FUSED) / max(facts.steady_count, 1)
    return RULE.nothing((Evidence("fused batch normalisations", fused, "count"),))


def _cost_ns(facts: Facts, found: WrittenOut) -> int:
    """Their time in the mean step beyond one pass over each activation, unprofiled where known."""
    needed = facts.mean_ns(_one_pass_ns(facts.trace.slices.dur_ns[found.rows], found.group))
    together = mean_within(facts, time_of(facts, found.rows))
    return on_scale(facts, max(together - needed, 0), "compute")


def _one_pass_ns(dur_ns: NDArray[np.int64], group: NDArray[np.int64]) -> int:
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


def _evidence(facts: Facts, found: WrittenOut, cost: int) -> tuple[Evidence, ...]:
    share = cost / max(facts.wall_ns, 1)
    forward, backward = found.rows[~found.backward], found.rows[found.backward]
    evidence = [
        Evidence("batch normalisations in single operations", found.per_step, "count",
                 listed(found.names)),
        Evidence("share of the step beyond one pass over each activation", share, "fraction"),
        Evidence("operations of them in every step",
                 len(found.rows) / max(facts.steady_count, 1), "count"),
    ]  # fmt: skip
    for what, rows in (("forward", forward), ("backward", backward)):
        running = mean_within(facts, time_of(facts, rows))
        if running:
            evidence.append(Evidence(f"time in which they run, {what}", running, "ns"))
    return tuple(evidence)


_TENSORFLOW = Fix(
    "Take the batch normalisation that is one operation. Its running statistics are updated as "
    "before, from the mean and variance that it returns.",
    "net, mean, variance = tf.nn.fused_batch_norm(net, gamma, beta)\n"
    "# or: tf.layers.batch_normalization(net, training=True, fused=True)\n"
    "# TF2: tf_keras.layers.BatchNormalization(); that of Keras 3 needs a\n"
    "#      compiler: model.compile(..., jit_compile=True)",
    "changes-numerics",
)
_PYTORCH = Fix(
    "Take the library's module; it keeps its running statistics itself.",
    "layers = [nn.Conv2d(3, 32, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU()]",
    "changes-numerics",
)
