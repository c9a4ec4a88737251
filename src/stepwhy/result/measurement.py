"""Results of repeated measurements of one program (`bench`) and of two (`compare`, `lab`)."""

from __future__ import annotations

from typing import Literal

import msgspec

BENCH_FILE = "bench.json"
"""File in which `stepwhy bench` lists the runs of its folder."""

BENCH_SCHEMA = "stepwhy.bench/1"
COMPARE_SCHEMA = "stepwhy.compare/1"
LAB_SCHEMA = "stepwhy.lab/2"
GRADE_SCHEMA = "stepwhy.grade/1"

ComparisonVerdict = Literal["faster", "slower", "same", "cannot tell"]


class Machine(msgspec.Struct, frozen=True):
    """Fingerprint of the environment of a run: what must be alike for step times to compare.

    Args:
        cores: Cores of the machine; null if unknown.
        devices: Models of its accelerators; [] if unknown.
        framework: Framework and version, such as 'tensorflow 2.21.0'; '' if unknown.
        python: Version of Python; '' if unknown.
        cpu: Model of the processor; '' if unknown.
    """

    cores: int | None = None
    devices: tuple[str, ...] = ()
    framework: str = ""
    python: str = ""
    cpu: str = ""


class RunSummary(msgspec.Struct, frozen=True):
    """One run of a measured program.

    Args:
        path: Its run directory or trace.
        steps: Number of steady steps that were timed without a profiler.
        warm_up: Number of steps before them that were left out.
        median_ns: Step time of its report: the median of the steady steps, plus the mean time of
            what only some of them do, such as compiling or saving.
        mean_ns: Mean wall time of the steady steps, which a few long steps can raise.
        background_cores: Cores that other programs kept busy during the run; null if unknown.
        void: Why the run is not valid; '' if it is.
    """

    path: str
    steps: int
    warm_up: int
    median_ns: int
    mean_ns: int
    background_cores: float | None = None
    void: str = ""


class Measurement(msgspec.Struct, frozen=True):
    """Several runs of one program under the same conditions.

    Args:
        label: Name that the user gave it.
        command: The command, redacted; '' for traces of other profilers.
        runs: All runs, valid or not, in chronological order.
        step_ns: Median, over the valid runs, of their step times.
        low_ns: Lower end of its confidence interval.
        high_ns: Upper end of it.
        level: Confidence level of the interval, 0..1.
        mean_ns: Mean of all steady steps of the valid runs.
        batch_size: Examples per step; null if the user did not give it.
        breakdown: Mean time per step of each category over the valid runs, in ns.
        machines: The environments of its runs, each once.
    """

    label: str
    command: str
    runs: tuple[RunSummary, ...]
    step_ns: int
    low_ns: int
    high_ns: int
    level: float
    mean_ns: int
    batch_size: int | None = None
    breakdown: dict[str, int] = msgspec.field(default_factory=dict)
    machines: tuple[Machine, ...] = ()


class BenchResult(msgspec.Struct, frozen=True):
    """Output of `stepwhy bench --json`.

    Args:
        measurement: The runs of the program.
        quiet: Whether enough runs were made while the machine did little else; null if unknown.
        sentence: The result in one sentence.
        notes: Remarks for the reader.
    """

    measurement: Measurement
    quiet: bool | None
    sentence: str
    notes: tuple[str, ...] = ()
    schema: str = BENCH_SCHEMA
    stepwhy: str = ""


class CategoryDifference(msgspec.Struct, frozen=True):
    """Difference of one category of the breakdown.

    Args:
        category: The category.
        a_ns: Mean per step in A.
        b_ns: Mean per step in B.
        difference_ns: B minus A.
        low_ns: Lower end of its confidence interval; null with a single run each.
        high_ns: Upper end of it.
        sure: Whether the interval excludes zero.
    """

    category: str
    a_ns: int
    b_ns: int
    difference_ns: int
    low_ns: int | None = None
    high_ns: int | None = None
    sure: bool = False


class OpDifference(msgspec.Struct, frozen=True):
    """An op that only one of two programs has, or whose time differs.

    Args:
        name: The op.
        change: 'added' in B, 'removed' in B, or 'changed'.
        a_ns: Self time per step in A; null if it does not run there.
        b_ns: Self time per step in B; null if it does not run there.
        difference_ns: B minus A, where null counts as 0.
    """

    name: str
    change: Literal["added", "removed", "changed"]
    a_ns: int | None
    b_ns: int | None
    difference_ns: int


