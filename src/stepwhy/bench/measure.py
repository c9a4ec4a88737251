"""Run programs repeatedly and interleaved; repeat runs that a busy machine disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.bench.sample import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.bench.sample import Sample
    from stepwhy.findings import Result

# Void runs are made again until this many times the wanted runs have been made.
_PATIENCE = 2


class Program(msgspec.Struct, frozen=True):
    """Something that can be run again and again.

    Args:
        label: What the person calls it.
        run: Makes one run and explains it: takes its number, from 0, and returns where it was
            recorded and its result.
    """

    label: str
    run: Callable[[int], tuple[str, Result]]


def order(pairs: int) -> list[tuple[int, int]]:
    """Order of the runs as (program 0 or 1, pair): A B, B A, A B, ...

    A drift that is linear in time falls on both programs alike.

    Args:
        pairs: How many pairs of runs.
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
        program: What to run.
        repeats: How many runs shall count.
        allow_busy: Whether runs count while other programs keep the machine busy.
        progress: Called before each run with (label, counting runs so far, runs wanted).

    Returns:
        Every run in order; fewer than `repeats` count when the machine would not be quiet.
    """
    samples: list[Sample] = []
    while (good := sum(s.counts for s in samples)) < repeats:
        if len(samples) >= _PATIENCE * repeats:
            break
        if progress:
            progress(program.label, good, repeats)
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
    """Run two programs in turns; a pair counts when both of its runs do.

    Args:
        programs: The two.
        pairs: How many pairs shall count.
        allow_busy: Whether runs count while other programs keep the machine busy.
        progress: Called before each run with (label, counting pairs so far, pairs wanted).

    Returns:
        The runs of each, pair by pair.
    """
    made: tuple[list[Sample], list[Sample]] = ([], [])
    for side, pair in order(_PATIENCE * pairs):
        good = sum(a.counts and b.counts for a, b in zip(*made, strict=False))
        if good >= pairs:
            break
        if progress:
            progress(programs[side].label, good, pairs)
        path, result = programs[side].run(pair)
        made[side].append(sample(result, path, allow_busy=allow_busy))
    return made
