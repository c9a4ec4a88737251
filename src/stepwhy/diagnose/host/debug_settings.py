"""A setting for debugging slows the steps.

## What it means
`torch.autograd.set_detect_anomaly(True)` checks every gradient for NaN, and records a Python stack
for each operation of the forward pass. It is meant for finding the operation that produced a NaN.
Environment variables have similar effects: with `CUDA_LAUNCH_BLOCKING`, each launch waits for its
kernel; `JAX_DEBUG_NANS` waits for each result; `JAX_DISABLE_JIT` compiles nothing. So does
`tf.config.run_functions_eagerly(True)` in TensorFlow 2, and `compile(run_eagerly=True)` in Keras.

## Why it costs
With anomaly detection, every gradient is read again, and the host waits for the result of each
check. On an accelerator, that is one synchronisation for each operation of the backward pass. Where
launches wait, the host cannot prepare work while the device computes.

## How it is measured
From the checks in the trace: the backward pass calls `aten::_is_any_true` for at least `OFTEN` of
its operations. The cost is the time of these checks in the steady steps, on an accelerator only
while it is idle. It is a lower bound: recording the stacks often takes longer, but the trace does
not show that time separately.

In TensorFlow, the cost is the time of the operations that `tf.debugging.enable_check_numerics()`
adds to each step.

`stepwhy run` records the variables of the process when its first steps are written, and the options
of JAX that they stand for, and whether functions of TensorFlow run eagerly. One counts only if it
applies to the run: its framework, an accelerator, several ranks. Where functions run uncompiled,
the cost is that of [`eager-loop`](eager-loop.md), which this explains, or the time in which the
host launches what few operations there are, and runs Python. With `CUDA_LAUNCH_BLOCKING`,
the launches in the trace show whether they return after their kernels. If most do, the cost is the
time of the launches beyond what one takes that does not wait (`LAUNCH_NS`), at most the time in
which the device is idle: it works as long as before. The fix may save less, where the program
itself waits for the device, and more, because operations of the host take longer after each wait
(`AFTER_WAITS`). `launch-bound` is explained by it: unset the variable before you judge launches.
For other variables, no record shows the cost. Variables that slow only some programs are listed as
evidence, and are not a problem by themselves. `stepwhy run` looks for the setting in the code of
the program's modules, and names the line where it stands; for a variable, only if the process began
without it.

## Fix
Turn anomaly detection off, and turn it on again only to find a NaN. Unset the variables and options
in the shell, in the job's script, and in the program.

## Fix risk
None for the result. A NaN no longer stops the training: check the loss every hundred steps.

## When it abstains
Without host operations, or where the trace does not name the operations of a backward pass, unless
a variable slows the run. Deterministic algorithms that the program selects itself and XLA dumps are
not detected, because a trace does not show them. Traces of other profilers do not contain
environment variables.
"""

from __future__ import annotations

import re

import numpy as np
from msgspec.structs import replace

from stepwhy.base.columns.groups import first_rows
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.eager_calls import eager_loop
from stepwhy.diagnose.shared.measure import (
    by_name,
    idle,
    idle_ns,
    mean_within,
    on_scale,
    time_of,
    times,
)
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Fix, Rule, saving, untimed
from stepwhy.diagnose.shared.settings import (
    CHECKS_OF_NUMERICS,
    LAUNCHES_WAIT,
    MOST_WAIT,
    UNCOMPILED,
    Setting,
    applied,
    setting_lines,
)
from stepwhy.trace import Kind, Phase

RULE = Rule(
    __name__,
    name="Settings for debugging",
    found="Turn anomaly detection off",
    clear="Anomaly detection is off",
    needs=(("host-ops",), ("steps",)),
    # It also formats a stack for each operation of the forward pass, in Python.
    refines="python-overhead",
    reads_settings=True,
)

