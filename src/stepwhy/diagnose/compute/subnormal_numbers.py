"""Operations compute with subnormal numbers, which take a CPU many times as long.

## What it means
A state decays for thousands of steps, weights or activations are multiplied by many small factors,
or a kernel such as exp(-d²) is almost zero for most pairs. Values below 1.2e-38 in float32 are
*subnormal* (denormal): they have fewer digits, and most processors handle them by microcode.

## Why it costs
A matrix product of subnormal numbers can take a hundred times as long as one of normal numbers, an
addition or multiplication ten times. The values are so small that the training rarely depends on
them.

## How it is measured
In one step after the traced ones, `stepwhy run` samples values of the inputs and outputs of each
longer operation. If some are subnormal, it repeats the operation on copies of its arguments: once
with their values, once with normal numbers, with the same shapes and threads. The cost is the time
of these operations in the traced steps less their time with normal numbers, if they are at least
`LEAST_RATIO` times as fast with them. Operations that could not be repeated do not count; if those
that read or return subnormal numbers take much of the step, the verdict is not `clear`.

## Fix
Let the processor flush them to zero, which the program must request before its first operation, or
clamp the values.

## Fix risk
Values below 1.2e-38 become zero, which hardly any training depends on.

## When it abstains
If no step was examined: in traces of other profilers, in runs with `torch.compile`,
several processes, or subclasses of tensors. Does not apply to GPUs, which take the same time for
all numbers, and outside of PyTorch: TensorFlow and JAX treat subnormal numbers as zero.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.program.semantic_ops import matched_ops, work_ns
from stepwhy.diagnose.not_needed.shared.semantics import without_semantics
from stepwhy.diagnose.shared.measure import by_string, on_scale, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Subnormal numbers that slow the CPU down",
    found="Flush subnormal numbers to zero: they take the CPU many times as long",
    clear="Subnormal numbers take little or no time",
    needs=(("device-time",), ("host-ops",), ("steps",)),
    refines="dominant-op",
    least_share=0.05,  # of the step; repetitions of the same operation differ by as much
    least_saved=0.7,  # of the cost; what such numbers do to caches and threads is not repeated
    change="usual numbers",
    edit=Edit("ops", "replaced"),
)

LEAST_RATIO = 1.5  # times as long as with usual numbers; two repetitions may differ by less
_SHOWN = 3
_NOT_REPEATED = "Operations on subnormal numbers could not be repeated with usual ones."


def diagnose(facts: Facts) -> Finding:
    """Judge the time that operations lose to subnormal numbers."""
    if not is_pytorch(facts):
        return RULE.not_applicable("TensorFlow and JAX flush subnormal numbers to zero.")
    if facts.has_accelerator:
        return RULE.not_applicable("A GPU takes the same time for all numbers.")
    abstention = without_semantics(RULE, facts)
    if abstention is not None:
        return abstention
    table = facts.trace.step_ops
    if (table.subnormal == NULL).any():
        return RULE.incomplete("semantic-step", "The values of operations were not looked at.")
    matched = matched_ops(facts)
    known = matched.places != NULL
    rows, places = matched.rows[known], matched.places[known]
    own_ns, usual_ns = table.subnormal_ns[places], table.usual_ns[places]
    taken_ns = work_ns(facts, matched)[known]
    slow = (own_ns > 0) & (own_ns >= LEAST_RATIO * usual_ns)
    lost = np.where(slow, 1 - usual_ns / np.maximum(own_ns, 1), 0.0)
    lost_ns = np.rint(lost * taken_ns).astype(np.int64)
    cost = on_scale(facts, facts.mean_ns(int(lost_ns.sum())))
    worst = np.flatnonzero(slow)[np.argsort(-lost_ns[slow], kind="stable")[:1]]
    evidence = [Evidence("share of the step lost to subnormal numbers", cost / facts.wall_ns,
                         "fraction")]  # fmt: skip
    for at in worst.tolist():
        name = facts.trace.string(int(facts.trace.slices.name[rows[at]]))
        ratio = round(float(own_ns[at] / max(int(usual_ns[at]), 1)), 1)
        share = int(table.subnormal[places[at]]) / 1000
        evidence += [
            Evidence("share of them in what the operation reads or makes", share,
                     "fraction", name),
            Evidence("times as long as with usual numbers", ratio, "ratio", name),
        ]  # fmt: skip
    names = facts.trace.slices.name[rows]
    evidence += [
        *times_at_lines(facts, rows[slow & (lost_ns > 0)]),
        *times(facts, "time lost in the operation", by_string(facts, names, lost_ns)[:_SHOWN]),
    ]
    found = RULE.judge(facts, cost, tuple(evidence), RULE.fix(), shown=1)
    # Nothing measured says how long these would take otherwise.
    unknown_ns = taken_ns[(table.subnormal[places] > 0) & (own_ns == 0)].sum()
    unknown = on_scale(facts, facts.mean_ns(int(unknown_ns)))
    if found.verdict != "found" and unknown >= RULE.least_share * facts.wall_ns:
        return RULE.incomplete("semantic-step", _NOT_REPEATED, tuple(evidence))
    return found
