"""Each step computes the same result from constants again.

## What it means
Operations of the forward pass depend on no parameter, batch or random number, so their result is
the same in every step. Examples: normalising an adjacency matrix, building a table of positions or
distances, casting a constant, or converting a list of numbers to a tensor. In JAX, a jitted
function computes from arguments that are the same in each call; in a session of TensorFlow 1, the
graph computes from a variable that is never assigned.

## Why it costs
The work is done in every step for a result that could be kept.

## How it is measured
In PyTorch, `stepwhy run` follows the inputs of each operation in one step after the traced ones.
A tensor computed only from numbers of the program is a constant. So is a tensor that existed before
the step, is not a parameter, is not changed by the step, and has equal values four steps later; by
then, the batches of a loader have been freed. Excluded are tensors of which there are several alike
that steps may use in turn, and slices of a larger tensor that may hold a data set. A tensor that
each step creates from a list or a NumPy array counts if the third and fourth step after it read a
tensor with the same values, unless all of its values are equal. The cost is the time, in the traced
steps, of the operations outside the backward pass that read only constants, and of the Python at
the same line that converts a list or an array.

In JAX, `stepwhy run` records for the traced steps which arguments of each jitted function are the
same arrays in each call; JAX arrays are immutable. The cost is the time of the instructions of its
compiled program, backward pass included, whose results depend only on such arguments, and neither
on random numbers nor on callbacks into Python. Instructions in the body of a loop count if all
inputs of the loop are the same.

In sessions of TensorFlow 1, TensorFlow folds constants before the first run, but not variables. The
cost is the time of the nodes whose inputs are only constants and variables that no node of the
graph assigns, except to initialise them or to restore a checkpoint. Random numbers, control flow
and function calls do not count.

## Fix
Compute the result once before the loop. Keep it in a buffer of the module, pass it to the jitted
function instead of the inputs, or initialise a variable with it.

## Fix risk
The result stays in memory. It must be computed again whenever its inputs change, for instance at
the start of an epoch, which four steps do not show. In TensorFlow 1, also when the program sets a
variable with `load` or runs its initializer again.

## When it abstains
If no step was examined: in traces of other profilers, in runs with `torch.compile`, CUDA graphs,
several processes or tensor subclasses, or if the run ended within four steps of it. Tensors larger
than 64 MiB do not count as constants, nor do tensors larger than 16 MiB that each step creates.
Computation in NumPy is not seen. In JAX, without the compiled programs, or if no jitted function
was called in at least four of the traced steps. In TensorFlow, if the program feeds a tensor that
its graph would compute from constants. Does not apply to TensorFlow 2, to traces of sessions
without the graph of the program, or to graphs that assign no variable, such as inference graphs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepwhy.base.columns.types import Ints
from stepwhy.diagnose.not_needed.shared.rewrites import knows_programs
from stepwhy.diagnose.not_needed.shared.semantics import without_semantics
from stepwhy.diagnose.shared.constants import (
    CONVERTED,
    SAME,
    Constants,
    constants,
    instructions_reading,
    passed_arguments,
)
from stepwhy.diagnose.shared.measure import (
    Group,
    by_name,
    by_string,
    mean_within,
    on_scale,
    time_of,
    times,
)
from stepwhy.diagnose.shared.program import is_pytorch, uses_sessions
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule
from stepwhy.diagnose.shared.work_lines import work_lines
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Constants that every step computes again",
    found="Compute constants once, not in every step",
    clear="Little or no time goes into constants that are computed again",
    needs=(("device-time",), ("steps",)),
    refines="dominant-op",
    least_share=0.05,  # of the step; masks and positions, which are made cheaply, take less
    least_saved=0.7,  # of the cost; reading the kept result takes time as well
    change="compute constants once",
)

_SHOWN = 3
_MOST_NAMES = 8
# Operations of TensorFlow that hold a value.
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")
_SOURCES = ("Const", *_VARIABLES)


def diagnose(facts: Facts) -> Finding:
    """Judge the time of operations that compute constants."""
    if is_pytorch(facts):
        return _of_pytorch(facts)
    if uses_sessions(facts) and (facts.trace.nodes.constant != NULL).any():
        return _of_session(facts)
    if facts.trace.meta.framework != "jax":
        return RULE.not_applicable(
            "Constants are recognised only in PyTorch, JAX, and sessions of TensorFlow 1 whose "
            "graph was recorded."
        )
    if not knows_programs(facts):
        return RULE.no_data("programs", "The compiled programs were not recorded.")
    if not passed_arguments(facts, SAME):
        return RULE.no_data(
            "same-arguments", "It was not seen which arguments of jitted functions are the same."
        )
    rows = instructions_reading(facts, passed_arguments(facts, SAME))
    return _of_rows(facts, rows, "instruction", RULE.fix("jax"), *_arguments(facts))


def _of_session(facts: Facts) -> Finding:
    nodes = facts.trace.nodes
    is_variable = np.isin(nodes.op, facts.trace.strings_where(_VARIABLES))
    if not (is_variable & (nodes.constant == 0)).any():
        return RULE.not_applicable(
            "The graph assigns no variable, so it does not train: all that it computes from the "
            "same input is the same."
        )
    is_constant = nodes.constant == 1
    constant = nodes.name[is_constant]
    # Names of the nodes in place of which the session is fed.
    values, text = facts.trace.session_values, facts.trace.string
    names = {text(name).partition(":")[0] for name in values.name[values.fed == 1].tolist()}
    fed = sorted(names & {text(name) for name in constant.tolist()})
    if fed:
        return RULE.no_data(
            "operands", f"The program feeds {fed[0]}, which its graph computes from constants."
        )
    rows = facts.slices(Kind.OP, Kind.KERNEL, steady=True)
    is_computed = is_constant & ~np.isin(nodes.op, facts.trace.strings_where(_SOURCES))
    rows = rows[np.isin(facts.trace.slices.scope[rows], nodes.name[is_computed])]
    return _of_rows(facts, rows, "operation", RULE.fix("session"))


def _of_rows(facts: Facts, rows: Ints, unit: str, fix: Fix, *further: Evidence) -> Finding:
    """Judge what the device computes from constants.

    Args:
        facts: Facts of the run.
        rows: The slices that do; (rows,).
        unit: What each of them is, 'operation' or 'instruction'.
        fix: How to compute it once.
        further: Evidence beside the times.
    """
    cost = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
    share = Evidence("share of the step in constants", cost / facts.wall_ns, "fraction")
    if cost < RULE.least_share * facts.wall_ns:
        return RULE.nothing((share,) if cost else ())
    evidence = (
        share,
        *work_lines(facts, rows),
        Evidence(f"{unit}s on constants per step", len(rows) / facts.steady_count, "count"),
        *times(facts, f"time of the {unit}, on constants", by_name(facts, rows)[:_SHOWN]),
        *further,
    )
    return RULE.finding(cost, evidence, fix, edit=Edit("ops", "gone"))


def _arguments(facts: Facts) -> Iterator[Evidence]:
    """The arguments that are the same in each call, of the functions that have any."""
    for function, names in passed_arguments(facts, SAME).items():
        if names:
            shown = ", ".join(sorted(names)[:_MOST_NAMES])
            yield Evidence("arguments that are the same in each call", shown, "", function)


def _of_pytorch(facts: Facts) -> Finding:
    abstention = without_semantics(RULE, facts)
    if abstention is not None:
        return abstention
    if (facts.trace.step_ops.constant == NULL).any():
        return RULE.incomplete(
            "semantic-step", "The run ended before it was seen which tensors stay as they are."
        )
    found = constants(facts)
    computed_ns, made_ns = found.computed_ns(facts), found.made_ns(facts)
    cost = min(computed_ns + made_ns, facts.wall_ns)
    share = Evidence("share of the step in constants", cost / facts.wall_ns, "fraction")
    if cost < RULE.least_share * facts.wall_ns:
        return RULE.nothing((share,) if cost else ())
    making = _by_line(facts, found, found.making_ns)
    where = making[0].name if making else ""
    made = (Evidence(CONVERTED, made_ns, "ns", where),) if made_ns else ()
    longest = _by_line(facts, found, found.times_ns + found.making_ns)[:_SHOWN]
    lines = times(facts, "time of constants at the line", longest)
    evidence = (share, *lines, *made, *_operations(facts, found))
    is_made = made_ns > computed_ns
    edit = Edit("python" if is_made else "ops", "gone")
    return RULE.finding(cost, evidence, RULE.fix("made" if is_made else "buffer"), edit=edit)


def _by_line(facts: Facts, found: Constants, spent: Ints) -> list[Group]:
    lines = by_string(facts, facts.trace.step_ops.line[found.places], spent)
    return [group for group in lines if group.name]


def _operations(facts: Facts, found: Constants) -> tuple[Evidence, ...]:
    """How many operations there are, and which take longest."""
    names = by_string(facts, facts.trace.step_ops.name[found.places], found.times_ns)[:_SHOWN]
    return (
        Evidence("operations on constants per step", len(found.rows) / facts.steady_count, "count"),
        *times(facts, "time of the operation, on constants", names),
    )
