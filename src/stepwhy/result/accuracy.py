"""How well predictions fit: what was predicted for each pair of the lab, and what was measured."""

from __future__ import annotations

from statistics import fmean

import msgspec

from stepwhy.result.edits import Family  # noqa: TC001 - the schema reads it

ACCURACY_SCHEMA = "stepwhy.accuracy/1"


class PricingInputs(msgspec.Struct, frozen=True):
    """All that a prediction on CPUs, or of an input pipeline, depends on.

    Times are per mean steady step, in ns. None for what was not recorded.

    Args:
        step_ns: The step as it is.
        cost_ns: The part of it that disappears, moves beside the rest, or is replaced.
        family: Kind of edit.
        cores: Cores that the process may use.
        cpu_ns: CPU time of the job, all processes and threads together.
        run_delay_share: Share of its runnable time in which the process waited for a core.
        runnable_threads: Threads of the process that ran or waited for a core, on average.
        background_cores: Cores that other programs kept busy.
        compute_ns: Time in which operations run.
        floor_ns: The same if each operation took as long as in its shortest step.
        work_ns: Time of one process or thread in the work that moves beside the step.
        workers: Processes or threads that share this work.
        on_accelerator: Whether work of an accelerator was recorded.
        driver_delay_ns: Time in which the driving thread was ready to run, but had no core.
        children_cpu_ns: CPU time of the processes that the training started, such as workers.
        inflates_operations: Whether operations may have been longer because of the problem, in
            which case `floor_ns` is no lower bound.
        removes_operations: Whether all that disappears is operations.
    """

    step_ns: int
    cost_ns: int
    family: Family
    cores: int | None = None
    cpu_ns: int | None = None
    run_delay_share: float | None = None
    runnable_threads: float | None = None
    background_cores: float | None = None
    compute_ns: int | None = None
    floor_ns: int | None = None
    work_ns: int | None = None
    workers: int | None = None
    on_accelerator: bool = False
    driver_delay_ns: int | None = None
    children_cpu_ns: int | None = None
    inflates_operations: bool = True
    removes_operations: bool = False


class PairAccuracy(msgspec.Struct, frozen=True):
    """What was predicted for a fix, and what was measured when it was made.

    Args:
        name: Name of the pair of the lab.
        diagnosis: Id of the diagnosis of its fault.
        edit: The edit that the finding names, as text; '' for none.
        inputs: What the prediction depends on, median of the faulty runs; None without one.
        refusal: Why nothing was predicted; '' otherwise.
        remaining_ns: Predicted step of the fixed program, leaving this pair out of the calibration.
        low_ns, high_ns: Its interval.
        naive_ns: The step minus the cost.
        faulty_steps_ns, fixed_steps_ns: Measured step of each run, as in its report; valid pairs
            of runs only.
        fixed_reach_ns: Half of the width of the 95 % interval of the mean of the latter.
        gain_ns: Measured gain per step.
        gain_low_ns, gain_high_ns: Its 95 % interval; None with a single pair of runs.
        quiet: Whether the machine did little else; None if unknown.
        repeats: Pairs of runs.
        faulty_runs, found_first: Valid runs of the faulty program, and in how many of them the
            diagnosis was the first finding.
        fixed_runs, false_alarms: Valid runs of the fixed program, and in how many of them the
            diagnosis found the fault.
        machine: Processor and number of cores.
        versions: Versions of Python and of the framework.
        stepwhy: Version of stepwhy.
        date: Day of the measurement, ISO 8601.
        size: Size of the programs.
        error: Why the programs could not be measured; '' if they were.
    """

    name: str
    diagnosis: str
    edit: str = ""
    inputs: PricingInputs | None = None
    refusal: str = ""
    remaining_ns: int | None = None
    low_ns: int | None = None
    high_ns: int | None = None
    naive_ns: int | None = None
    faulty_steps_ns: tuple[int, ...] = ()
    fixed_steps_ns: tuple[int, ...] = ()
    fixed_reach_ns: int | None = None
    gain_ns: int = 0
    gain_low_ns: int | None = None
    gain_high_ns: int | None = None
    quiet: bool | None = None
    repeats: int = 0
    faulty_runs: int = 0
    found_first: int = 0
    fixed_runs: int = 0
    false_alarms: int = 0
    machine: str = ""
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    stepwhy: str = ""
    date: str = ""
    size: str = "small"
    error: str = ""

    @property
    def step_ns(self) -> int:
        """The step before the fix, from which the prediction starts; else as measured."""
        if self.inputs is not None:
            return self.inputs.step_ns
        return round(fmean(self.faulty_steps_ns)) if self.faulty_steps_ns else 0

    @property
    def _gain_reach_ns(self) -> float | None:
        if self.gain_low_ns is None or self.gain_high_ns is None:
            return None
        return (self.gain_high_ns - self.gain_low_ns) / 2

    @property
    def noise(self) -> float | None:
        """Half of the width of the measured step's interval, as a share of the step before.

        Of the mean of the fixed program's runs, or of the difference of neighbouring runs,
        whichever is more certain; None if neither is known.
        """
        known = [ns for ns in (self.fixed_reach_ns, self._gain_reach_ns) if ns is not None]
        return min(known) / self.step_ns if known and self.step_ns else None

    @property
    def counts(self) -> bool:
        """Whether it was predicted, and measured well enough to calibrate predictions with."""
        quiet = self.quiet is not False and self.noise is not None and self.noise <= MOST_NOISE
        return quiet and self.inputs is not None and not self.error

    @property
    def is_inside(self) -> bool | None:
        """Whether the predicted interval held the measured step; None without both."""
        if self.low_ns is None or self.high_ns is None or self.error:
            return None
        return self.low_ns <= self.measured_ns <= self.high_ns

    @property
    def measured_ns(self) -> int:
        """The step after the fix: measured itself, or by the gain if that is more certain."""
        of_gain = self._gain_reach_ns
        if self.fixed_steps_ns and (of_gain is None or (self.fixed_reach_ns or 0) <= of_gain):
            return round(fmean(self.fixed_steps_ns))
        return max(self.step_ns - self.gain_ns, 1)


MOST_NOISE = 0.05
"""Share of the step; the gain of a pair whose interval is wider on each side is too uncertain."""


class Accuracy(msgspec.Struct, frozen=True):
    """The record of predictions, sorted by the name of the pair."""

    pairs: tuple[PairAccuracy, ...]
    schema: str = ACCURACY_SCHEMA