FEWEST_CHECKS = 16  # per step; a program that checks some tensors itself has fewer
OFTEN = 0.5  # of the operations of the backward pass; some have no gradient to check
# Source: `validate_outputs` and anomaly mode in `torch/csrc/autograd/engine.cpp`.
_CHECK = regex(r"aten::(isnan|_is_any_true|item)")
_ANSWER = regex(r"aten::_is_any_true")
_NODE = regex(r"autograd::engine::evaluate_function: .*")


_BLOCKING = "CUDA_LAUNCH_BLOCKING"
# A launch that does not wait, recorded by a profiler; on an H100, nine of ten took 4 to 9 us.
LAUNCH_NS = 5_000
# Of the host's other work, at most: on an H100, it took a third less time where launches did not
# wait. After a wait, caches are cold and the thread has to be woken.
AFTER_WAITS = 1 / 3
LEAST_COMPILED = 0.5  # of the time in small operations and between them; the work itself remains
_SAME_NS = 5_000  # the profiler's clocks of host and device differ by microseconds
_MORE = "It can save more than its cost: other work of the host takes longer after each wait."
_WAITING = "time in launches that wait"
_UNSET = "Unset the variables for debugging"
_CHECKED = "Turn the checks of all results for NaN off"
_COMPILE = "Let functions be compiled again: a setting for debugging runs them uncompiled"
_MAY_SLOW = "Some environment variables may slow the steps"


def diagnose(facts: Facts) -> Finding:
    """Judge the checks of anomaly detection, and the environment variables of the process."""
    settings, abstention = applied(facts), untimed(RULE, facts)
    found = abstention or _anomaly(facts)
    evidence = tuple(_of_variable(facts, text, about) for text, about in settings)
    slow = [text.partition("=")[0] for text, about in settings if about.slows]
    share = _blocked_share(facts) if abstention is None and _BLOCKING in slow else None
    if share is not None:
        evidence = (Evidence(LAUNCHES_WAIT, share, "fraction"), *evidence)
        if share < MOST_WAIT:
            slow.remove(_BLOCKING)  # set after the driver had read it
    if slow and found.verdict != "found":
        is_blocked = share is not None and share >= MOST_WAIT
        return _slowed(facts, slow, evidence, _waits_ns(facts) if is_blocked else None)
    found = replace(found, evidence=found.evidence + evidence)
    return replace(found, title=_MAY_SLOW) if evidence and found.verdict == "clear" else found


def _of_variable(facts: Facts, text: str, about: Setting) -> Evidence:
    """What a variable does, with the line if the program sets it in one."""
    name = text.partition("=")[0]
    lines = setting_lines(facts, name, name.lower(), name.lower().removeprefix("jax_"))
    return Evidence(about.effect, text, "", lines[0].where if len(lines) == 1 else "")


def _slowed(
    facts: Facts, slow: list[str], evidence: tuple[Evidence, ...], waits_ns: int | None
) -> Finding:
    """The finding for variables that slow every run to which they apply.

    Args:
        facts: Facts of the run.
        slow: Their names.
        evidence: What they do.
        waits_ns: Time per step in which launches wait for their kernels; None if it is not known.
    """
    fix = Fix(
        f"Unset {', '.join(slow)} where the program sets it, or, for a variable, in the shell "
        "and in the job's script. Set it again only to find an error.",
        "",
        "none",
    )
    if UNCOMPILED.intersection(slow):
        loop = eager_loop(facts)
        # Where a step has few operations, launching them takes the time.
        launching_ns = facts.breakdown["dispatch"] + facts.breakdown["python"]
        cost_ns = launching_ns if loop is None else loop.cost_ns
        limit_ns = cost_ns if loop is None else facts.wall_ns
        gain = saving("compile again", LEAST_COMPILED * cost_ns, limit_ns)
        return RULE.finding(cost_ns, evidence, fix, gain, title=_COMPILE)
    if waits_ns is None:
        return RULE.finding(None, evidence, fix, title=_UNSET)
    gaps_ns = idle_ns(facts)
    busy_ns = facts.wall_ns - gaps_ns
    cost_ns = min(waits_ns, gaps_ns)
    most_ns = min(waits_ns + AFTER_WAITS * (facts.wall_ns - waits_ns), gaps_ns)
    # Where the program itself waits for the device, it waits at most as long as the device works.
    gain = saving("launches that do not wait", max(cost_ns - busy_ns, 0), most_ns)
    gain = replace(gain, note=_MORE) if most_ns > cost_ns else gain
    evidence = (*evidence[:1], Evidence(_WAITING, waits_ns, "ns"), *evidence[1:])
    return RULE.finding(cost_ns, evidence, fix, gain, title=_UNSET)


