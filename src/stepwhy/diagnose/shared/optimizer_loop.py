"""Optimizers of PyTorch that run operations for each parameter, one parameter after the other."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from stepwhy.analyse.breakdown.phases import closure_time
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.optimizer_time import optimizer_time
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import (
    by_name,
    idle,
    mean_within,
    nearest_of,
    on_scale,
    time_of,
)
from stepwhy.diagnose.shared.recording_cost import without_recording
from stepwhy.diagnose.shared.slices import launched_ops, steady_work
from stepwhy.trace import NULL, Kind, Phase

FEWEST = 50  # operations per step; fewer are launched in less than a millisecond
SHARE = 0.10  # of the step; below it the gain is less than the variation between steps

# Optimizers without an implementation that updates many parameters at once are left out.
STEP = regex(r"Optimizer\.step#(?P<optimizer>(?!SparseAdam|LBFGS|Adafactor|Muon)\w+)\.step")
_FUSED_STEP = regex(r"Optimizer\.step#\w*[Ff]used\w*\.step")
_AT_ONCE = regex(r"_foreach_|_fused_|multi_tensor")


class OptimizerLoop(msgspec.Struct, frozen=True):
    """Steps of optimizers that run operations for each parameter.

    Args:
        time: When calls of `Optimizer.step` in the steady steps update parameters.
        calls: Operations that these call, not from other operations, ascending; (calls,).
        cost_ns: Time of the mean step that this takes, ns.
    """

    time: Intervals
    calls: AnyRows
    cost_ns: int


def optimizer_steps(facts: Facts) -> AnyRows:
    """Calls of `Optimizer.step` in the steady steps, ascending."""
    return _named(facts, STEP)


def optimizer_loop(facts: Facts) -> OptimizerLoop | None:
    """The loop of the optimizers; None if they update many parameters at once, or have few."""
    return facts.derived(_optimizer_loop)


def costly_loop_time(facts: Facts) -> Intervals:
    """The time of the steps of optimizers that loop, if they take a considerable part."""
    loop = optimizer_loop(facts)
    if loop is None or loop.cost_ns < SHARE * facts.wall_ns:
        return Intervals.empty()
    return loop.time


def _optimizer_loop(facts: Facts) -> OptimizerLoop | None:
    time = time_of(facts, optimizer_steps(facts)) - closure_time(facts.trace)
    rows = launched_ops(facts)
    starts, ends = facts.trace.slices.start_ns[rows], facts.trace.ends(rows)
    # Operations that the steps call, not from other operations.
    calls = rows[time.within(starts, ends) > 0]
    if len(calls) < FEWEST * max(facts.steady_count, 1) or _updates_at_once(facts, calls):
        return None
    cost = _device_cost if facts.has_accelerator else _host_cost
    return OptimizerLoop(time, calls, cost(facts, time))


def _named(facts: Facts, pattern: re.Pattern[str]) -> AnyRows:
    """Steady slices whose whole name matches a pattern, ascending."""
    rows = facts.slices(Kind.FRAMEWORK, Kind.ANNOTATION, steady=True)
    return rows[facts.trace.matches(facts.trace.slices.name[rows], pattern.fullmatch)]


def _updates_at_once(facts: Facts, calls: AnyRows) -> bool:
    """Whether operations on lists of parameters take part, in PyTorch or in a library."""
    names = [group.name for group in by_name(facts, calls)]
    return bool(len(_named(facts, _FUSED_STEP))) or any(_AT_ONCE.search(name) for name in names)


def _host_cost(facts: Facts, time: Intervals) -> int:
    """Time of the steps of optimizers, which compute on the host; in unprofiled steps if known.

    Where a thread lost its core in one of the few recorded steps, the others show the usual time.
    """
    measured = facts.derived(optimizer_time)
    if measured is not None:
        share = mean_within(facts, time) / max(measured.recorded_ns, 1)
        return round(min(share, 1.0) * measured.usual_ns)
    starts, ends = facts.steps.starts[facts.steps.steady], facts.steps.ends[facts.steps.steady]
    usual_ns = round(float(np.median(time.within(starts, ends)))) if len(starts) else 0
    scaled = on_scale(facts, min(mean_within(facts, time), usual_ns))
    return without_recording(facts, time, scaled)


def _device_cost(facts: Facts, time: Intervals) -> int:
    """Time in which devices wait for launches of optimizers, and of kernels that fusing saves."""
    sets = facts.partition.sets
    waiting = time & (sets["dispatch"] | sets["python"]) & idle(facts)
    launching = on_scale(facts, mean_within(facts, waiting), "dispatch", "python")
    return launching + on_scale(facts, _fusible_ns(facts), "compute")


def _fusible_ns(facts: Facts) -> int:
    """Time per step of the optimizers' kernels beyond those of the operation that takes longest.

    A fused kernel reads and writes each parameter and its state once, as the longest one may do.
    """
    kernels = steady_work(facts, Kind.KERNEL)
    kernels = kernels[facts.phases[kernels] == Phase.OPTIMIZER]
    calls = facts.launches.calls_of(kernels)
    known = calls != NULL
    ops = nearest_of(facts, calls[known], Kind.OP)
    kernels, ops = kernels[known][ops != NULL], ops[ops != NULL]
    if not len(kernels):
        return 0
    times = np.bincount(facts.trace.slices.name[ops], facts.trace.slices.dur_ns[kernels])
    return facts.mean_ns(float(times.sum() - times.max()))
