"""One run of a program as a sample of its step time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.errors import MeasurementError
from stepwhy.findings import RunSummary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.findings import Finding, Result

# Cores that other programs keep busy. Half a core of two moved a measured ratio from 1.41 to 1.03.
# A desktop or the sampling itself uses a tenth.
MOST_BACKGROUND_CORES = 0.25


class Sample(msgspec.Struct, frozen=True):
    """Measurements of one run.

    Args:
        summary: Summary for reports.
        durations_ns: Durations of its steady unprofiled steps, in ns.
        breakdown: Mean categories of its step, in ns.
        ops: Self time per step by op, in ns, over all devices.
        command: The command, redacted; '' for a trace of another profiler.
        findings: Its findings.
        framework: Framework and version, such as 'tensorflow 2.21.0'; '' if unknown.
    """

    summary: RunSummary
    durations_ns: NDArray[np.int64]
    breakdown: dict[str, int]
    ops: dict[str, int]
    command: str
    findings: tuple[Finding, ...] = ()
    framework: str = ""

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
    background = result.host.background_cores if result.host is not None else None
    summary = RunSummary(
        path=path,
        steps=len(durations),
        warm_up=steps.warm_up,
        median_ns=round(float(np.median(durations))),
        mean_ns=round(float(durations.mean())),
        background_cores=background,
        void="" if allow_busy else _void(background),
    )
    categories = dict(result.breakdown.categories)
    run = result.run
    framework = f"{run.framework} {run.framework_version}".strip()
    return Sample(
        summary, durations, categories, _ops(result), run.command, result.findings, framework
    )


def _void(background: float | None) -> str:
    """Why a run is not valid; '' if it is, or if unknown."""
    if background is None or background <= MOST_BACKGROUND_CORES:
        return ""
    return f"other programs kept {background:.1f} cores busy"


def _ops(result: Result) -> dict[str, int]:
    sums: defaultdict[str, int] = defaultdict(int)
    for op in result.ops:
        sums[op.name] += op.self_ns
    return dict(sums)