def _waits_ns(facts: Facts) -> int:
    """Time per step in which launches wait for their kernels.

    A profiler does not lengthen these waits, so that they are as long in steps without one.
    """
    trace = facts.trace
    rows, calls = facts.launches.joined
    chosen = facts.is_steady[calls] & np.isin(trace.slices.kind[rows], (Kind.KERNEL,))
    rows, calls = rows[chosen], calls[chosen]
    # Rows are in the order of their starts: the launch of a graph waits from its first kernel on.
    first = first_rows(calls)
    rows, calls = rows[first], calls[first]
    since_start = trace.ends(calls) - trace.slices.start_ns[rows] + LAUNCH_NS
    waits = np.minimum(trace.slices.dur_ns[calls] - LAUNCH_NS, since_start)
    return min(facts.mean_ns(float(np.maximum(waits, 0).sum())), facts.wall_ns)


def _blocked_share(facts: Facts) -> float | None:
    """Share of the kernels whose launch returned only after they had ended; None if unknown."""
    slices = facts.trace.slices
    rows, calls = facts.launches.joined
    kernels = np.isin(slices.kind[rows], (Kind.KERNEL,))
    rows, calls = rows[kernels], calls[kernels]
    if not len(rows):
        return None
    ended = slices.start_ns[rows] + slices.dur_ns[rows]
    returned = slices.start_ns[calls] + slices.dur_ns[calls]
    return float(np.mean(returned + _SAME_NS >= ended))


def _anomaly(facts: Facts) -> Finding:
    """Judge the time of the checks that anomaly detection adds to the backward pass."""
    if not is_pytorch(facts):
        return _numerics(facts) or RULE.not_applicable(
            "Anomaly detection is recognised only among PyTorch's operations."
        )
    if "host-ops" not in facts.trace.meta.signals:
        return RULE.lacks("host-ops")
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
    lines = setting_lines(facts, "set_detect_anomaly", "detect_anomaly")
    return RULE.finding(cost, (checks, share, *longest, *lines), RULE.fix())


def _numerics(facts: Facts) -> Finding | None:
    """The finding about checks after each operation of TensorFlow; None without them."""
    rows = facts.slices(Kind.OP, Kind.KERNEL, Kind.STORAGE, steady=True)
    rows = rows[facts.trace.matches(facts.trace.slices.name[rows], CHECKS_OF_NUMERICS.fullmatch)]
    if len(rows) < FEWEST_CHECKS * max(facts.steady_count, 1):
        return None
    cost = on_scale(facts, mean_within(facts, time_of(facts, rows)))
    evidence = (
        Evidence("checks of results per step", len(rows) / max(facts.steady_count, 1), "count"),
        Evidence("share of the step in these checks", cost / max(facts.wall_ns, 1), "fraction"),
        *setting_lines(facts, "enable_check_numerics"),
    )
    return RULE.finding(cost, evidence, RULE.fix("numerics"), title=_CHECKED)


def _backward(facts: Facts, pattern: re.Pattern[str]) -> AnyRows:
    """Operations of the backward pass in steady steps whose whole name matches; (slices,)."""
    rows: AnyRows = facts.slices(Kind.OP, steady=True)
    rows = rows[facts.phases[rows] == Phase.BACKWARD]
    return rows[facts.trace.matches(facts.trace.slices.name[rows], pattern.fullmatch)]
