"""Many small operations are launched one by one from Python.

## What it means
The step consists of hundreds of small operations, each called from Python: a TensorFlow loop
without `tf.function`, a JAX loop without `jit`, a recurrent layer that is unrolled by hand, a model
that is called for one example after another.

## Why it costs
Launching an operation takes some microseconds in Python and in the framework, whatever its size. A
compiled step launches all of its work at once, and fuses operations, so that they write fewer
intermediate results.

## How it is measured
All operations of the step count, except those of the backward pass and the optimizer. The cost is
the time in which an operation is launched, an operation of at most 25 µs runs, or Python runs for
at most 500 µs between two operations, without the time that recording short operations takes, and
without the steps of an optimizer that [`unfused-optimizer`](unfused-optimizer.md) judges. The
pattern is found in steps with at least 100 such operations (30 in JAX) that spend at least 30 % of
their time this way. PyTorch runs operations one by one by design, so there a sequence of operations
must also repeat within the step. If the recorded shapes show that layers of this sequence get a
single example, the fix is to call the model for the whole batch, unless the layers are a recurrent
cell. A generator in a JAX program that builds batches from such operations counts as well, although
the loop waits for it. The evidence names the sequence that repeats. If
[`constant-computation`](constant-computation.md) shows that most of these operations compute
constants, that finding comes first. The saving is at most the time of the lines that launch the
sequence, with their computation and their backward pass, and at most 1.5 times the cost. If one
line that calls none of these operations takes half of the cost or more to launch, such as a log of
all gradients, the finding is about that line. On an accelerator, see `launch-bound`.

In JAX, `stepwhy run` also follows arrays between the calls of jitted functions in the profiled
steps. A function is called for one example at a time if at least four consecutive calls are
independent: no array that one of them returns reaches the arguments of the next, directly or
through other functions of JAX. Each other argument must be known not to depend on a result: it was
passed to the same function before, it is a part of a NumPy array of which another part was passed
before, such as the rows of a batch, or it is a random key. Anything else, including an array made
by `jnp.asarray`, may have been computed in Python from a result, as in the environment of an agent;
then nothing is reported. The cost is the time in which these calls are launched and Python runs
between them, except for one call of each series.

## Fix
Compile the step: `tf.function`, `torch.compile`, `jax.jit`. Replace a loop over time by a single
operation, or by `jax.lax.scan`. If a JAX program compiles its gradient already, also compile
the functions outside it, such as augmentation, metrics or the update of the parameters, and map a
function that is called once per sample over the batch with `jax.vmap`.

## Fix risk
A compiler may round differently. Python code in a compiled function runs only while the function is
traced.

## When it abstains
If the operations of the host were not recorded. Does not apply with an accelerator.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.types import Ints
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.eager_calls import (
    IndependentCalls,
    eager_loop,
    independent_calls,
    makes_batches_of_jax,
    single_examples,
)
from stepwhy.diagnose.shared.eager_functions import functions_beside_gradient
from stepwhy.diagnose.shared.measure import Group
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.work_lines import work_lines
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Small operations, launched one by one",
    found="Launch fewer operations: the step consists of many small ones",
    clear="The step does not consist of small operations",
    needs=(("host-ops",), ("steps",)),
    refines="wall-device-gap",
)

LEAST_SAVED = 0.5  # of the cost; the operations themselves remain
MOST_SAVED = 1.5  # of the cost; of more, most is work that remains
UNROLLED = 200  # repeats; torch.compile unrolls loops, and a step of 24,576 took it over 38 s
LONG_LOOP = 16  # repeats; fewer are layers of a model, which jit compiles in little time
# Of the cost, and of the time between calls: what the calls compute takes less for a batch, too.
LEAST_SAVED_OF_CALLS, MOST_SAVED_OF_CALLS = 0.75, 1.1
LEAST_OF_CALLS = 0.2  # of the step; below it, what else runs between the calls may be as long

# Repeats in a step of PyTorch, which runs operations one by one by design. A program that calls a
# small model a few times per step has no loop.
LEAST_REPEATED = 8
LEAST_OF_STEP = 0.25  # of its operations, in these repeats; a few conversions are no loop

MOSTLY = 0.5  # of the cost at one line beside the operations that repeat: then it is the cause

_LONGEST_SEQUENCE = 64  # operations; layers and cells have fewer
_FEWEST_REPEATS = 4  # fewer are parts of a model, and no loop
_SHOWN = 3
_CELL = ("aten::sigmoid", "aten::tanh")
_NAMED_CELL = regex(r"(?:gru|lstm|rnn)\w*_cell")
_AT_LINE = "Launch fewer operations at one line: it takes longer than all layers of the model"
_EACH_CALL = "Call the compiled function once for the batch, not once for each example"
_EACH = "Call the model once with the whole batch, not once for each example"
# A Python number is written to one element: `tensor[i, j] = value`.
_ELEMENT = ("aten::select", "aten::lift_fresh")
_WRAPPED = regex(r"PjitFunction\((.*)\)")


def diagnose(facts: Facts) -> Finding:
    """Judge the time of small operations and between them."""
    independent = independent_calls(facts)
    if independent is not None and independent.cost_ns >= LEAST_OF_CALLS * facts.wall_ns:
        return _of_calls(facts, independent)
    if facts.has_accelerator:
        return RULE.not_applicable("The run uses an accelerator: see launch-bound.")
    loop = eager_loop(facts)
    if loop is None:
        return RULE.nothing()
    names = _first_step(facts, loop.calls)
    sequence, repeats = _repeated(names)
    is_loop = repeats >= LEAST_REPEATED and repeats * len(sequence) >= LEAST_OF_STEP * len(names)
    if is_pytorch(facts) and not is_loop:
        return RULE.nothing()
    names_of, durations = facts.trace.slices.name, facts.trace.slices.dur_ns
    # All operations where none repeat.
    rows = loop.calls[np.isin(names_of[loop.calls], sequence)] if sequence else loop.calls
    elsewhere = _elsewhere(facts, rows) if is_pytorch(facts) else None
    if elsewhere is not None and elsewhere.total_ns >= MOSTLY * loop.cost_ns:
        return _at_line(facts, elsewhere)
    median_ns = int(np.median(durations[loop.calls]))
    evidence = (
        Evidence("share of the step", loop.cost_ns / max(facts.wall_ns, 1), "fraction"),
        Evidence("operations per step", len(loop.calls) / max(facts.steady_count, 1), "count"),
        Evidence("median time of an operation", median_ns, "ns"),
        *_sequence_evidence(facts, sequence, repeats),
        *work_lines(facts, rows),
    )
    most = min(max(loop.cost_ns, _lines_ns(facts, rows)), MOST_SAVED * loop.cost_ns)
    gain = saving("remove dispatch", LEAST_SAVED * loop.cost_ns, most)
    texts = [facts.trace.string(name) for name in sequence]
    examples = 0.0 if _is_cell(texts) else single_examples(facts, rows)
    if examples >= LEAST_REPEATED:
        single = Evidence("layers called for one example per step", examples, "count")
        evidence = (*evidence[:2], single, *evidence[2:])
        return RULE.finding(loop.cost_ns, evidence, RULE.fix("torch-examples"), gain, title=_EACH)
    beside = _beside(facts, loop.calls, repeats)
    fix = beside or _fix(facts, texts, repeats)
    # No edit: how long the compiled operations take is not in a record of the others.
    return RULE.finding(loop.cost_ns, evidence, fix, gain)


def _elsewhere(facts: Facts, rows: Ints) -> Group | None:
    """The line that takes longest to launch, if it calls none of some operations."""
    lines = facts.derived(line_breakdown)
    strings = distinct(facts.derived(slice_lines)[rows]).tolist()
    calling = {facts.trace.string(one) for one in strings if one != NULL}
    found = (
        Group(row.line, 1, row.categories.get("dispatch", 0))
        for row in (lines.lines if lines else ())
        if row.kind == "line"
    )
    longest = max(found, key=lambda one: one.total_ns, default=None)
    return None if longest is None or longest.name in calling else longest


def _at_line(facts: Facts, line: Group) -> Finding:
    """The finding about a line beside the model that takes most of the time to launch."""
    cost = line.total_ns
    evidence = (
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction", line.name),
        Evidence("launching at the line, and between operations", cost, "ns", line.name),
    )
    gain = saving("remove dispatch", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, evidence, RULE.fix("torch-line"), gain, title=_AT_LINE)


def _of_calls(facts: Facts, found: IndependentCalls) -> Finding:
    """The finding about a jitted function that is called for one example at a time."""
    evidence = (
        Evidence("share of the step", found.cost_ns / facts.wall_ns, "fraction"),
        Evidence("calls in a row that do not need each other", found.in_a_row, "count", found.name),
        Evidence("launching its calls, and between them", found.launching_ns, "ns", found.line),
    )
    most_ns = min(MOST_SAVED_OF_CALLS * found.launching_ns, facts.wall_ns)
    least_ns = LEAST_SAVED_OF_CALLS * found.cost_ns
    gain = saving("one call for the batch", least_ns, most_ns)
    return RULE.finding(found.cost_ns, evidence, RULE.fix("jax-each"), gain, title=_EACH_CALL)


def _lines_ns(facts: Facts, rows: Ints) -> int:
    """Time of the mean step at the lines that launch some operations, ns; 0 if none is known."""
    lines = facts.derived(line_breakdown)
    launching = distinct(facts.derived(slice_lines)[rows]).tolist()
    names = {facts.trace.string(line) for line in launching if line != NULL}
    every = () if lines is None else lines.lines
    return sum(row.time_ns for row in every if row.kind == "line" and row.line in names)


def _first_step(facts: Facts, calls: Ints) -> Ints:
    """Names of the operations of the first steady step, in order; (operations,)."""
    slices = facts.trace.slices
    step = np.searchsorted(facts.steps.starts, slices.start_ns[calls], side="right")
    names: Ints = slices.name[calls[step == step[0]]].astype(np.int64)
    return names


def _repeated(names: Ints) -> tuple[list[int], int]:
    """The sequence of names that repeats over most of them, and how often; ([], 0) if none does.

    Args:
        names: Names of operations, in order; (operations,).
    """
    best: tuple[list[int], int] = [], 0
    for period in range(1, min(_LONGEST_SEQUENCE, len(names) // _FEWEST_REPEATS) + 1):
        differs = np.flatnonzero(names[period:] != names[:-period])
        begins, ends = np.append(-1, differs) + 1, np.append(differs, len(names) - period)
        # A loop in a loop may begin or end differently each time.
        every = (ends - begins) // period + 1
        repeats = int(every[every >= _FEWEST_REPEATS].sum())
        if repeats * period > len(best[0]) * best[1]:
            start = int(begins[np.argmax(ends - begins)])
            best = names[start : start + period].tolist(), repeats
    return best


def _sequence_evidence(facts: Facts, sequence: list[int], repeats: int) -> tuple[Evidence, ...]:
    if not repeats:
        return ()
    names = [_shown(facts.trace.string(name)) for name in sequence[:_SHOWN]]
    where = ", ".join(names) + (" ..." if len(sequence) > _SHOWN else "")
    return (
        Evidence("repeats of one sequence in a step", repeats, "count", where),
        Evidence("operations in the sequence", len(sequence), "count"),
    )


def _shown(name: str) -> str:
    wrapped = _WRAPPED.fullmatch(name)
    return wrapped[1] if wrapped else name


_IN_PLACE = 2  # operations, on the parameter and its moment
_LAYER = regex(r"linear|matmul|::b?mm|conv|norm|embedding|relu|softmax|dropout")
_PRODUCT = regex(r"\b(dot|matmul|einsum|conv_general)")


def _fix(facts: Facts, sequence: list[str], repeats: int) -> Fix:
    """What to do, by framework and by what repeats."""
    framework = facts.trace.meta.framework
    if framework == "jax":
        if makes_batches_of_jax(facts):
            return RULE.fix("jax-input")
        # What repeats without a product is the update of one parameter after another.
        is_cell = any(_PRODUCT.search(name) for name in sequence)
        return RULE.fix("jax-scan" if repeats >= LONG_LOOP and is_cell else "jax")
    if framework == "pytorch":
        return _torch_fix(sequence, repeats)
    return RULE.fix("tf" if framework == "tensorflow" else "any")


def _beside(facts: Facts, calls: Ints, repeats: int) -> Fix | None:
    """What to do in JAX if the gradient is compiled, and other work of the step is not."""
    if facts.trace.meta.framework != "jax":
        return None
    found = functions_beside_gradient(facts, calls, repeats)
    if found is None:
        return None
    if not found.names:
        return RULE.fix("jax-beside")
    return _mapped(found.names) if found.are_repeated else _compiled(found.names)


def _mapped(names: tuple[str, ...]) -> Fix:
    """Map functions that are called for each sample over the batch."""
    is_one = len(names) == 1
    called, run = ("is called", "runs its") if is_one else ("are called", "run their")
    text = (
        f"The gradient is compiled already, but {_listed(names)} {called} once per sample and "
        f"{run} operations one by one. "
        f"Map {'it' if is_one else _CALLER} over the batch with jax.vmap, and compile that. The "
        "samples need one shape, and the Python code no branch on their values."
    )
    name = names[0] if is_one else "augment"
    code = (
        f"{name}_batch = jax.jit(jax.vmap({name}))  # once, before the loop\n"
        f"results = {name}_batch(samples, keys)  # arrays of the whole batch"
    )
    return Fix(text, code, "changes-numerics")


def _compiled(names: tuple[str, ...]) -> Fix:
    """Compile functions beside the gradient."""
    is_one = len(names) == 1
    run = "runs its" if is_one else "run their"
    text = (
        f"The gradient is compiled already, but {_listed(names)} {run} operations one by one. "
        f"Compile {'it' if is_one else _CALLER} with jax.jit, or call it in the compiled step. If "
        "it is a method, compile a function that takes the arrays."
    )
    name = names[0] if is_one else "metrics_of"
    return Fix(text, f"{name} = jax.jit({name})  # once, before the loop", "changes-numerics")


def _listed(names: tuple[str, ...]) -> str:
    """'a', 'a and b' or 'a, b and c'."""
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def _torch_fix(sequence: list[str], repeats: int) -> Fix:
    """What to do in PyTorch, by what repeats."""
    if _is_cell(sequence):
        return RULE.fix("torch-cell")
    if all(name in sequence for name in _ELEMENT):
        return RULE.fix("torch-elements")
    if _updates(sequence):
        return RULE.fix("torch-update")
    return RULE.fix("torch-long" if repeats >= UNROLLED else "torch")


def _is_cell(sequence: list[str]) -> bool:
    """Whether a sequence is a recurrent cell, of which each call needs the result of the last."""
    is_named = any(map(_NAMED_CELL.search, sequence))
    return is_named or all(name in sequence for name in _CELL)


def _updates(sequence: list[str]) -> bool:
    """Whether a sequence changes tensors in place, as optimizers do, and is no layer."""
    in_place = sum(name.endswith("_") for name in sequence)
    return in_place >= _IN_PLACE and not any(map(_LAYER.search, sequence))


_CALLER = "the function that calls them"
