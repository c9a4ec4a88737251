"""Run the pairs of the lab for `stepwhy lab grade`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.errors import StepwhyError
from stepwhy.cli.lab_pairs import programs_of
from stepwhy.measure import grade_pair
from stepwhy.result import Grade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from stepwhy.cli.lab_pairs import Pair
    from stepwhy.result import GradedPair, Result


def grades(
    pairs: Sequence[Pair],
    size: str,
    repeats: int,
    folder: Path,
    progress: Callable[[str, int, int], None] | None,
) -> Iterator[GradedPair]:
    """Run and grade pairs one after another.

    Args:
        pairs: The pairs.
        size: Size of their programs.
        repeats: Number of runs of each program.
        folder: Folder for the runs.
        progress: Called before each pair with (its name, pairs done, pairs in all).
    """
    for done, pair in enumerate(pairs):
        if progress:
            progress(pair.name, done, len(pairs))
        results: list[list[Result]] = [[], []]
        error = ""
        for side, program in enumerate(programs_of(pair, size, folder / pair.name)):
            try:
                results[side] += [program.run(number)[1] for number in range(repeats)]
            except StepwhyError as failure:
                error = failure.what
        day = datetime.now().astimezone().date()
        yield grade_pair(pair.name, pair.diagnosis, *results, day=day, error=error)


def stored(place: Path) -> tuple[GradedPair, ...]:
    """The grades that the lab holds; () for none."""
    if not place.is_file():
        return ()
    return msgspec.json.decode(place.read_bytes(), type=Grade).pairs
