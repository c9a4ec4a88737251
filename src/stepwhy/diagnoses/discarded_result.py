"""Results are computed in each step, but read only by a branch that is rarely taken.

## What it means
The step computes an evaluation, a penalty or a new target in any case, and then selects it or not.
In JAX, `jnp.where(step % 50 == 0, f(x), y)` and `lax.select` compute both sides, and so does
`lax.cond` under `vmap`. In TensorFlow 1, what is computed outside the functions passed to `tf.cond`
runs whichever branch is taken.

## Why it costs
The result of each step in which the other branch is taken is thrown away.

## How it is measured
In JAX by the compiled programs in the profile: instructions whose results only one side of a
selection reads, where the condition is a single truth value that is made of whole numbers alone,
such as the number of the step. Selections by element do not count, and neither do conditions that
depend on computed values, such as 'is the loss finite', which usually hold. If the condition
compares a remainder, `step % 50 == 0`, it shows how often the result is read, and the cost is the
time of the work in all other steps. For other conditions, as for a flag that is passed to the
function, it is unknown how often they hold: only the shorter of both sides is sure to be lost. In a
graph of TensorFlow by what flows where: operations whose results end at the entry of a branch that
was not taken in at least 80 % of three or more steps.

## Fix
Compute the result within the branch: `lax.cond`, or the functions passed to `tf.cond`. Where Python
knows the condition, two compiled functions do as well.

## Fix risk
None: the same values are used.

## When it abstains
If the profile has no compiled programs, or no flows between operations. If fewer than three steps
of a graph were recorded, it reports nothing. Does not apply to PyTorch, whose branches are those of
Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.branches import find_branches
from stepwhy.diagnoses.shared.measure import by_name, times
from stepwhy.diagnoses.shared.program import is_pytorch
from stepwhy.diagnoses.shared.rewrites import knows_programs
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.diagnoses.shared.work_lines import work_lines
from stepwhy.findings import Edit, Evidence, Fix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.diagnoses.shared.branches import Branch
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="discarded-result",
    family="not needed",
    name="Results that only a branch reads which is not taken",
    found="Compute the result only where it is used: most steps throw it away",
    clear="No step computes much for a branch that is not taken",
    needs=(("device-time",), ("steps",)),
)

SHARE = 0.05  # of the step; below it the gain is less than the variation between steps
LEAST_SAVED = 0.7  # of what is certain to be lost; work of several threads may overlap
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge the time of work whose results are thrown away."""
    if is_pytorch(facts):
        return RULE.not_applicable("Branches of PyTorch are those of Python.")
    is_jax = facts.trace.meta.framework == "jax"
    if is_jax and not knows_programs(facts):
        return RULE.no_data("programs", "The compiled programs were not recorded.")
    if not is_jax and not len(facts.trace.flows):
        return RULE.no_data("operands", "What flows between the operations was not recorded.")
    branches = find_branches(facts)
    branch = max(branches, key=lambda each: each.cost_ns, default=None)
    if branch is None or branch.cost_ns <= 0:
        return RULE.nothing()
    evidence = tuple(_evidence(facts, branch))
    if branch.cost_ns < SHARE * facts.wall_ns:
        return RULE.nothing(evidence[:2])
    low = LEAST_SAVED * branch.cost_ns
    gain = saving("compute the result where it is used", low, branch.cost_ns)
    fix = _JAX if is_jax else _TENSORFLOW
    return RULE.finding(branch.cost_ns, evidence, fix, gain, Edit("ops", "gone"))


def _evidence(facts: Facts, branch: Branch) -> Iterator[Evidence]:
    share = branch.cost_ns / facts.wall_ns
    yield Evidence("share of the step in results that are thrown away", share, "fraction")
    if branch.one_in:
        yield Evidence("steps per use of the result", branch.one_in, "count", branch.condition)
    else:
        count = len(branch.rows) / max(facts.steady_count, 1)
        yield Evidence("operations for one branch per step", count, "count", branch.condition)
    yield from times(facts, "time of the operation", by_name(facts, branch.rows)[:_SHOWN])
    yield from work_lines(facts, branch.rows)


_JAX = Fix(
    "Compute the result in a branch of lax.cond, which runs only the branch that is taken. Under "
    "vmap it computes both: there, keep the condition outside.",
    "score = jax.lax.cond(step % 50 == 0, evaluate, lambda _: old, params)\n"
    "# instead of jnp.where(step % 50 == 0, evaluate(params), old)",
    "none",
)
_TENSORFLOW = Fix(
    "Compute the result within the function that is passed to tf.cond: what is made outside of it "
    "runs in each step.",
    "score = tf.cond(is_due, lambda: evaluate(batch), lambda: old)",
    "none",
)
