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

On a CPU, a fused optimizer saves launches and passes over the memory. For small parameters, all
operations but one per parameter are saved, 3 to 4 µs each. For large ones, it is the share of reads
and writes: Adam reads or writes 18 times as many bytes as a parameter has, fused 7; Adagrad 11 and
5, SGD with momentum 8 and 5. What remains in any case, whatever the number of parameters, is up to
0.2 ms per step of an optimizer that follows on other work of Python. The low end of the saving
counts the share of memory, and allows for this rest; where it is less than 3 % of the step, the
finding is listed last.

Such a saving needs free cores. PyTorch divides an operation among threads if it has more than
32,768 elements, but the fused update of each parameter, however small: it ends when the slowest
thread does, which takes 1 to 2 µs longer if all have a core, and up to milliseconds if another
process has it. Beside one or two busy programs on two cores, steps of small networks took 1.3 to 9
times as long with a fused optimizer of two threads, but 17 % less with one thread. So the finding
is also listed last, and says why, where operations may use several threads, other processes, such
as workers of a `DataLoader`, left fewer cores than that, and the loop divides fewer operations than
there are parameters.

It also comes last, without a cost, if a fused operation replaces a single one per parameter (SGD
without momentum), or if lists are the only way and the operations themselves take most of the time:
measured with RMSprop and NAdam, lists took from half to 1.6 times as long.

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

import math

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.program.operands import shapes_of
from stepwhy.analyse.steps.cores import FEW_CORES, cores_left
from stepwhy.analyse.steps.counters import series
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
from stepwhy.trace import NULL, Kind

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
# Of the cost on a CPU: what a fused update saves of reading and writing large parameters, and what
# it saved for hundreds of small ones, or where it no longer allocates temporary tensors as well.
# Lists of parameters still run each operation.
_SAVED = {"Adam": (0.55, 1.0), "AdamW": (0.55, 1.0), "Adagrad": (0.45, 0.9), "SGD": (0.3, 0.8)}
_SAVED_BY_LISTS = (0.4, 0.8)
_REST_NS = 200_000  # per step of an optimizer after other work of Python, of few parameters
LEAST_GAIN = 0.03  # of the step; less is within the variation between steps
_DIVIDED = 32_768  # elements; PyTorch divides its operations on more of them among threads
# Of the cost on an accelerator: fusing Adam of 600 small parameters on an H100 saved 0.66 of it.
# What stays is a tenth, because Python still collects each parameter.
LEAST_SAVED_ON_DEVICE = 0.6
MOST_SAVED_ON_DEVICE = 0.9
_SHOWN = 3
_SEVERAL = 2  # operations per parameter, which a fused one joins
_LAUNCHING = 0.5  # of the steps of an optimizer; the rest is Python that launches
_SPARSE_OP = regex(r"aten::(_?coalesce|is_coalesced|_indices|_values|sparse_mask)")
_SPARSE = "The optimizer gets sparse gradients, which PyTorch updates one parameter at a time"
_BUSY = "Update all parameters at once only where each thread has a core: others use the cores here"
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
    if facts.has_accelerator:
        least_ns, most_ns = LEAST_SAVED_ON_DEVICE * cost, MOST_SAVED_ON_DEVICE * cost
    else:
        least_ns, most_ns = _saved_ns(cost, name, len(steps) / max(facts.steady_count, 1))
    edit, title = Edit("ops", "fused", name), ""
    if not facts.has_accelerator and least_ns < LEAST_GAIN * facts.wall_ns:
        title = _LITTLE
    waits = _lacks_cores(facts, loop) if "fused=True" in fix.code else ()
    if waits:
        fix, title, least_ns = _fix(facts, name, is_busy=True), _BUSY, 0.0
    gain = saving("fuse optimizer", least_ns, most_ns)
    return RULE.finding(
        cost, (*evidence, *waits), fix, gain, edit, title=title, is_optional=bool(title)
    )


def _saved_ns(cost_ns: int, name: str, steps: float) -> tuple[float, float]:
    """Least and most time that joining operations saves on a CPU.

    Args:
        cost_ns: Time of the optimizers in the mean step.
        name: Of the step of the optimizer.
        steps: Steps of optimizers per step.
    """
    least, most = _SAVED.get(_optimizer_of(name), _SAVED_BY_LISTS)
    return max(least * (cost_ns - _REST_NS * steps), 0.0), most * cost_ns


def _lacks_cores(facts: Facts, loop: OptimizerLoop) -> tuple[Evidence, ...]:
    """Evidence that a fused optimizer on a CPU would wait for cores that others use; else ()."""
    if facts.has_accelerator:
        return ()
    span_ns = facts.observed.steady_span_ns if facts.observed else None
    threads = series(facts.trace, "intra_op_threads").last
    left = cores_left(facts.trace, span_ns)
    if threads is None or left is None or threads < _SEVERAL or left > threads - FEW_CORES:
        return ()
    shapes = shapes_of(facts.trace)[loop.calls]
    texts = {shape: facts.trace.string(shape) for shape in set(shapes.tolist()) - {int(NULL)}}
    divided = [shape for shape, text in texts.items() if _elements(text) > _DIVIDED]
    if np.isin(shapes, divided).sum() >= max(len(named(facts, GRADIENT)), 1):
        return ()
    return (
        Evidence("threads of an operation", threads, "count"),
        Evidence("cores that other processes left, on average", round(left, 1), "count"),
    )


def _elements(shapes: str) -> int:
    """Elements of the first of some shapes such as '25000x32,384'; 0 if there is none."""
    sizes = shapes.split(",", maxsplit=1)[0].split("x")
    return math.prod(map(int, sizes)) if all(size.isdigit() for size in sizes) else 0


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


def _fix(facts: Facts, name: str, *, is_busy: bool = False) -> Fix:
    """What to do for an optimizer, by the name of its step."""
    optimizer = _optimizer_of(name)
    on_device = facts.has_accelerator
    if optimizer in (_FUSED_ON_DEVICE if on_device else _FUSED):
        here = "at-once-if-free" if is_busy else "at-once-fused"
        fix = RULE.fix("at-once-on-device" if on_device else here)
    elif optimizer in _FOREACH:
        fix = RULE.fix("lists-on-device" if on_device else "lists")
    else:
        fix = RULE.fix("own")
    return replace(fix, code=fix.code.replace("AdamW", optimizer))


def _optimizer_of(name: str) -> str:
    """The class of the optimizer of a step; '' if the name does not tell it."""
    match = STEP.fullmatch(name)
    return match["optimizer"] if match else ""