class Comparison(msgspec.Struct, frozen=True):
    """Output of `stepwhy compare --json`; all changes are of B relative to A.

    Args:
        a: The first program.
        b: The second one.
        verdict: Whether B is faster or slower.
        sentence: The verdict in one sentence.
        change: Relative change of the step time; 0.1 is 10 % slower.
        low: Lower end of its confidence interval; null with too few steps. If the runs did not
            alternate, or there is one of a program, it allows for the usual change of a machine
            between runs (at least 16 %), which some machines exceed.
        high: Upper end of it.
        level: Confidence level of the interval, 0..1.
        margin: Largest change that counts as the same.
        detectable: Smallest change that 80 of 100 such comparisons detect; null with a single pair.
        pairs: Number of pairs of runs that count.
        quiet: Whether the machine did little else; null if unknown.
        categories: Difference of each category of the breakdown.
        ops: Ops added, removed or changed, largest difference first.
        notes: Remarks for the reader.
        certain: Differences that no noise can explain, such as an operation that is gone.
        comparable: False if stored runs were made in unlike environments: then the change is not
            one of the program alone.
    """

    a: Measurement
    b: Measurement
    verdict: ComparisonVerdict
    sentence: str
    change: float
    low: float | None
    high: float | None
    level: float
    margin: float
    detectable: float | None
    pairs: int
    quiet: bool | None
    categories: tuple[CategoryDifference, ...] = ()
    ops: tuple[OpDifference, ...] = ()
    notes: tuple[str, ...] = ()
    certain: tuple[str, ...] = ()
    comparable: bool = True
    schema: str = COMPARE_SCHEMA
    stepwhy: str = ""


class LabResult(msgspec.Struct, frozen=True):
    """Result of one pair of the lab: a program with a planted fault and its fixed twin.

    Args:
        name: Name of the pair.
        title: Title of the pair.
        diagnosis: Id of the diagnosis that should find the fault.
        faulty_runs: Number of valid runs of the faulty program.
        found_first: Number of them in which this diagnosis was the first finding.
        fixed_runs: Number of valid runs of the fixed program.
        false_alarms: Number of them in which the diagnosis found the fault.
        other_first: Ids of other diagnoses that were the first finding of faulty runs.
        predicted_low_ns: Lower end of the predicted saving per step, median over the faulty runs;
            null if none is predicted.
        predicted_high_ns: Upper end of it.
        edit: The edit that the prediction is for.
        measured_ns: Step time of the faulty program minus that of the fixed one, both as in their
            reports.
        measured_low_ns: Lower end of its confidence interval; null with a single pair of runs.
        measured_high_ns: Upper end of it.
        passed: Whether the fault was found first in more than half of the faulty runs and in no
            fixed one; null if the machine was not quiet.
        comparison: Step times of the two programs, with the faulty one as A.
        date: Day of the measurement, ISO 8601.
        versions: Versions of Python and of the framework.
    """

    name: str
    title: str
    diagnosis: str
    faulty_runs: int
    found_first: int
    fixed_runs: int
    false_alarms: int
    other_first: tuple[str, ...]
    predicted_low_ns: int | None
    predicted_high_ns: int | None
    edit: str
    measured_ns: int
    measured_low_ns: int | None
    measured_high_ns: int | None
    passed: bool | None
    comparison: Comparison
    date: str = ""
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    schema: str = LAB_SCHEMA
    stepwhy: str = ""


class GradedPair(msgspec.Struct, frozen=True):
    """What stepwhy reported about one pair of the lab.

    Args:
        name: Name of the pair.
        diagnosis: Id of the diagnosis that should find the fault.
        faulty_runs: Number of runs of the faulty program that were explained.
        found: Number of them in which the diagnosis found the fault.
        found_first: Number of them in which this was the first finding.
        other_first: Ids of other diagnoses that were the first finding of faulty runs.
        fixed_runs: Number of runs of the fixed program that were explained.
        false_alarms: Number of them in which the diagnosis found the fault.
        also_in_fixed: Ids of other diagnoses that found something in fixed runs.
        abstained: Number of all runs without a verdict.
        unexplained: Largest unexplained share of the step of all runs, 0..1; null without a run.
        busy: Number of all runs during which other programs kept the machine busy.
        error: Why a program could not be run or explained; '' if all could.
        date: Day of the runs, ISO 8601.
        framework: Framework and version.
        contradictions: Statements of one report that contradict each other, as sentences.
    """

    name: str
    diagnosis: str
    faulty_runs: int
    found: int
    found_first: int
    other_first: tuple[str, ...]
    fixed_runs: int
    false_alarms: int
    also_in_fixed: tuple[str, ...]
    abstained: int
    unexplained: float | None
    busy: int
    error: str = ""
    date: str = ""
    framework: str = ""
    contradictions: tuple[str, ...] = ()


class Grade(msgspec.Struct, frozen=True):
    """What stepwhy reported about the pairs of the lab, sorted by name.

    Args:
        pairs: The pairs.
        python: Version of Python of the last run.
        stepwhy: Version of stepwhy.
    """

    pairs: tuple[GradedPair, ...]
    python: str = ""
    schema: str = GRADE_SCHEMA
    stepwhy: str = ""
