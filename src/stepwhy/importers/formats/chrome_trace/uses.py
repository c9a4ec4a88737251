"""What the ranges of a Chrome trace are called and where they lie: few things, of many ranges.

There may be as many names as ranges, if each holds a number of its own. What a name says does not
depend on the digits of a long number, so that of those that differ in nothing else one is looked
at for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.importers.shared.chrome_json import Codes, first_seen
from stepwhy.importers.shared.ranges import ANY_NUMBER, LONG_NUMBER
from stepwhy.trace.builder import MOST_TRACKS
from stepwhy.trace.narrow import narrowed
from stepwhy.trace.order import taken
from stepwhy.trace.strings import texts_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.shared.chrome_json import Place, Table
    from stepwhy.importers.shared.chrome_spans import Spans

LONGEST = 200
"""Longer names may be cut, so that each of them is looked at."""

# Names that are Python's objects at a time.
_CHUNK = 1 << 14
_SINGLE = MOST_TRACKS - 1  # places that are told apart; all others are one
_OTHER_PLACES = None, None
_NOTHING = np.empty(0, dtype=np.int32)


class Use(msgspec.Struct, frozen=True):
    """A name on a row.

    Args:
        name: The name.
        category: Its category.
        place: Process and thread.
        number: Number of the place.
    """

    name: str
    category: str
    place: Place
    number: int


class Uses(msgspec.Struct):
    """The names on rows that ranges have.

    Args:
        known: One of those that differ in nothing but long numbers, in the order in which ranges
            show them.
        like: Which of these stands for each; 0 of those that no range has; (uses,).
        shown: Those that ranges have, in the order in which they show them.
        of: Number of every range's; (ranges,).
        label: Number of the name of each; (uses,).
        names: All names.
    """

    known: list[Use]
    like: NDArray[np.signedinteger[Any]]
    shown: NDArray[np.int32]
    of: NDArray[np.int32]
    label: NDArray[np.int32]
    names: Sequence[str]

    def places(self, ranges: NDArray[np.int64]) -> NDArray[np.int32]:
        """Numbers of the places of some ranges; (ranges,)."""
        of_known = np.asarray([use.number for use in self.known], dtype=np.int32)
        places: NDArray[np.int32] = of_known[self.like[self.of[ranges]]]
        return places

    def forget_names(self) -> None:
        """Let names go that nobody needs any more."""
        self.shown, self.label, self.names = _NOTHING, _NOTHING, ()

    def name(self, number: int) -> str:
        """The name of one."""
        return self.names[int(self.label[number])]

    def chunks(self) -> Iterator[tuple[NDArray[np.int32], list[str]]]:
        """Those that ranges have, some at a time, and their names."""
        for begin in range(0, len(self.shown), _CHUNK):
            some = self.shown[begin : begin + _CHUNK]
            yield some, texts_at(self.names, self.label[some])


def uses_of(table: Table, spans: Spans) -> Uses:
    """The names on rows that ranges have: those of the records that begin them.

    Args:
        table: The records.
        spans: The ranges.
    """
    label = table.name_of_use
    of = taken(table.use, spans.first)
    shown, _ = first_seen(of, len(label))
    like = np.zeros(len(label), dtype=np.int32)
    uses = Uses([], like, shown, of, label, table.names)
    shapes, firsts = Codes(), dict[tuple[int, int], int]()
    contexts = _contexts(table)
    for some, names in uses.chunks():
        codes = shapes.of(_shapes(names), len(names)).tolist()
        keys = zip(codes, contexts[table.context_of_use[some]].tolist(), strict=True)
        for number, key in zip(some.tolist(), keys, strict=True):
            if key not in firsts:
                firsts[key] = len(firsts)
                uses.known.append(_use(table, number))
            like[number] = firsts[key]
    uses.like = narrowed(like)
    return uses


def places_beyond(table: Table) -> int:
    """How many processes and threads are shown as one, as they are more than the most."""
    return max(len(table.places) - _SINGLE, 0)


def _contexts(table: Table) -> NDArray[np.int64]:
    """Number of every context's place and category, where places beyond the most are one."""
    place = np.minimum(table.contexts[:, 0], _SINGLE).astype(np.int64)
    contexts: NDArray[np.int64] = place * len(table.categories) + table.contexts[:, 1]
    return contexts


def _use(table: Table, number: int) -> Use:
    name, category = table.title_of(number)
    place = int(table.contexts[table.context_of_use[number], 0])
    if place >= _SINGLE:
        return Use(name, category, _OTHER_PLACES, _SINGLE)
    return Use(name, category, table.places[place], place)


def _shapes(names: list[str]) -> list[str]:
    """Names with all long numbers alike; (names,)."""
    shapes = LONG_NUMBER.sub(ANY_NUMBER, "\n".join(names)).split("\n")
    if len(shapes) != len(names):
        shapes = [LONG_NUMBER.sub(ANY_NUMBER, name) for name in names]
    return [n if len(n) > LONGEST else s for n, s in zip(names, shapes, strict=True)]


__all__ = ["LONGEST", "Use", "Uses", "places_beyond", "uses_of"]
