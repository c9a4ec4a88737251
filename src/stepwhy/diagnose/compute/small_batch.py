"""Starting a step takes longer than computing it, because its batch has few examples.

## What it means
Each step processes a batch of one to eight examples, and most of its time goes to work that does
not depend on how many there are: entering a compiled function or a session, launching operations,
callbacks per batch.

## Why it costs
Thirty-two examples in one step pay for this work once, in steps of two they pay sixteen times. The
larger step takes hardly longer while the operations are short, so that an epoch takes a fraction of
the time.

## How it is measured
`stepwhy run` logs the size of a batch where it can: that of Keras' `fit`, of a `DataLoader`, of
what a session is fed with or takes from a queue or dataset, of `tf.data` data sets that Python
iterates over, and of NumPy arrays that a jitted function is called with. The cost is the time of
the step in which nothing computes while the host executes framework code or Python between its
calls, without callbacks from compiled code; in PyTorch, where an operation and its launch are one
record, also operations of at most 10 µs. It has no saving per step, because a larger batch means
fewer steps, not shorter ones: compare examples per second.

In Keras' `fit` the diagnosis is made for any batch size, because `steps_per_execution` saves most
of this work without changing the training.

## Fix
Raise the batch size, and adapt the learning rate. In Keras, or where the batch has to stay small,
run several steps per call.

## Fix risk
A larger batch changes the training and needs more memory: compare the loss after the same number of
examples. With `steps_per_execution`, callbacks for batches are called once per several steps.

## When it abstains
If the size of a batch is unknown. Does not apply with an accelerator, where `launch-bound` judges
this.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwhy.analyse.input.batch_size import batch_size, is_in_fit
from stepwhy.diagnose.shared.eager_calls import in_small
from stepwhy.diagnose.shared.program import uses_loader, uses_sessions
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Fix, Rule
from stepwhy.diagnose.shared.slices import launched_ops

RULE = Rule(
    __name__,
    name="Steps with little work",
    found="Raise the batch size: starting a step takes longer than computing it",
    clear="Steps compute for longer than it takes to start them, or have many examples",
    needs=(("device-time",), ("steps",)),
)

_SEVERAL = "Run several steps per call: starting a step takes longer than computing it"

SHARE = 0.5  # of the step; twice the examples per step then save a quarter of the time or more
SMALL = 8  # examples; more are a choice of the training, and a larger batch gains less
LONGEST_NS = 10_000_000  # ns; a compiled step starts in 0.05 to 2 ms, so longer ones wait for else
LAUNCH_NS = 10_000  # ns; launching an operation of PyTorch takes 1 to 5 µs, recorded a little more


def diagnose(facts: Facts) -> Finding:
    """Judge the time of the step that does not depend on the size of the batch."""
    if facts.has_accelerator:
        return RULE.not_applicable("The run uses an accelerator: see launch-bound.")
    examples, fixed_ns = batch_size(facts.trace), _fixed_ns(facts)
    share = Evidence("share of the step in starting its work", fixed_ns / facts.wall_ns, "fraction")
    if fixed_ns < SHARE * facts.wall_ns or facts.wall_ns > LONGEST_NS:
        return RULE.nothing((share,))
    if examples is None:
        return RULE.no_data("batch-size", "The number of examples in a batch was not recorded.")
    evidence = (
        Evidence("examples in a batch", examples, "count"),
        Evidence("time per example", round(facts.wall_ns / examples), "ns"),
        share,
    )
    runs_several = is_in_fit(facts.trace) and facts.trace.meta.framework == "tensorflow"
    if examples > SMALL and not runs_several:
        return RULE.nothing(evidence)
    found = RULE.finding(fixed_ns, evidence, _fix(facts, examples, runs_several=runs_several))
    return found if examples <= SMALL else replace(found, title=_SEVERAL)


def _fixed_ns(facts: Facts) -> int:
    """Time of the mean step that a batch of any size takes; 0 if most of it is the program's own.

    Python of the program may depend on the batch, so framework code has to outweigh it.
    """
    launched = launched_ops(facts)
    small_ns = in_small(facts, launched[~facts.in_input[launched]], LAUNCH_NS)
    launching = facts.breakdown["dispatch"] + small_ns
    python = max(facts.breakdown["python"] - facts.callback_ns, 0)
    return launching + python if python <= launching else 0


def _fix(facts: Facts, examples: int, *, runs_several: bool) -> Fix:
    if runs_several:
        return RULE.fix("fit" if examples <= SMALL else "several-steps")
    if is_in_fit(facts.trace):
        return RULE.fix("larger-fit")
    if facts.trace.meta.framework == "jax":
        return RULE.fix("jax")
    if uses_sessions(facts):
        return RULE.fix("session")
    return RULE.fix("loader" if uses_loader(facts) else "any")
