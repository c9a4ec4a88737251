"""The model computes in double precision, mostly by accident.

## What it means
Most parameters have the type float64, or operations on large tensors do in a model whose parameters
have not. NumPy's default is float64, and models often take over the type of their data: a model is
converted with `.double()` to end an error about mismatched types, a placeholder gets the type of an
array, `jax_enable_x64` is set for one computation, or a mask from NumPy makes float64 of all that
is added to it.

## Why it costs
Values of 8 bytes halve what a vector instruction computes and what a cache holds, and double what
has to be copied. Some kernels, such as oneDNN's convolutions, exist for shorter types only. GPUs
compute float64 without matrix units, most of them at a 32nd or 64th of the rate.

## How it is measured
`stepwhy run` logs the types of the parameters: those of the optimizer in PyTorch and Keras, the
trainable variables of a graph or of a `tf.function`, the largest arguments of a compiled function
in JAX. If most are float64, the cost is 0.6 of the computing time, which is what half the size and
faster kernels saved in the lab; two thirds at most, in TensorFlow on a CPU four fifths. `stepwhy
run` looks for `set_floatx`, `jax_enable_x64`, `float64` and similar names in the code of the
program's modules, and names the lines if they are few.

In PyTorch, profilers can also record the types of what each operation works on; `stepwhy run` does
so on a CPU, in steps of 5 ms or more. Operations count if a tensor of theirs has the type float64,
and no random numbers are drawn, which takes as long in any type. Scalars do not count: they leave a
tensor in its own type. The cost is three quarters of their time, and all of that for conversions.
The evidence names the first operation of a step that mixes float64 with another type, with the
shapes of its tensors: the one in float64 is what to convert. One step more shows which line makes
it: an operation, what sets the attribute that holds it, or what a data set's `__getitem__` returns.

## Fix
Convert the data to float32 when it is loaded, and keep the model in the default type.

## Fix risk
float32 has 7 decimal digits. Solvers and statistics over many values may need more.

## When it abstains
If neither the types of the parameters nor those of the operations are known, as in most traces of
other profilers. On an accelerator, only the types of the parameters count.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwhy.analyse.program.parameters import parameter_types
from stepwhy.diagnose.compute.shared.float64 import Float64Work, float64_work
from stepwhy.diagnose.shared.measure import times
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.sampled import own_lines
from stepwhy.diagnose.shared.settings import maker_lines, setting_lines
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import Kind

RULE = Rule(
    __name__,
    name="Computing in double precision",
    found="Compute in single precision instead of double precision",
    clear="Most of the model has single precision or less",
    needs=(("steps",),),
    edit=Edit("ops", "replaced"),
)

SHARE = 0.20  # of the step; of less, half a computation is hardly more than steps vary
MOST = 0.5  # of the parameters; fewer are single statistics or constants
COST = 0.6  # of the computing time; source: pairs of the lab on a CPU, half to two thirds
OF_OPERATIONS = 0.75  # of their time; attention in float64 took four times as long as in float32
MOST_SAVED = 0.67  # of the computing time; the most of these pairs
# The same in TensorFlow, whose faster kernels on CPUs (oneDNN) exist for shorter types only: four
# programs saved 49 to 72 %.
MOST_SAVED_OF_TENSORFLOW = 0.8
LEAST_SAVED = 0.25  # of the computing time; small operations wait for launches, not for values
_SETTERS = (
    "set_floatx",
    "jax_enable_x64",
    "enable_x64",
    "JAX_ENABLE_X64",
    "set_default_dtype",
    "float64",
    "double",
)
_DOUBLE = ("float64", "complex128")
_ENTERS = "time of the first operation that mixes float64 with another type"


def diagnose(facts: Facts) -> Finding:
    """Judge the types of the parameters and operations, and how long they compute."""
    types = parameter_types(facts.trace)
    # On an accelerator, the time of an operation is that of its launch.
    shows_operations = len(facts.trace.operands) > 0 and not facts.has_accelerator
    if _doubled(types) < MOST and shows_operations:
        return _of_operations(facts, float64_work(facts))
    if not types:
        return RULE.no_data("parameter-types", "The types of the parameters were not recorded.")
    return _of_parameters(facts, types)


def _doubled(types: Mapping[str, int]) -> float:
    """Share of the parameters in float64; 0 without any."""
    return sum(types.get(name, 0) for name in _DOUBLE) / max(sum(types.values()), 1)


def _of_parameters(facts: Facts, types: Mapping[str, int]) -> Finding:
    """Judge how long the step computes, by the share of its parameters in float64."""
    doubled, compute = _doubled(types), facts.breakdown["compute"]
    evidence: tuple[Evidence, ...] = (
        Evidence("share of the parameters in float64", doubled, "fraction"),
        Evidence("parameters", sum(types.values()), "count"),
        Evidence("share of the step that computes", facts.share("compute"), "fraction"),
    )
    is_little = doubled < MOST or compute < SHARE * facts.wall_ns
    if not is_little:
        rows = facts.slices(Kind.KERNEL, Kind.OP, steady=True)
        named = (*setting_lines(facts, *_SETTERS), *maker_lines(facts, "float64"))
        evidence += (*named, *times_at_lines(facts, rows))
    is_tensorflow = facts.trace.meta.framework == "tensorflow" and not facts.has_accelerator
    most = MOST_SAVED_OF_TENSORFLOW if is_tensorflow else MOST_SAVED
    gain = saving("compute in float32", LEAST_SAVED * compute, most * compute)
    fix = RULE.fix(_FIXES.get(facts.trace.meta.framework, "any"))
    return RULE.judge(facts, round(COST * compute), evidence, fix, unless=is_little, gain=gain)


def _of_operations(facts: Facts, work: Float64Work) -> Finding:
    """Judge the time of operations on float64 in a model of another type."""
    time_ns = work.computing_ns + work.converting_ns
    share = Evidence(
        "share of the step in operations on float64", time_ns / facts.wall_ns, "fraction"
    )
    if time_ns < SHARE * facts.wall_ns:
        return RULE.nothing((share,))
    evidence = (
        share,
        *maker_lines(facts, "float64"),
        *([Evidence(_ENTERS, work.enters_ns, "ns", work.enters)] if work.enters else []),
        Evidence("operations on float64 per step", work.count, "count"),
        *times(facts, "time of the operation in float64", work.longest),
        *(times_at_lines(facts, work.rows) or own_lines(facts)),
    )
    cost = round(OF_OPERATIONS * work.computing_ns) + work.converting_ns
    gain = saving("compute in float32", LEAST_SAVED * time_ns, cost)
    return RULE.finding(cost, evidence, RULE.fix("mixed"), gain)


_FIXES = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}
