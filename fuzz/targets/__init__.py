"""What is damaged beside single traces: folders, names, and what servers answer.

A target has seeds, a way to damage them, and a judge of its own. It stands beside the formats:
`python fuzz/run.py --format names`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuzz.targets import names, remote_answers, run_directories, side_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from fuzz.formats import Files
    from fuzz.judge import Outcome


class Target(NamedTuple):
    """One kind of input.

    Args:
        seeds: Makes the valid inputs; always the same objects.
        damage: A damaged version of one; may change the one that it is given.
        judge: Makes what judges inputs, once per process.
    """

    seeds: Callable[[], tuple[Files, ...]]
    damage: Callable[[Files, Random], Files]
    judge: Callable[[], Callable[[Files, Path], Outcome]]


TARGETS: dict[str, Target] = {
    "side_files": Target(side_files.seeds, side_files.damage, side_files.FolderJudge),
    "run_directories": Target(
        run_directories.seeds, run_directories.damage, side_files.FolderJudge
    ),
    "names": Target(names.seeds, names.damage, names.OutputJudge),
    "remote_answers": Target(
        remote_answers.seeds, remote_answers.damage, remote_answers.AnswersJudge
    ),
}

__all__ = ["TARGETS", "Target"]
