"""Merge the parts of a run: in any order, one by one or already merged, with the same result."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from stepwhy.base.errors import SeveralRunsError
from stepwhy.engine.analysed import Analysed
from stepwhy.engine.opening import nothing_readable
from stepwhy.engine.rank_sets import given_twice, numbered, same_run, why_several, without_copies
from stepwhy.result.wording.notes import left_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepwhy.engine.rank_sets import OfRank
    from stepwhy.engine.reduction import Named, Part

    Found = Analysed | Named


class Parts:
    """The parts of a run that are known so far.

    Args:
        parts: Parts, in any order.
    """

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self._parts = {part.number: part for part in parts}

    def add(self, part: Part) -> None:
        """Add one part; adding it again changes nothing.

        Args:
            part: The part.
        """
        self._parts[part.number] = part

    def merge(self, other: Parts) -> None:
        """Add all parts that another one knows.

        Args:
            other: Parts of the same run.
        """
        self._parts |= other._parts

    def __len__(self) -> int:
        return len(self._parts)

    def ordered(self) -> list[Part]:
        """The parts in the order of the inputs."""
        return [self._parts[number] for number in sorted(self._parts)]

    def may_be_run(self) -> bool:
        """Whether the known parts may be ranks of one run; once they are not, none ever are."""
        found = [one for part in self.ordered() for one in part.ranks]
        ranks = without_copies(numbered(found)[0])[0]
        return len(ranks) <= 1 or same_run([one.meta for one in ranks])


def ranks_of_run(parts: Parts) -> tuple[list[Analysed], list[str]]:
    """All ranks of a run, each once, by number, and notes on what was left out.

    Args:
        parts: All parts of the run.

    Raises:
        InputError: No file could be read; the reason, if there is only one file.
        SeveralRunsError: They are no ranks of one run.
    """
    ordered = parts.ordered()
    errors = [part.error for part in ordered if part.error is not None]
    if len(ordered) == 1 and errors:
        raise errors[0]
    skipped = [error.what for error in errors]
    found = [one for part in ordered for one in part.ranks]
    if not found:
        raise nothing_readable(len(ordered), skipped)
    ranks, by_name = numbered(found)
    ranks, copies = without_copies(ranks)
    check_one_run(ranks)
    beside = [note for part in ordered for note in part.beside]
    notes = [*left_out(skipped), *beside, *left_out(copies), *by_name]
    # What is only named is of another run.
    analysed = [one for one in ranks if isinstance(one, Analysed)]
    return sorted(analysed, key=lambda one: one.meta.rank), notes


def check_one_run(ranks: Sequence[OfRank]) -> None:
    """Check that traces are ranks of one run.

    Args:
        ranks: The traces.

    Raises:
        SeveralRunsError: They are not.
    """
    metas = [one.meta for one in ranks]
    if len(ranks) < 2 or same_run(metas):
        return
    why = why_several(metas)
    if (twice := given_twice(metas)) is not None:
        first, second, *_ = [one.path for one in ranks if one.meta.rank == twice]
        raise SeveralRunsError(
            f"rank {twice} is recorded twice, in {first} and in {second}: these are "
            f"{len(ranks)} different runs, not ranks of one run",
            "Explain the files of one run",
        )
    # A process of `stepwhy run` is a folder of its run directory.
    path = PurePath(ranks[0].path)
    run = path.parent if path.name.startswith("process-") else path
    raise SeveralRunsError(
        f"these are {len(ranks)} different runs, not ranks of one run: {why}",
        f"Explain them one at a time, starting with {run}",
    )
