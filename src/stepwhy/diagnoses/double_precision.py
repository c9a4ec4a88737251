"""The model computes in double precision, mostly by accident.

## What it means
Most parameters have the type float64. NumPy's default is float64, and models often take over the
type of their data: a model is converted with `.double()` to end an error about mismatched types, a
placeholder gets the type of an array, or `jax_enable_x64` is set for one computation.

## Why it costs
Values of 8 bytes halve what a vector instruction computes and what a cache holds, and double what
has to be copied. Some kernels, such as oneDNN's convolutions, exist for shorter types only. GPUs
compute float64 without matrix units, most of them at a 32nd or 64th of the rate.

## How it is measured
`stepwhy run` logs the types of the parameters: those of the optimizer in PyTorch and Keras, the
trainable variables of a graph, the largest arguments of a compiled function in JAX. The cost is
0.6 of the computing time, which is what half the size and faster kernels saved in the lab.

## Fix
Convert the data to float32 when it is loaded, and keep the model in the default type.

## Fix risk
float32 has 7 decimal digits. Solvers and statistics over many values may need more.

## When it abstains
If the types of the parameters are unknown, as in traces of other profilers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.findings import Edit, Evidence, Fix
from stepwhy.passes.parameters import parameter_types

if TYPE_CHECKING:
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="double-precision",
    family="compute",
    name="Computing in double precision",
    found="Compute in single precision: the parameters have double precision",
    clear="Most parameters have single precision or less",
    needs=(("steps",),),
)

SHARE = 0.20  # of the step; of less, half a computation is hardly more than steps vary
MOST = 0.5  # of the parameters; fewer are single statistics or constants
COST = 0.6  # of the computing time; source: pairs of the lab on a CPU, half to two thirds
LEAST_SAVED = 0.25  # of the computing time; small operations wait for launches, not for values
_DOUBLE = ("float64", "complex128")


def diagnose(facts: Facts) -> Finding:
    """Judge the types of the parameters, and how long the step computes."""
    types = parameter_types(facts.trace)
    if not types:
        return RULE.no_data("parameter-types", "The types of the parameters were not recorded.")
    doubled = sum(types.get(name, 0) for name in _DOUBLE) / max(sum(types.values()), 1)
    compute = facts.breakdown["compute"]
    evidence = (
        Evidence("share of the parameters in float64", doubled, "fraction"),
        Evidence("parameters", sum(types.values()), "count"),
        Evidence("share of the step that computes", facts.share("compute"), "fraction"),
    )
    if doubled < MOST or compute < SHARE * facts.wall_ns:
        return RULE.nothing(evidence)
    gain = saving("compute in float32", LEAST_SAVED * compute, COST * compute)
    fix = _FIXES.get(facts.trace.meta.framework, _ANY)
    return RULE.finding(round(COST * compute), evidence, fix, gain, Edit("ops", "replaced"))


_ANY = Fix("Convert the data and the model to float32.", "", "changes-numerics")
_TORCH = Fix(
    "Convert the data to float32 where it becomes a tensor, and remove .double() and "
    "torch.set_default_dtype(torch.float64).",
    "inputs = torch.from_numpy(array).float()\nmodel = model.float()    # before the optimizer",
    "changes-numerics",
)
_TENSORFLOW = Fix(
    "Convert the data to float32 before it enters the graph: variables and operations take over "
    "its type.",
    'data = data.astype("float32")',
    "changes-numerics",
)
_JAX = Fix(
    "Do not set jax_enable_x64 for the training, and convert the data to float32. Enable it only "
    "around what needs 64 bits.",
    'jax.config.update("jax_enable_x64", False)\n'
    "params = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), params)",
    "changes-numerics",
)
_FIXES = {"pytorch": _TORCH, "tensorflow": _TENSORFLOW, "jax": _JAX}
