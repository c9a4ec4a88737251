"""Reduce each file of a run to what the result of all ranks needs, one file at a time.

Reducing a file needs nothing of the others, so the files may be reduced anywhere and in any order;
`engine.merging` puts the parts together.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import InputError, NotFoundError
from stepwhy.engine.analysed import Analysed, analyse, detailed
from stepwhy.engine.opening import open_place
from stepwhy.engine.privacy import redacted_errors
from stepwhy.engine.rank_sets import Opened, numbers_in
from stepwhy.read.inputs.reduced import is_reduced
from stepwhy.trace import NULL, Meta
from stepwhy.trace.ranks import split_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.base.redaction import Redactor
    from stepwhy.engine.analysed import Detail, Seen
    from stepwhy.read.inputs.places import Place

    Progress = Callable[[str, int, int], None]


class Work(msgspec.Struct, frozen=True):
    """A file or run directory to reduce.

    Args:
        number: Its number among the inputs.
        place: Where it is.
        redactor: What replaces secrets; each file has one of its own, so that the numbers of
            secrets do not depend on the other files.
        rank: The rank that its name tells, if its trace does not record one; NULL if none.
        predict: Whether to predict what fixes would gain, if it has only one rank.
    """

    number: int
    place: Place
    redactor: Redactor
    rank: int = NULL
    predict: bool = False


class Named(msgspec.Struct, frozen=True):
    """A trace that was read and not analysed, because it is of another run.

    Args:
        path: Its file.
        meta: Facts about its run.
        record: b'', as it is not compared.
    """

    path: str
    meta: Meta
    record: bytes = b""

    def numbered(self, rank: int) -> Named:
        """The same as a trace of a rank.

        Args:
            rank: Number of the rank.
        """
        return replace(self, meta=replace(self.meta, rank=rank))


class Part(msgspec.Struct, frozen=True):
    """What one file or run directory became.

    Args:
        number: Its number among the inputs.
        ranks: Its ranks; most often one.
        beside: Notes on other processes in it.
        error: Why it cannot be read.
        digest: What its file contained, see `read.inputs.reduced`; b'' unless it is stored.
    """

    number: int
    ranks: tuple[Analysed | Named, ...] = ()
    beside: tuple[str, ...] = ()
    error: InputError | None = None
    digest: bytes = b""


def works_of(places: Sequence[Place], redactor: Redactor, *, predict: bool) -> list[Work]:
    """The files to reduce.

    Args:
        places: Where they are.
        redactor: What replaces secrets.
        predict: Whether to predict what fixes would gain.
    """
    if len(places) == 1:
        return [Work(0, places[0], redactor, NULL, predict)]
    paths = [redactor.text(place.shown) for place in places]
    ranks = numbers_in(paths) or [NULL] * len(places)
    return [
        Work(number, place, copy(redactor), rank)
        for number, (place, rank) in enumerate(zip(places, ranks, strict=True))
    ]


def reduce_file(
    work: Work, progress: Progress | None = None, seen: Seen | None = None, *, is_run: bool = True
) -> Part:
    """Read a file and reduce its ranks.

    Args:
        work: The file.
        progress: As in `explain`.
        seen: Called with each trace, its facts and its result.
        is_run: Whether the files may be ranks of one run; otherwise they are only read.
    """
    try:
        opened, beside = _opened(work, progress)
    except InputError as error:
        return Part(work.number, error=error)
    if progress:
        progress(f"analysing {opened[0].path}", 0, 0)
    if not is_run:
        return Part(work.number, tuple(Named(o.path, o.meta) for o in opened), tuple(beside))
    predict = work.predict and len(opened) == 1
    ranks = (_reduced(work, index, one, seen, predict=predict) for index, one in enumerate(opened))
    return Part(work.number, tuple(ranks), tuple(beside))


def _opened(work: Work, progress: Progress | None = None) -> tuple[list[Opened], list[str]]:
    """The traces of all ranks of a file, and notes on other processes."""
    with redacted_errors(work.redactor):
        opened, beside = open_place(work.place, work.redactor, progress)
    ranks = [replace(one, trace=rank) for one in opened for rank in split_ranks(one.trace)]
    return ranks, beside


def _reduced(
    work: Work, index: int, one: Opened, seen: Seen | None, *, predict: bool = False
) -> Analysed:
    recorded = one.meta
    if recorded.rank == NULL and work.rank != NULL:
        one = one.numbered(work.rank)
    found = analyse(one, predict=predict, seen=seen, place=(work.number, index))
    return replace(found, meta=recorded)


class Details:
    """All that is known of single ranks, whose files are read again if it has been freed.

    Args:
        works: The files of the run.
        seen: Called with each trace that is read again, its facts and its result.
    """

    def __init__(self, works: Sequence[Work], seen: Seen | None = None) -> None:
        self._works = works
        self._seen = seen
        self._last: tuple[int, list[Opened]] = (NULL, [])

    def __call__(self, one: Analysed) -> Detail:
        """All that is known of a rank.

        Args:
            one: The rank.

        Raises:
            InputError: Its file cannot be read any more, or was reduced and is elsewhere.
        """
        if one.detail is not None:
            return one.detail
        number, index = one.place
        self._check_is_there(one.meta.rank, self._works[number])
        opened = self._opened(number)[index].numbered(one.meta.rank)
        facts = Facts(opened.trace)
        detail = detailed(opened, facts, predict=False)
        if self._seen is not None:
            self._seen(opened, facts, detail.result)
        return detail

    @staticmethod
    def _check_is_there(rank: int, work: Work) -> None:
        if is_reduced(work.place.name):
            name = work.redactor.text(work.place.shown)
            raise NotFoundError(
                f"the report describes rank {rank}, and of that only {name} is here",
                "Copy the trace that it was made from to the same place",
            )

    def _opened(self, number: int) -> list[Opened]:
        if self._last[0] != number:
            work = self._works[number]
            fresh = replace(work, redactor=copy(work.redactor))
            self._last = number, _opened(fresh)[0]
        return self._last[1]
