"""Run programs repeatedly and alternately; repeat runs made while the machine was busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.measure.sample import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.measure.sample import Sample
    from stepwhy.result import Result

# Invalid runs are repeated, up to this many times the requested number of runs.
_PATIENCE = 2


class Program(msgspec.Struct, frozen=True):
    """A program that can be run repeatedly.

    Args:
        label: Its name in reports.
        run: Runs and explains it: from the number of the run, from 0, to the path of the
            recorded run and its result.
    """

    label: str
    run: Callable[[int], tuple[str, Result]]


def order(pairs: int) -> list[tuple[int, int]]:
    """Order of the runs as (program 0 or 1, pair): A B, B A, A B, ...

    A linear drift over time affects both programs equally.

    Args:
        pairs: Number of pairs of runs.
    """
    return [(side, n) for n in range(pairs) for side in ((0, 1) if n % 2 == 0 else (1, 0))]


def measure(
    program: Program,
    repeats: int,
    *,
    allow_busy: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Sample]:
    """Run one program several times.

    Args:
        program: Program to run.
        repeats: Number of valid runs to make.
        allow_busy: Whether runs are valid while other programs keep the machine busy.
        progress: Called before each run with (label, valid runs so far, requested runs).

    Returns:
        All runs in order; fewer than `repeats` are valid if the machine stayed busy.
    """
    samples: list[Sample] = []
    while (valid := sum(s.is_valid for s in samples)) < repeats:
        if len(samples) >= _PATIENCE * repeats:
            break
        if progress:
            progress(program.label, valid, repeats)
        path, result = program.run(len(samples))
        samples.append(sample(result, path, allow_busy=allow_busy))
    return samples


def measure_pairs(
    programs: Sequence[Program],
    pairs: int,
    *,
    allow_busy: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[list[Sample], list[Sample]]:
    """Run two programs alternately; a pair is valid if both of its runs are.

    Args:
        programs: The two programs.
        pairs: Number of valid pairs to make.
        allow_busy: Whether runs are valid while other programs keep the machine busy.
        progress: Called before each run with (label, valid pairs so far, requested pairs).

    Returns:
        The runs of each program, pair by pair.
    """
    made: tuple[list[Sample], list[Sample]] = ([], [])
    for side, pair in order(_PATIENCE * pairs):
        valid = sum(a.is_valid and b.is_valid for a, b in zip(*made, strict=False))
        if valid >= pairs:
            break
        if progress:
            progress(programs[side].label, valid, pairs)
        path, result = programs[side].run(pair)
        made[side].append(sample(result, path, allow_busy=allow_busy))
    return made
