"""What stepwhy reported about programs whose authors did not know its diagnoses."""

from __future__ import annotations

from typing import Literal

import msgspec

# stepwhy.world-grade/1: first version.
WORLD_GRADE_SCHEMA = "stepwhy.world-grade/1"

Half = Literal["tune", "locked"]


class GradedProgram(msgspec.Struct, frozen=True):
    """What stepwhy reported about one program of `lab/world`.

    A healthy program has no slow version: fields about that are null, and `causes` is empty.

    Args:
        name: Name of the program.
        half: 'tune': diagnoses may be improved with it; 'locked': only graded.
        healthy: Whether its author regards it as free of problems.
        causes: Ids of the diagnoses that name its mistake; () if none does.
        found: Ids found in the slow version, most important first; null if it did not run.
        place: Place of the first right cause among them, from 1; null if none is there.
        right_line: Whether one of the first two findings names a line where the time goes.
        gain: Measured gain of the fix, as a share of the slow step; null if not measured.
        predicted: Interval of the gain that the right cause predicts, as shares of the slow step;
            null without a prediction.
        alarms: Ids found in the fixed or healthy version that cost 5 % of its step or more, except
            those in `proved`; null if it did not run.
        abstained: Number of runs without a verdict.
        busy: Number of runs during which other programs kept the machine busy.
        error: Why a version could not be run or explained; '' if all could.
        date: Day of the runs, ISO 8601.
        framework: Framework and version.
        proved: Such ids whose advice was measured to make that version faster, so that they are
            no false alarms.
    """

    name: str
    half: Half
    healthy: bool
    causes: tuple[str, ...]
    found: tuple[str, ...] | None
    place: int | None
    right_line: bool | None
    gain: float | None
    predicted: tuple[float, float] | None
    alarms: tuple[str, ...] | None
    abstained: int
    busy: int
    error: str = ""
    date: str = ""
    framework: str = ""
    proved: tuple[str, ...] = ()

    @property
    def within(self) -> bool | None:
        """Whether the measured gain is inside the predicted interval; None without either."""
        if self.gain is None or self.predicted is None:
            return None
        return self.predicted[0] <= self.gain <= self.predicted[1]


class WorldGrade(msgspec.Struct, frozen=True):
    """What stepwhy reported about the programs of `lab/world`, sorted by name.

    Args:
        programs: The programs.
        python: Version of Python of the last run.
        stepwhy: Version of stepwhy.
    """

    programs: tuple[GradedProgram, ...]
    python: str = ""
    schema: str = WORLD_GRADE_SCHEMA
    stepwhy: str = ""
