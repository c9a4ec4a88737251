"""What the GPU lab showed on a machine."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepwhy.findings.measurement import GradedPair  # noqa: TC001 - msgspec reads it

GPU_GRADE_SCHEMA = "stepwhy.gpu-grade/1"


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


class LivePoint(msgspec.Struct, frozen=True):
    """What observing a training on a GPU does or does not do.

    Args:
        point: Its name.
        about: What should be true.
        answer: 'ok', 'broken' or 'cannot tell'.
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


class GpuGrade(msgspec.Struct, frozen=True):
    """What a session of the GPU lab showed.

    Args:
        pairs: The pairs, sorted by name.
        points: The live points.
        overhead: What observing costs.
        card: Model of the GPU; '' without one.
        driver: Version of its driver.
        versions: Frameworks and their versions.
        python: Version of Python.
        date: Day of the session, ISO 8601.
        tiny: Whether the programs ran in their smallest size, which shows only that they work.
        stepwhy: Version of stepwhy that graded.
    """

    pairs: tuple[GpuPair, ...]
    points: tuple[LivePoint, ...] = ()
    overhead: tuple[Overhead, ...] = ()
    card: str = ""
    driver: str = ""
    versions: tuple[str, ...] = ()
    python: str = ""
    date: str = ""
    tiny: bool = False
    schema: str = GPU_GRADE_SCHEMA
    stepwhy: str = ""


__all__ = ["GPU_GRADE_SCHEMA", "GpuGrade", "GpuPair", "LivePoint", "Overhead"]
