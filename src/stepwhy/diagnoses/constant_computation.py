"""The forward pass computes from constants what it has computed in the step before.

## What it means
Operations of the forward pass depend on no parameter, batch or random number, so that their result
is the same in every step: the matrix of a graph is normalised again, a table of positions or
distances is rebuilt, a constant is converted to another type again, or a list of numbers to a
tensor.

## Why it costs
The work is done in every step for a result that could be kept.

## How it is measured
In one step after the traced ones, `stepwhy run` follows where the values of each operation come
from. What is made from nothing but numbers of the program is a constant. So is a tensor from before
the step that is still there four steps later with equal values, is no parameter and not changed by
the step, and is not one of several like it, which steps take in turn, nor a part of a larger tensor
that looks like a batch. Batches of a loader are gone by then. A tensor that each step makes anew,
from a list or an array of NumPy, counts if the steps three and four later read one of the same
values, unless these are all equal. The cost is the time, in the traced
steps, of the operations outside of the backward pass that read only constants, and of the Python
at the same line that makes such a tensor of a list or an array.

## Fix
Compute it once before the loop, and keep it in a buffer of the module.

## Fix risk
The result stays in memory. It must be computed again where what it depends on changes after all,
which four steps do not show: at the beginning of an epoch, for instance.

## When it abstains
Without a step that was looked at: in traces of other profilers, in runs with `torch.compile`, CUDA
graphs, several processes, or subclasses of tensors; or if the run ended within four steps of it.
Tensors of more than 64 MiB do not count as constants, nor do those of more than 16 MiB that each
step makes anew. What NumPy computes is not seen. Does not apply outside of PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.constants import CONVERTED, constants
from stepwhy.diagnoses.shared.measure import by_string, times
from stepwhy.diagnoses.shared.program import is_pytorch
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.diagnoses.shared.semantics import without_semantics
from stepwhy.findings import Edit, Evidence, Fix
from stepwhy.trace import NULL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.diagnoses.shared.constants import Constants
    from stepwhy.diagnoses.shared.measure import Group
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="constant-computation",
    family="not needed",
    name="Constants that every step computes again",
    found="Compute constants once, not in every step",
    clear="Little or no time goes into constants that are computed again",
    needs=(("device-time",), ("host-ops",), ("steps",)),
    refines="dominant-op",
)

SHARE = 0.05  # of the step; masks and positions, which are made cheaply, take less
LEAST_SAVED = 0.7  # of the cost; reading the kept result takes time as well
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge the time of operations that compute constants."""
    if not is_pytorch(facts):
        return RULE.not_applicable("Constants are recognised only in PyTorch.")
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
    if cost < SHARE * facts.wall_ns:
        return RULE.nothing((share,) if cost else ())
    made = (Evidence(CONVERTED, made_ns, "ns", _longest_line(facts, found)),) if made_ns else ()
    evidence = (share, *_lines(facts, found), *made, *_operations(facts, found))
    gain = saving("compute constants once", LEAST_SAVED * cost, cost)
    is_made = made_ns > computed_ns
    edit = Edit("python" if is_made else "ops", "gone")
    return RULE.finding(cost, evidence, _FIX_MADE if is_made else _FIX, gain, edit)


def _lines(facts: Facts, found: Constants) -> tuple[Evidence, ...]:
    """The lines that take longest to compute constants."""
    lines = _by_line(facts, found, found.times_ns + found.making_ns)[:_SHOWN]
    return times(facts, "time of constants at the line", lines)


def _longest_line(facts: Facts, found: Constants) -> str:
    lines = _by_line(facts, found, found.making_ns)
    return lines[0].name if lines else ""


def _by_line(facts: Facts, found: Constants, spent: NDArray[np.int64]) -> list[Group]:
    lines = by_string(facts, facts.trace.step_ops.line[found.places], spent)
    return [group for group in lines if group.name]


def _operations(facts: Facts, found: Constants) -> tuple[Evidence, ...]:
    """How many operations there are, and which take longest."""
    names = by_string(facts, facts.trace.step_ops.name[found.places], found.times_ns)[:_SHOWN]
    return (
        Evidence("operations on constants per step", len(found.rows) / facts.steady_count, "count"),
        *times(facts, "time of the operation, on constants", names),
    )


_FIX_MADE = Fix(
    "Make the tensor once, before the loop: to convert a list or an array of numbers takes longer "
    "than to compute with them.",
    "weights = torch.tensor(values)        # before the loop\n"
    "for batch in loader:\n"
    "    loss = loss_of(batch, weights)",
    "changes-memory",
)
_FIX = Fix(
    "Compute it once, before the loop or when the module is made, and keep it as a buffer, which "
    "moves to the device with the module. Compute it again only when what it depends on changes.",
    "class Layer(torch.nn.Module):\n"
    "    def __init__(self, adjacency):\n"
    "        super().__init__()\n"
    "        degrees = adjacency.sum(1, keepdim=True)\n"
    '        self.register_buffer("mean", adjacency / degrees)\n'
    "\n"
    "    def forward(self, features):\n"
    "        return self.mean @ features",
    "changes-memory",
)
