"""What the GPU lab showed on a machine."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepwhy.result.measurement import GradedPair  # noqa: TC001 - msgspec reads it

GPU_GRADE_SCHEMA = "stepwhy.gpu-grade/1"
# Whether memory is free says nothing about the time of a step.
_WITHOUT_COST = frozenset({"memory-headroom"})


class GpuPair(msgspec.Struct, frozen=True):
    """One pair of programs on a GPU.

    Args:
        graded: What was reported about it.
        faulty_ns: Step of the faulty program by its own clock; null if it was not measured.
        fixed_ns: The same of the fixed one.
        predicted_low_ns: Lower end of the predicted saving per step; null if none was predicted.
        predicted_high_ns: Its upper end.
        gain_ns: Measured gain per step; null if a program was not measured.
        gain_low_ns: Lower end of its 95 % interval.
        gain_high_ns: Its upper end.
        kept: Whether the gain is within the prediction: 'yes', 'no', or 'overlap' if only a part of
            its interval is; '' if one of them is missing.
        planned_share: Share of the fault in the step that was computed for this card; null if it
            was not.
        clocks_mhz: Median clock of the GPU during the faulty and during the fixed program; null if
            one of them was not sampled.
    """

    graded: GradedPair
    faulty_ns: int | None = None
    fixed_ns: int | None = None
    predicted_low_ns: int | None = None
    predicted_high_ns: int | None = None
    gain_ns: int | None = None
    gain_low_ns: int | None = None
    gain_high_ns: int | None = None
    kept: Literal["yes", "overlap", "no", ""] = ""
    planned_share: float | None = None
    clocks_mhz: tuple[float, float] | None = None

    @property
    def is_first(self) -> bool:
        """Whether the planted fault is the first finding in most runs."""
        return 2 * self.graded.found_first > self.graded.faulty_runs

    @property
    def has_alarm(self) -> bool:
        """Whether a fault was reported where there is none."""
        if self.graded.diagnosis:
            return self.graded.false_alarms > 0
        return bool(set(self.graded.other_first) - _WITHOUT_COST)


class LivePoint(msgspec.Struct, frozen=True):
    """What observing a training on a GPU does or does not do.

    Args:
        point: Its name.
        about: What should be true.
        answer: 'passed', 'failed' or 'cannot tell'.
        evidence: What the answer rests on.
    """

    point: str
    about: str
    answer: str
    evidence: str


class Overhead(msgspec.Struct, frozen=True):
    """Steps of a program with and without stepwhy.

    Args:
        program: Its name.
        alone_ns: Median step alone.
        observed_ns: Median step under `stepwhy run`, after its window.
        runs: Number of runs of each.
    """

    program: str
    alone_ns: int
    observed_ns: int
    runs: int


class Bound(msgspec.Struct, frozen=True):
    """What a session on a GPU should show at least.

    Args:
        bound: What is asked for.
        measured: What was measured; what is missing if it was not.
        answer: Whether it is met.
    """

    bound: str
    measured: str
    answer: Literal["met", "not met", "not measured"]


class GpuClocks(msgspec.Struct, frozen=True):
    """The state of the GPU during the measurements.

    Args:
        samples: Number of samples.
        low_mhz: Lowest median clock of a measurement; null if unknown, as the others.
        high_mhz: Highest median clock of one.
        power_w: Highest power.
        temperature_c: Highest temperature.
        reasons: Why clocks were reduced, each with the names of the measurements concerned.
        missing: Why nothing, or not everything, was sampled.
    """

    samples: int = 0
    low_mhz: float | None = None
    high_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reasons: dict[str, tuple[str, ...]] = {}
    missing: str = ""


class GpuGrade(msgspec.Struct, frozen=True):
    """What a session of the GPU lab showed.

    Args:
        pairs: The pairs, sorted by name.
        points: The live points.
        overhead: What observing costs.
        bounds: What a session should show, and whether it did.
        clocks: The state of the GPU during the measurements.
        left_out: Results that are not part of this, or only in part, with the reason.
        card: Model of the GPU; '' without one.
        driver: Version of its driver.
        versions: Frameworks and their versions.
        python: Version of Python.
        date: Day of the session, ISO 8601.
        tiny: Whether the programs ran in their smallest size, which shows only that they work.
        stepwhy: Version of stepwhy that graded.
        reach: Factor by which the highest predicted gains were widened, from earlier sessions.
    """

    pairs: tuple[GpuPair, ...]
    points: tuple[LivePoint, ...] = ()
    overhead: tuple[Overhead, ...] = ()
    bounds: tuple[Bound, ...] = ()
    clocks: GpuClocks = GpuClocks()
    left_out: tuple[str, ...] = ()
    card: str = ""
    driver: str = ""
    versions: tuple[str, ...] = ()
    python: str = ""
    date: str = ""
    tiny: bool = False
    schema: str = GPU_GRADE_SCHEMA
    stepwhy: str = ""
    reach: float = 1.0
