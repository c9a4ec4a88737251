"""Anomaly detection is on during training.

## What it means
`torch.autograd.set_detect_anomaly(True)` checks every gradient for NaN, and records a Python stack
for each operation of the forward pass. It is meant for finding the operation that produced a NaN.

## Why it costs
Every gradient is read again, and the host waits for the result of each check. On an accelerator,
that is one synchronisation for each operation of the backward pass.

## How it is measured
From the checks in the trace: the backward pass calls `aten::_is_any_true` for at least `OFTEN` of
its operations. The cost is the time of these checks in the steady steps, on an accelerator only
while it is idle. It is a lower bound: recording the stacks often takes longer, but the trace does
not show that time separately.

## Fix
Turn anomaly detection off, and turn it on again only to find a NaN.

## Fix risk
None for the result. A NaN no longer stops the training: check the loss every hundred steps.

## When it abstains
Without host operations, or where the trace does not name the operations of a backward pass. Launch
blocking, deterministic algorithms and XLA dumps are not detected, because a trace does not show
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.measure import by_name, idle, mean_within, on_scale, time_of, times
from stepwhy.diagnoses.shared.program import is_pytorch
from stepwhy.diagnoses.shared.rule import Rule
from stepwhy.findings import Evidence, Fix
from stepwhy.patterns import regex
from stepwhy.trace import Kind, Phase

if TYPE_CHECKING:
    import re

    from stepwhy.diagnoses.shared.slices import Rows
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="debug-settings",
    family="host",
    name="Settings for debugging",
    found="Turn anomaly detection off",
    clear="Anomaly detection is off",
    needs=(("host-ops",), ("steps",)),
    # It also formats a stack for each operation of the forward pass, in Python.
    refines="python-overhead",
)

OFTEN = 0.5  # of the operations of the backward pass; some have no gradient to check
# Source: `validate_outputs` and anomaly mode in `torch/csrc/autograd/engine.cpp`.
_CHECK = regex(r"aten::(isnan|_is_any_true|item)")
_ANSWER = regex(r"aten::_is_any_true")
_NODE = regex(r"autograd::engine::evaluate_function: .*")


def diagnose(facts: Facts) -> Finding:
    """Judge the time of the checks that anomaly detection adds to the backward pass."""
    if not is_pytorch(facts):
        return RULE.not_applicable(
            "Anomaly detection is recognised only among PyTorch's operations."
        )
    nodes, answers = len(_backward(facts, _NODE)), len(_backward(facts, _ANSWER))
    if not nodes:
        return RULE.no_data(
            "backward-ops", "The trace does not name the operations of a backward pass."
        )
    checks = Evidence("checks of gradients per step", answers / max(facts.steady_count, 1), "count")
    if answers < OFTEN * nodes:
        return RULE.nothing((checks,))
    rows = _backward(facts, _CHECK)
    time = time_of(facts, rows)
    time = time & idle(facts) if facts.has_accelerator else time
    cost = on_scale(facts, mean_within(facts, time))
    share = Evidence("share of the step in these checks", cost / max(facts.wall_ns, 1), "fraction")
    longest = times(facts, "time of the check", by_name(facts, rows))
    # No edit: the traceback that each forward operation keeps costs more, and is not recorded.
    return RULE.finding(cost, (checks, share, *longest), _FIX)


def _backward(facts: Facts, pattern: re.Pattern[str]) -> Rows:
    """Operations of the backward pass in steady steps whose whole name matches; (slices,)."""
    rows: Rows = facts.slices(Kind.OP, steady=True)
    rows = rows[facts.phases[rows] == Phase.BACKWARD]
    return rows[facts.trace.matches(facts.trace.slices.name[rows], pattern.fullmatch)]


_FIX = Fix(
    "Turn anomaly detection off, also in the arguments of a trainer. Turn it on for a few steps "
    "when a loss becomes NaN.",
    "torch.autograd.set_detect_anomaly(False)",
    "none",
)
