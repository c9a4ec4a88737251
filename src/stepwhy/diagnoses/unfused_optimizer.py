"""The optimizer updates each parameter separately, in several small operations.

## What it means
`optimizer.step()` loops over the parameters in Python, and runs up to a dozen operations for each.
PyTorch does so on a CPU by default.

## Why it costs
Each operation takes some microseconds to launch, and reads and writes the parameter and its state
again. A fused optimizer updates each parameter in one pass over the memory.

## How it is measured
The cost is the time of `Optimizer.step` in the mean step. The evidence counts the operations that
the optimizer calls, and the parameters that receive a gradient.

## Fix
Use the fused implementation where the optimizer has one, otherwise the one for lists of parameters
(`foreach`).

## Fix risk
`foreach` needs memory for intermediate results of all parameters. Results may differ by rounding.

## When it abstains
If the operations of the host, or the steps of an optimizer, were not recorded. Does not apply to
TensorFlow and JAX, which compile the update with the step (`eager-loop` judges loops that do not),
nor to accelerators, on which PyTorch updates lists of parameters by default (`launch-bound` judges
what is left).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from stepwhy.diagnoses.shared.ddp import GRADIENT
from stepwhy.diagnoses.shared.measure import by_name, mean_within, on_scale, time_of, times
from stepwhy.diagnoses.shared.program import is_pytorch
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.diagnoses.shared.slices import launched_ops, named
from stepwhy.findings import Edit, Evidence, Fix
from stepwhy.patterns import regex
from stepwhy.trace import Kind

if TYPE_CHECKING:
    import re

    from numpy.typing import NDArray

    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

    Rows = NDArray[np.int64]

RULE = Rule(
    id="unfused-optimizer",
    family="compute",
    name="Updating each parameter by itself",
    found="Update all parameters at once: use a fused optimizer",
    clear="The optimizer takes little of the step, or updates many parameters at once",
    needs=(("host-ops",), ("steps",)),
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
FEWEST = 50  # operations per step; fewer are launched in less than a millisecond
LEAST_SAVED = 0.4  # of the cost: AdamW of large tensors on a CPU, fused
MOST_SAVED = 0.8  # of the cost: the same for hundreds of small tensors

# Optimizers without an implementation that updates many parameters at once are left out.
_STEP = regex(r"Optimizer\.step#(?P<optimizer>(?!SparseAdam|LBFGS|Adafactor|Muon)\w+)\.step")
_AT_ONCE = regex(r"_foreach_|_fused_|multi_tensor")
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge the time of an optimizer that runs operations for each parameter."""
    if not is_pytorch(facts):
        return RULE.not_applicable("The run does not use PyTorch's optimizers.")
    if facts.has_accelerator:
        return RULE.not_applicable("The run uses an accelerator: see launch-bound.")
    steps = _named(facts, _STEP)
    if not len(steps):
        return RULE.no_data("optimizer-steps", "No step of an optimizer is recorded.")
    calls = _calls(facts, steps)
    per_step = len(calls) / max(facts.steady_count, 1)
    if per_step < FEWEST or _updates_at_once(facts, calls):
        return RULE.nothing()
    name = facts.trace.string(int(facts.trace.slices.name[steps[0]]))
    cost = on_scale(facts, mean_within(facts, time_of(facts, steps)))
    share = Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction", name)
    if cost < SHARE * facts.wall_ns:
        return RULE.nothing((share,))
    longest = times(facts, "time of an operation", by_name(facts, calls)[:_SHOWN])
    evidence = (share, *_counts(facts, calls, per_step), *longest)
    gain = saving("fuse optimizer", LEAST_SAVED * cost, MOST_SAVED * cost)
    match = _STEP.fullmatch(name)
    return RULE.finding(
        cost, evidence, _fix(match["optimizer"] if match else ""), gain, Edit("ops", "fused", name)
    )


def _named(facts: Facts, pattern: re.Pattern[str]) -> Rows:
    """Steady slices whose whole name matches a pattern, ascending."""
    rows = facts.slices(Kind.FRAMEWORK, Kind.ANNOTATION, steady=True)
    return rows[facts.trace.matches(facts.trace.slices.name[rows], pattern.fullmatch)]


def _calls(facts: Facts, steps: Rows) -> Rows:
    """Operations that some steps of optimizers call, not from other operations; ascending."""
    rows = launched_ops(facts)
    starts = facts.trace.slices.start_ns[rows]
    return rows[time_of(facts, steps).within(starts, facts.trace.ends(rows)) > 0]


def _updates_at_once(facts: Facts, calls: Rows) -> bool:
    """Whether operations on lists of parameters take part, in PyTorch or in a library."""
    names = [group.name for group in by_name(facts, calls)]
    fused = _named(facts, regex(r"Optimizer\.step#\w*[Ff]used\w*\.step"))
    return bool(len(fused)) or any(_AT_ONCE.search(name) for name in names)


def _counts(facts: Facts, calls: Rows, per_step: float) -> tuple[Evidence, ...]:
    """Operations per step, and per parameter if the backward pass shows how many there are."""
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


# Source: the optimizers of `torch.optim` with fused kernels for CPUs (PyTorch 2.4), and the others.
_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
_FOREACH = ("Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")


def _fix(optimizer: str) -> Fix:
    """What to do for an optimizer, by its class."""
    known = _AT_ONCE_FUSED if optimizer in _FUSED else _LISTS
    fix = known if optimizer in (*_FUSED, *_FOREACH) else _OWN
    return replace(fix, code=fix.code.replace("AdamW", optimizer))


_AT_ONCE_FUSED = Fix(
    "Use the fused implementation, which PyTorch has for CPUs since version 2.4.",
    "optimizer = torch.optim.AdamW(params, lr=rate, fused=True)",
    "changes-numerics",
)
_LISTS = Fix(
    "Update lists of parameters. This helps with many small parameters; with few large ones "
    "it can be slower, so compare.",
    "optimizer = torch.optim.AdamW(params, lr=rate, foreach=True)",
    "changes-memory",
)
_OWN = Fix(
    "Update lists of parameters with torch._foreach_... operations, as PyTorch's own optimizers "
    "do; or use one of those, with fused=True.",
    "torch._foreach_mul_(moments, beta)            # one call for all\n"
    "torch._foreach_add_(moments, gradients, alpha=1 - beta)\n"
    "torch._foreach_add_(params, moments, alpha=-rate)",
    "changes-memory",
)
