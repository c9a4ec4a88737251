"""The backward pass computes gradients of parameters that no optimizer has, or that none uses.

## What it means
Autograd follows every path to a parameter that requires gradients. Some of these paths end at
parameters which no optimizer updates: those of a teacher that runs without `no_grad`, of a network
that only measures a loss, or of a backbone whose layers were not frozen. Or a loss reaches the
parameters of another optimizer, whose gradients are cleared before it takes a step: the loss of a
critic runs back through the generator whose result was not detached. Or a pass that is only for the
gradient of an input, as in an adversarial attack, computes those of all weights, too.

## Why it costs
Such a path takes about twice the time of its forward pass, and keeps its activations in memory.
Where only the weights of a layer are not needed, one of its two products is.

## How it is measured
In one traced step, `stepwhy run` walks the graph of each loss before its backward pass, and notes
which nodes lead to no parameter of an optimizer. The profiler records their time. Their share of
the backward pass in that step is taken for all steps. Of a matrix product or convolution that
passes a gradient on, but computes that of its weights for nothing, half of the time counts.

If there are several optimizers, the walk also notes which nodes lead only to parameters of one of
them, and if an input needs a gradient, which are only for parameters. They count if these gradients
are gone at one of the next backward passes before the optimizer has taken a step. That a critic
passes a gradient on to the generator does not count, although it also computes that of its own
weights.

A gradient that the program reads itself is used: it may log a norm, add up squares, combine
gradients of several losses, or update parameters by hand. Reads are observed until the gradients
are cleared and another backward pass begins, or in 16 backward passes of later steps. To test
whether a gradient is there, or to clear it, reads nothing, and clipping by
`torch.nn.utils.clip_grad_norm_` alone is no use. If the program reads the gradient of one
parameter, none of those of the pass count.

Leaves that are no parameters of a module do not count, as the program may read the gradient of an
input itself. Neither do parameters with hooks, nor those of which an optimizer has a copy in
another type.

## Fix
Run a network that is not trained under `torch.no_grad()`, if nothing in front of it needs
gradients. Otherwise let its parameters not require gradients.

## Fix risk
None, unless the program reads these gradients itself once in many steps, such as a norm that it
logs in every hundredth one. Where they are clipped together with the others, they are part of the
norm: without them, the others are clipped less.

## When it abstains
In traces that `stepwhy run` did not record; if parts of the graph are compiled, if parameters are
subclasses of tensors, as with sharded training, if the graph has more than 10,000 nodes, and if no
optimizer of `torch.optim` has any parameter of it. Where gradients may be unused, also if
`torch.compile` is in use, because it cannot be observed then whether the program reads them.
"""

from __future__ import annotations

from stepwhy.diagnose.not_needed.shared.unowned import Unowned, find_unowned
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule

RULE = Rule(
    __name__,
    name="Gradients that no optimizer uses",
    found="Compute no gradients of parameters that no optimizer has",
    clear="Gradients of parameters that no optimizer has take little or no time",
    needs=(("host-ops",), ("device-time",), ("steps",)),
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.6,  # of the cost; a part of what a node of two products does may have to stay
    change="compute no unused gradients",
    edit=Edit("ops", "gone"),
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time of nodes that lead to no parameter of an optimizer."""
    if not is_pytorch(facts):
        return RULE.not_applicable("Gradients are followed to their parameters only in PyTorch.")
    unowned = find_unowned(facts)
    if unowned is None:
        return RULE.no_data(
            "gradient-graph",
            "The trace does not record the parameters of optimizers, as `stepwhy run` does.",
        )
    cost = 0 if unowned.refusal else unowned.cost_ns(facts)
    why_not = unowned.refusal or unowned.left_out
    if why_not and cost < RULE.least_share * facts.wall_ns:
        return RULE.no_data("gradient-graph", f"A graph was not followed: {why_not}.")
    evidence = _evidence(facts, unowned, cost)
    if cost < RULE.least_share * facts.wall_ns:
        return RULE.nothing(evidence[:1])
    if unowned.dropped and not unowned.parameters:
        fix = RULE.fix("input" if len(unowned.half) else "dropped")
        return RULE.finding(cost, evidence, fix, title=_DROPPED)
    return RULE.finding(cost, evidence, RULE.fix("frozen"))


def _evidence(facts: Facts, unowned: Unowned, cost: int) -> tuple[Evidence, ...]:
    share = Evidence("share of the step in unused gradients", cost / facts.wall_ns, "fraction")
    return (
        share,
        *(
            Evidence("call of a module with such parameters", "records a graph", "", line)
            for line in unowned.calls
        ),
        *(
            Evidence("parameters that no optimizer has", count, "count", name)
            for name, count in unowned.parameters
        ),
        *(
            Evidence("parameters whose gradients are cleared unused", count, "count", name)
            for name, count in unowned.dropped
        ),
        Evidence("nodes that lead only to such parameters", len(unowned.unused) / unowned.steps,
                 "count", unowned.line),
        Evidence("layers that compute gradients of such weights beside others",
                 len(unowned.half) / unowned.steps, "count"),
    )  # fmt: skip


_DROPPED = "Compute no gradients that are cleared before an optimizer uses them"
