"""The optimizer updates each parameter separately, in several small operations.

## What it means
`optimizer.step()` loops over the parameters in Python, and runs up to a dozen operations for each.
PyTorch does so on a CPU by default; on a GPU with `foreach=False`, and some optimizers of programs
and libraries do.

## Why it costs
Each operation takes some microseconds to launch, and reads and writes the parameter and its state
again. A fused optimizer updates each parameter in one pass over the memory. On a GPU, the kernels
are often shorter than their launches, so that the GPU waits for the host.

## How it is measured
On a CPU, the cost is the time of `Optimizer.step` in the mean step: as measured in steps that were
not recorded, or else as recorded, less what recording so many operations takes. On an accelerator,
it is the part of it in which the device is idle while the host works, and the time of the
optimizer's kernels beyond those of the operation that takes longest, which a fused kernel takes
about as long as. `launch-bound` does not count this time again. The closure of `step(closure)`,
which computes the loss and its gradients, does not count. The evidence counts the operations that
the optimizer calls, and the parameters that receive a gradient.

On a CPU, joining operations helps as far as it saves passes over the memory or launches. It saves
neither if a fused operation replaces a single one per parameter (SGD without momentum), nor if
lists are the only way and the operations themselves take most of the time: measured with RMSprop
and NAdam, lists took from half to 1.6 times as long. Then the finding comes last, without a cost.
It is silent if the optimizer gets sparse gradients, as of `nn.Embedding(..., sparse=True)`: PyTorch
updates such parameters one by one in any case, and its fused optimizers refuse them.

## Fix
Use the fused implementation where the optimizer has one, otherwise the one for lists of parameters
(`foreach`).

## Fix risk
`foreach` needs memory for intermediate results of all parameters. Results may differ by rounding.

## When it abstains
If the operations of the host, or the steps of an optimizer, were not recorded. Does not apply to
TensorFlow and JAX, which compile the update with the step (`eager-loop` judges loops that do not).
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.ddp import GRADIENT
from stepwhy.diagnose.shared.measure import by_name, time_of, times
from stepwhy.diagnose.shared.optimizer_loop import (
    SHARE,
    STEP,
    OptimizerLoop,
    optimizer_loop,
    optimizer_steps,
)
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.slices import named
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import Kind

RULE = Rule(
    __name__,
    name="Updating each parameter by itself",
    found="Update all parameters at once: use a fused optimizer",
    clear="The optimizer takes little of the step, or updates many parameters at once",
    needs=(("host-ops",), ("steps",)),
)

# Of the step: it is what PyTorch does on a CPU unless told otherwise, and of less, the gain is
# mostly smaller than what two runs differ by.
SHARE_ON_CPU = 0.15
LEAST_SAVED = 0.4  # of the cost: AdamW of large tensors on a CPU, fused
MOST_SAVED = 0.8  # of the cost: the same for hundreds of small tensors
# Of the cost on an accelerator: fusing Adam of 600 small parameters on an H100 saved 0.66 of it.
# What stays is a tenth, because Python still collects each parameter.
LEAST_SAVED_ON_DEVICE = 0.6
MOST_SAVED_ON_DEVICE = 0.9
_SHOWN = 3
_SEVERAL = 2  # operations per parameter, which a fused one joins
_LAUNCHING = 0.5  # of the steps of an optimizer; the rest is Python that launches
_SPARSE_OP = regex(r"aten::(_?coalesce|is_coalesced|_indices|_values|sparse_mask)")
_SPARSE = "The optimizer gets sparse gradients, which PyTorch updates one parameter at a time"
_LITTLE = "The optimizer updates each parameter by itself; to join its operations may gain little"


def diagnose(facts: Facts) -> Finding:
    """Judge the time of an optimizer that runs operations for each parameter."""
    if not is_pytorch(facts):
        return RULE.not_applicable("The run does not use PyTorch's optimizers.")
    steps = optimizer_steps(facts)
    if not len(steps):
        return RULE.no_data("optimizer-steps", "No step of an optimizer is recorded.")
    loop = optimizer_loop(facts)
    if loop is None:
        return RULE.nothing()
    name, cost = facts.trace.string(int(facts.trace.slices.name[steps[0]])), loop.cost_ns
    share = Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction", name)
    if cost < (SHARE if facts.has_accelerator else SHARE_ON_CPU) * facts.wall_ns:
        return RULE.nothing((share,))
    if _gets_sparse(facts, loop):
        return RULE.nothing((share,), title=_SPARSE)
    longest = times(facts, "time of an operation", by_name(facts, loop.calls)[:_SHOWN])
    places = times_at_lines(facts, loop.calls)
    evidence = (share, *_counts(facts, loop.calls), *longest, *places)
    fix = _fix(facts, name)
    if not facts.has_accelerator and _saves_little(facts, loop, fix):
        return RULE.finding(None, evidence, fix, title=_LITTLE)
    least, most = (
        (LEAST_SAVED_ON_DEVICE, MOST_SAVED_ON_DEVICE)
        if facts.has_accelerator
        else (LEAST_SAVED, MOST_SAVED)
    )
    gain = saving("fuse optimizer", least * cost, most * cost)
    return RULE.finding(cost, evidence, fix, gain, Edit("ops", "fused", name))


def _gets_sparse(facts: Facts, loop: OptimizerLoop) -> bool:
    """Whether the optimizer runs operations on sparse gradients, itself or in another operation."""
    rows = facts.slices(Kind.OP, steady=True)
    rows = rows[facts.trace.matches(facts.trace.slices.name[rows], _SPARSE_OP.fullmatch)]
    starts, ends = facts.trace.slices.start_ns[rows], facts.trace.ends(rows)
    return bool((loop.time.within(starts, ends) > 0).any())


def _saves_little(facts: Facts, loop: OptimizerLoop, fix: Fix) -> bool:
    """Whether a CPU would read and write as much memory as before, and launch little less.

    With a fused implementation, that is so if one operation updates a parameter, as in SGD without
    momentum; with lists of parameters, unless launching takes longer than the operations.
    """
    if "fused=True" in fix.code:
        parameters = len(named(facts, GRADIENT))
        return bool(parameters) and len(loop.calls) < _SEVERAL * parameters
    return time_of(facts, loop.calls).total_ns > _LAUNCHING * loop.time.total_ns


def _counts(facts: Facts, calls: AnyRows) -> tuple[Evidence, ...]:
    """Operations per step, and per parameter if the backward pass shows how many there are."""
    per_step = len(calls) / max(facts.steady_count, 1)
    parameters = len(named(facts, GRADIENT)) / max(facts.steady_count, 1)
    found = (
        Evidence("operations of the optimizer per step", per_step, "count"),
        Evidence("median time of one", int(np.median(facts.trace.slices.dur_ns[calls])), "ns"),
    )
    if parameters < 1:
        return found
    return (
        *found,
        Evidence("parameters that receive a gradient", parameters, "count"),
        Evidence("operations per parameter", per_step / parameters, "count"),
    )


# Source: the optimizers of `torch.optim` with fused kernels for CPUs (PyTorch 2.4) and for GPUs
# (PyTorch 2.3), and the others.
_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
_FUSED_ON_DEVICE = ("Adam", "AdamW", "SGD")
_FOREACH = ("Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")


def _fix(facts: Facts, name: str) -> Fix:
    """What to do for an optimizer, by the name of its step."""
    match = STEP.fullmatch(name)
    optimizer = match["optimizer"] if match else ""
    on_device = facts.has_accelerator
    if optimizer in (_FUSED_ON_DEVICE if on_device else _FUSED):
        fix = RULE.fix("at-once-on-device" if on_device else "at-once-fused")
    elif optimizer in _FOREACH:
        fix = RULE.fix("lists-on-device" if on_device else "lists")
    else:
        fix = RULE.fix("own")
    return replace(fix, code=fix.code.replace("AdamW", optimizer))
