"""Results are computed in each step, but nothing reads them, or only a few rows, or a rare branch.

## What it means
The step computes something and then does not use it: statistics of activations or a norm of the
gradients that are only printed every 100 steps, a histogram of weights for a monitor, a head of the
model that enters no loss, a second forward pass, or a term of the loss whose weight is zero.

Or it uses a few rows of what it computes: scores over the vocabulary for all positions, of which
the loss ignores those that are not masked; a whole table of embeddings that is normalised before a
few rows are looked up; all pairs, of which an index or the diagonal is read; or an output layer on
all positions, of which the last one counts.

Or it computes an evaluation, a penalty or a new target in any case, and then selects it or not.
In JAX, `jnp.where(step % 50 == 0, f(x), y)` and `lax.select` compute both sides, and so does
`lax.cond` under `vmap`. In TensorFlow 1, what is computed outside the functions passed to `tf.cond`
runs whichever branch is taken.

Or each example of a function that `vmap` maps has a condition of its own: then `lax.cond` and
`lax.switch` compute all branches for all examples, and copy for each of them what the branches
read, such as weights.

## Why it costs
The result is thrown away, in each step or in most of them. Rows that the loss does not read have
gradients of zero, with which the backward pass computes all the same.

## How it is measured
In PyTorch, `stepwhy run` looks at the operations of one step after the traced ones, and follows
which of them read the result of which. Needed is what is written into a tensor from before the
step, such as a parameter, a running mean or a sum; what the host reads, as a number, a list, an
array or a text; what a backward pass begins with; and all that these are computed from. What the
step leaves behind is watched in the next steps, up to four: it is needed if anything reads it there
or if it is still kept then, as in a list of losses. What is freed, or replaced by the result of the
next step, without having been read is not. If some of the traced steps read more numbers than the
step that was looked at, they may be those that print the results, and do not count. The gradient of
a term that is multiplied by zero is zero, so that neither the term nor its backward pass is needed.
Of other gradients, only those count that the `backward` of a function of the program computes for
inputs that need none; the rest is the matter of [`unused-gradient`](unused-gradient.md). The cost
is the time of these operations in the traced steps.

In the same step it follows which rows, or pairs, of each result the forward pass reads: through
indices, slices, masks, diagonals, and targets that the loss ignores, and back through products of
matrices, normalisations and operations by element, whose rows are independent of each other. The
cost is the share of the others in the time of these operations, forward and backward. Operations
that mix rows, such as attention or batch normalisation, read all of them; so do the host and the
next steps. A choice that depends on the values of the model, such as the best of some candidates,
does not count, since all of them must be computed first. Single elements that a mask leaves out
count in a loss only, so that dropout and the masks of attention do not. Nor does an operation count
of which more than half is read, in all its calls from one line with the same sizes: of a layer that
is called again and again, only the last call may be read in part. Nor do operations by element
alone, such as an activation before an index: no program has shown that choosing first is faster.
One element that is computed alone takes as long as 16 elements of a product of matrices. Of the
result of a convolution, each element counts, such as positions at an end that is cut off.

In JAX by the compiled programs in the profile: instructions whose results only one side of a
selection reads, and gradients that are zero on the other side, where the condition is a single
truth value. Selections by element do not count. If the condition compares a remainder,
`step % 50 == 0`, it shows how often the result is read, and the cost is the time of the work in all
other steps. For other conditions, as for a flag that is passed to the function or 'is the loss
finite', it is unknown how often they hold: only the shorter of both sides is sure to be lost. In a
graph of TensorFlow by what flows where: operations whose results end at the entry of a branch that
was not taken in at least 80 % of three or more steps.

When `vmap` turns a condition into a selection, `stepwhy run` notes its line, and those at which its
branches were traced. The cost is the time of the branches, forward and backward, less one of
them, as if each was taken equally often, and that of what is at the line of the condition. How
often they are taken is unknown: if the shortest one is usual, more is lost, and less if the longest
one is, as the range of the gain says. Functions that a branch calls count for its most, since the
rest of the program may call them, too. Lines that several branches share do not count.

## Fix
Compute the result only in the steps that read it, or not at all. Choose rows before computing with
them. In JAX and TensorFlow 1, compute
it within the branch: `lax.cond`, or the functions passed to `tf.cond`. Where Python knows the
condition, two compiled functions do as well.

## Fix risk
None: the same values are used, rows up to the order of sums. If the operations draw random numbers,
as dropout does, all later ones are others.

## When it abstains
In PyTorch without a step that was looked at: in traces of other profilers, in runs with
`torch.compile`, CUDA graphs, several processes, or subclasses of tensors; if the run ended or
paused within four steps of it; if another thread of the program may read results; or if kernels run
that are no operations of PyTorch. In JAX, if the profile has no compiled programs; in TensorFlow,
if it has no flows between operations. If fewer than three steps of a graph were recorded, it
reports nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepwhy.base.patterns import regex
from stepwhy.diagnose.not_needed.shared.branches import Branch, find_branches
from stepwhy.diagnose.not_needed.shared.rewrites import knows_programs
from stepwhy.diagnose.not_needed.shared.semantics import without_semantics
from stepwhy.diagnose.not_needed.shared.unused_rows import (
    UnusedRows,
    choices,
    knows_rows,
    main_way,
    unused_rows,
)
from stepwhy.diagnose.shared.measure import by_name, by_string, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.unread import Unread, unread
from stepwhy.diagnose.shared.work_lines import work_lines
from stepwhy.result import Saving
from stepwhy.trace import NULL, Phase

RULE = Rule(
    __name__,
    name="Results that nothing reads",
    found="Compute the result only where it is used: most steps throw it away",
    clear="Little or no time goes into results that nothing reads",
    needs=(("device-time",), ("steps",)),
    refines="dominant-op",
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.7,  # of what is certain to be lost; work of several threads may overlap
    change="compute the result where it is used",
    edit=Edit("ops", "gone"),
)

_SHOWN = 3
_SHARE_THROWN_AWAY = "share of the step in results that are thrown away"
_NOT_SEEN = (
    "It was not seen what reads the results of the step: the run ended or paused too early, or "
    "another thread, or something other than operations of PyTorch, may read them."
)
_ROWS_NOT_SEEN = (
    "Nothing reads a whole result in vain, but it was not seen which rows of the results are read."
)
_OF_ROWS = {
    "ignored": "Compute scores only for the rows that the loss counts: it ignores most of them",
    "rows": "Look rows up before computing with them: most of them are never read",
    "table": "Look rows up before computing with a table: a step reads few of its rows",
    "place": "Compute only the positions that are read: most of the result is cut off",
    "cut": "Let convolutions pad less: most of what they compute is cut off",
    "diagonal": "Compute only the pairs on the diagonal: the rest of the matrix is not read",
}
_CONVOLUTION = regex(r"conv(?!ert)", re.IGNORECASE)
_OF_VMAP = "Call each branch for its own examples: vmap computes all branches for all of them"
_OF_FUNCTION = "Compute gradients only for inputs that need one: a function computes others in vain"
_OF_NO_WEIGHT = "Leave out the term of the loss while its weight is zero"


def diagnose(facts: Facts) -> Finding:
    """Judge the time of work whose results are thrown away."""
    if is_pytorch(facts):
        return _of_pytorch(facts)
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
    if branch.line:
        least, most = branch.bounds
        gain = saving("call one branch", RULE.least_saved * least, most)
        if branch.cost_ns < RULE.least_share * facts.wall_ns:
            return RULE.nothing(evidence[:2])
        fix = RULE.fix("jax-vmap")
        return RULE.finding(branch.cost_ns, evidence, fix, gain, title=_OF_VMAP)
    fix = RULE.fix("jax" if is_jax else "tensorflow")
    return RULE.judge(facts, branch.cost_ns, evidence, fix, shown=2)


def _of_pytorch(facts: Facts) -> Finding:
    abstention = without_semantics(RULE, facts)
    if abstention is not None:
        return abstention
    if (facts.trace.step_ops.unread == NULL).any():
        return RULE.incomplete("semantic-step", _NOT_SEEN)
    found, parts = unread(facts), unused_rows(facts)
    of_rows = parts.cost_ns(facts)
    cost = found.cost_ns(facts) + of_rows
    share = Evidence(_SHARE_THROWN_AWAY, cost / facts.wall_ns, "fraction")
    if cost < RULE.least_share * facts.wall_ns:
        if not knows_rows(facts):
            return RULE.incomplete("semantic-step", _ROWS_NOT_SEEN)
        return RULE.nothing((share,) if cost else ())
    gain = saving("compute what is read", RULE.least_saved * cost, cost)
    if 2 * of_rows > cost:
        return _of_rows(facts, parts, share, cost, gain)
    evidence = (share, *work_lines(facts, found.rows), *_operations(facts, found))
    if _in_backward(facts, found):
        return RULE.finding(cost, evidence, RULE.fix("function"), gain, title=_OF_FUNCTION)
    if found.is_mostly_weighted:
        return RULE.finding(cost, evidence, RULE.fix("weighted"), gain, title=_OF_NO_WEIGHT)
    return RULE.finding(cost, evidence, RULE.fix("pytorch"), gain)


def _in_backward(facts: Facts, found: Unread) -> bool:
    """Whether most of the time is in functions of the program with a backward pass of their own."""
    is_so = (facts.phases[found.rows] == Phase.BACKWARD) & ~found.is_weighted
    return bool(2 * found.times_ns[is_so].sum() > found.times_ns.sum())


def _of_rows(
    facts: Facts, parts: UnusedRows, share: Evidence, cost_ns: int, gain: Saving | None
) -> Finding:
    """What is mostly rows that nothing reads."""
    way = main_way(facts, parts)
    names = by_string(facts, facts.trace.slices.name[parts.rows], parts.times_ns)
    if way == "place" and _CONVOLUTION.search(names[0].name):
        way = "cut"
    evidence = (
        share,
        *choices(facts, parts),
        *work_lines(facts, parts.rows),
        *times(facts, "time for the rows in the operation", names[:_SHOWN]),
    )
    return RULE.finding(cost_ns, evidence, RULE.fix(way), gain, title=_OF_ROWS[way])


def _operations(facts: Facts, found: Unread) -> Iterator[Evidence]:
    """How many operations there are, and which take longest."""
    count = len(found.rows) / facts.steady_count
    yield Evidence("operations per step whose results nothing reads", count, "count")
    if found.is_weighted.any():
        weighted = int(found.is_weighted.sum()) / facts.steady_count
        yield Evidence("of them, for a term that is multiplied by zero", weighted, "count")
    names = by_string(facts, facts.trace.slices.name[found.rows], found.times_ns)
    yield from times(facts, "time of the operation", names[:_SHOWN])


def _evidence(facts: Facts, branch: Branch) -> Iterator[Evidence]:
    share = branch.cost_ns / facts.wall_ns
    yield Evidence(_SHARE_THROWN_AWAY, share, "fraction")
    if branch.one_in:
        yield Evidence("steps per use of the result", branch.one_in, "count", branch.condition)
    elif branch.line:
        yield Evidence(
            "branches that are all computed", int(branch.condition.split()[0]), "count", branch.line
        )
    else:
        count = len(branch.rows) / max(facts.steady_count, 1)
        yield Evidence("operations for one branch per step", count, "count", branch.condition)
    yield from times(facts, "time of the operation", by_name(facts, branch.rows)[:_SHOWN])
    yield from work_lines(facts, branch.rows)
