"""One run of a program as a sample of its step time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.errors import MeasurementError
from stepwhy.result import Machine, RunSummary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stepwhy.result import Finding, Result

# Cores that other programs keep busy. Half a core of two moved a measured ratio from 1.41 to 1.03.
# A desktop or the sampling itself uses a tenth.
MOST_BACKGROUND_CORES = 0.25


# Largest number of rows that an op table has per device.
_TABLE_ROWS = 100


class Sample(msgspec.Struct, frozen=True):
    """Measurements of one run.

    Args:
        summary: Summary for reports.
        durations_ns: Durations of its steady unprofiled steps, in ns. Each holds its share of what
            only some of them do, so that their median is the step time of the report.
        breakdown: Mean categories of its step, in ns.
        ops: Self time per step by op, in ns, over all devices.
        command: The command, redacted; '' for a trace of another profiler.
        findings: Its findings.
        framework: Framework and version, such as 'tensorflow 2.21.0'; '' if unknown.
        calls: Calls per step by op, over all devices.
        longest: Self time per step of the longest row of each op, in ns; an op has a row per device
            and phase.
        cut_ns: Rows up to this self time per step may be missing from the op table; 0 if it is
            complete.
        kernels: Kernels and copies per step on accelerators; None if none is recorded, or if the
            table of them may be incomplete.
        machine: Where it was made.
    """

    summary: RunSummary
    durations_ns: NDArray[np.int64]
    breakdown: dict[str, int]
    ops: dict[str, int]
    command: str
    findings: tuple[Finding, ...] = ()
    framework: str = ""
    calls: dict[str, float] = msgspec.field(default_factory=dict)
    longest: dict[str, int] = msgspec.field(default_factory=dict)
    cut_ns: int = 0
    kernels: float | None = None
    machine: Machine = Machine()

    @property
    def is_valid(self) -> bool:
        """Whether the run is valid."""
        return not self.summary.void


def sample(result: Result, path: str, *, allow_busy: bool = False) -> Sample:
    """The sample of an explained run.

    Args:
        result: Result of the run.
        path: Path of the recorded run.
        allow_busy: Whether it is valid although other programs kept the machine busy.

    Raises:
        MeasurementError: If it has no steady step.
    """
    steps = result.steps
    durations = np.asarray(steps.durations_ns[steps.warm_up :], dtype=np.int64)
    if not len(durations):
        raise MeasurementError(
            f"{path} has no steady step to measure", "Measure a program that runs more steps"
        )
    mean_ns = round(float(durations.mean()))
    durations = _with_rare_work(durations, result)
    background = result.host.background_cores if result.host is not None else None
    summary = RunSummary(
        path=path,
        steps=len(durations),
        warm_up=steps.warm_up,
        median_ns=round(float(np.median(durations))),
        mean_ns=mean_ns,
        background_cores=background,
        void="" if allow_busy else _void(background),
    )
    run = result.run
    framework = f"{run.framework} {run.framework_version}".strip()
    cut_ns = _cut_ns(result)
    return Sample(
        summary=summary,
        durations_ns=durations,
        breakdown=dict(result.breakdown.categories),
        ops={n: round(ns) for n, ns in _sums((op.name, op.self_ns) for op in result.ops).items()},
        command=run.command,
        findings=result.findings,
        framework=framework,
        calls=_sums((op.name, op.count) for op in result.ops),
        longest={op.name: op.self_ns for op in sorted(result.ops, key=lambda op: op.self_ns)},
        cut_ns=cut_ns or 0,
        kernels=_kernels(result) if cut_ns is None else None,
        machine=_machine(result, framework),
    )


def _with_rare_work(durations: NDArray[np.int64], result: Result) -> NDArray[np.int64]:
    """Durations of steps, moved so that their median is the step time of the report.

    That is the median of usual steps, plus the mean time of compilations, checkpoints and other
    work of some steps.
    """
    if not result.run.command:
        return durations
    shift = result.breakdown.wall_ns - round(float(np.median(durations)))
    return np.maximum(durations + shift, 1)


def _void(background: float | None) -> str:
    """Why a run is not valid; '' if it is, or if unknown."""
    if background is None or background <= MOST_BACKGROUND_CORES:
        return ""
    return f"other programs kept {background:.1f} cores busy"


def _cut_ns(result: Result) -> int | None:
    """Shortest row of the full op tables, the largest of all devices; None if none is full."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for op in result.ops:
        rows[op.device].append(op.self_ns)
    return max((min(own) for own in rows.values() if len(own) >= _TABLE_ROWS), default=None)


def _sums(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for name, value in rows:
        sums[name] += value
    return dict(sums)


def _kernels(result: Result) -> float | None:
    """Kernels and copies per step on accelerators; None without any."""
    accelerators = {device.name for device in result.devices if device.kind != "cpu"}
    counts = [op.count for op in result.ops if op.device in accelerators]
    return sum(counts) if counts else None


def _machine(result: Result, framework: str) -> Machine:
    host = result.host
    cores, gpus = (host.cores, host.gpus) if host is not None else (None, ())
    # A run without a traced step has no devices, but the driver names the GPUs that it had open.
    models = {device.model for device in result.devices} or {gpu.model for gpu in gpus}
    devices = tuple(sorted(models - {""}))
    return Machine(cores, devices, framework, result.run.python, result.run.cpu)
