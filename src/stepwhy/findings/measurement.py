"""The contracts of repeated measurements: of one program (`bench`), and of two (`compare`)."""

from __future__ import annotations

from typing import Literal

import msgspec

BENCH_SCHEMA = "stepwhy.bench/1"
COMPARE_SCHEMA = "stepwhy.compare/1"
LAB_SCHEMA = "stepwhy.lab/2"

ComparisonVerdict = Literal["faster", "slower", "same", "cannot tell"]


class RunSummary(msgspec.Struct, frozen=True):
    """One run of a measured program.

    Args:
        path: Where it was recorded.
        steps: Steady steps that were timed without a profiler.
        warm_up: Steps before them that were left out.
        median_ns: Their median wall time.
        mean_ns: Their mean wall time, which rare long steps raise.
        background_cores: Cores that other programs kept busy meanwhile; null when unknown.
        void: Why the run does not count, '' when it does.
    """

    path: str
    steps: int
    warm_up: int
    median_ns: int
    mean_ns: int
    background_cores: float | None = None
    void: str = ""


class Measurement(msgspec.Struct, frozen=True):
    """A program that was run several times, with nothing else changed.

    Args:
        label: What the person called it.
        command: The command, redacted; '' for foreign traces.
        runs: Every run, also those that do not count, in the order they were made.
        step_ns: Median over the runs that count of each one's median step.
        low_ns: Lower end of its interval.
        high_ns: Upper end.
        level: Confidence of the interval.
        mean_ns: Mean step over all steady steps of the runs that count.
        batch_size: Examples per step; null when nobody said.
        breakdown: Mean categories of the step over the runs that count, in ns.
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


class BenchResult(msgspec.Struct, frozen=True):
    """What `stepwhy bench --json` prints.

    Args:
        measurement: The program's.
        quiet: Whether enough runs were made while the machine did little else; null when unknown.
        sentence: The result in one sentence.
        notes: What a reader should know.
    """

    measurement: Measurement
    quiet: bool | None
    sentence: str
    notes: tuple[str, ...] = ()
    schema: str = BENCH_SCHEMA
    stepwhy: str = ""


class CategoryDifference(msgspec.Struct, frozen=True):
    """How one category of the breakdown differs.

    Args:
        category: The category.
        a_ns: Mean per step in A.
        b_ns: Mean per step in B.
        difference_ns: B minus A.
        low_ns: Lower end of the difference's interval; null with a single run each.
        high_ns: Upper end.
        sure: Whether the interval leaves out zero.
    """

    category: str
    a_ns: int
    b_ns: int
    difference_ns: int
    low_ns: int | None = None
    high_ns: int | None = None
    sure: bool = False


class OpDifference(msgspec.Struct, frozen=True):
    """An op that only one side has, or whose time differs.

    Args:
        name: The op.
        change: 'added' in B, 'removed' in B, or 'changed'.
        a_ns: Self time per step in A; null where it does not run.
        b_ns: In B.
        difference_ns: B minus A; an op that does not run counts as 0 here.
    """

    name: str
    change: Literal["added", "removed", "changed"]
    a_ns: int | None
    b_ns: int | None
    difference_ns: int


class Comparison(msgspec.Struct, frozen=True):
    """What `stepwhy compare --json` prints; all changes are of B against A.

    Args:
        a: The first program.
        b: The second one.
        verdict: On B.
        sentence: The verdict in one sentence.
        change: Relative change of the step time; 0.1 is 10 % slower.
        low: Lower end of its interval; null when there are too few runs for one.
        high: Upper end.
        level: Confidence of the interval.
        margin: The largest change that is called the same.
        detectable: Smallest change found in 80 of 100 such comparisons; null like `low`.
        pairs: Pairs of runs that count.
        quiet: Whether the machine did little else; null when unknown.
        categories: Where the difference lies.
        ops: Ops added, removed or changed, the largest difference first.
        notes: What a reader should know.
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
    schema: str = COMPARE_SCHEMA
    stepwhy: str = ""


class LabResult(msgspec.Struct, frozen=True):
    """What one pair of the lab showed: a program with a planted fault, and its healthy twin.

    Args:
        name: Of the pair.
        title: What it is about.
        diagnosis: Id of the planted fault's diagnosis.
        faulty_runs: Runs of the faulty program that count.
        found_first: In how many of them the planted diagnosis was the first finding.
        fixed_runs: Runs of the fixed program that count.
        false_alarms: In how many of them it was found.
        other_first: What was found first instead, in other faulty runs.
        predicted_low_ns: Lower end of the saving per step that the findings predict (median over
            the runs); null when none predicts one.
        predicted_high_ns: Upper end.
        edit: What the prediction is of.
        measured_ns: Step time of the faulty program less that of the fixed one.
        measured_low_ns: Lower end of its interval; null with a single pair.
        measured_high_ns: Upper end.
        passed: Found first in more than half of the faulty runs, in no fixed one, and the machine
            was quiet; null when it was not.
        comparison: The two programs' step times, the faulty one as A.
        date: Day of the measurement, ISO 8601.
        versions: Of Python and of the framework.
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
