"""Finds the distinct names on the rows of a Chrome trace.

A file may have as many names as ranges, if each contains a different number. Long numbers do not
change the meaning of a name, so names that differ only in them are classified once.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepwhy.base.columns.chunks import take
from stepwhy.base.columns.narrow import narrowed
from stepwhy.read.formats.chrome_trace.rows import sharing_key
from stepwhy.read.formats.chrome_trace.used_names import Use, Uses
from stepwhy.read.shared.chrome_json import Codes, first_seen
from stepwhy.read.shared.ranges import ANY_NUMBER, LONG_NUMBER
from stepwhy.trace.builder import MOST_TRACKS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.read.formats.chrome_trace.records import Titles
    from stepwhy.read.shared.chrome_json import Table
    from stepwhy.read.shared.chrome_spans import Spans

LONGEST = 200
"""Longer names may be truncated, so that each of them is classified."""

# Places with a track of their own; the others share tracks.
_SINGLE = MOST_TRACKS - 1
# Most names that are classified; names that differ only in long numbers count once.
# Recorded traces have up to some thousands.
_MOST_NAMES = 1 << 17
_OTHER_NAME = -1
# Processes whose further threads share a track with each other alone.
_MOST_PROCESSES = 1 << 12


def uses_of(table: Table, spans: Spans, titles: Titles) -> Uses:
    """The names of ranges on rows; a range has the name of the record that begins it.

    Args:
        table: The records.
        spans: The ranges.
        titles: Titles of the rows.
    """
    label = table.name_of_use
    of = take(table.use, spans.first)
    shown, _ = first_seen(of)
    like = np.zeros(len(label), dtype=np.int32)
    uses = Uses([], like, shown, of, label, table.names)
    places = _numbered_places(table, titles)
    uses.shared = frozenset(table.places[first] for first in places.firsts[_SINGLE:])
    _find_alike(uses, table, places)
    uses.like = narrowed(like)
    return uses


def _find_alike(uses: Uses, table: Table, places: _Places) -> None:
    """Set `known`, `like` and `unread`: the names to classify, and the uses of each."""
    shapes, firsts = _Shapes(), dict[tuple[int, int], int]()
    contexts = places.of_context * len(table.categories) + table.contexts[:, 1]
    for some, names in uses.chunks():
        of_some = table.context_of_use[some]
        rows = zip(
            some.tolist(),
            shapes.of_all(_shapes(names)),
            contexts[of_some].tolist(),
            places.of_context[of_some].tolist(),
            strict=True,
        )
        for number, shape, context, place in rows:
            key = shape, context
            if shape == _OTHER_NAME or (key not in firsts and len(firsts) >= _MOST_NAMES):
                key = _OTHER_NAME, place
                uses.unread += 1
            if key not in firsts:
                firsts[key] = len(firsts)
                name, category = table.title_of(number)
                name = "" if key[0] == _OTHER_NAME else name
                where = table.places[places.firsts[place]]
                uses.known.append(Use(name, category, where, place))
            uses.like[number] = firsts[key]


class _Shapes(Codes):
    """Numbers names, the first `_MOST_NAMES`; all others are `_OTHER_NAME`."""

    def __missing__(self, key: Hashable) -> int:
        """The next number, if there is one."""
        return super().__missing__(key) if len(self) < _MOST_NAMES else _OTHER_NAME

    def of_all(self, keys: Iterable[str]) -> list[int]:
        """Numbers of many names."""
        return [self[key] for key in keys]


def places_beyond(table: Table) -> int:
    """Number of processes and threads that share tracks because there are too many."""
    return max(len(table.places) - _SINGLE, 0)


class _Places(NamedTuple):
    """Numbers of places.

    Args:
        of_context: Number of every context's place; (contexts,).
        firsts: Row of `Table.places` of the first place with each number.
    """

    of_context: NDArray[np.int64]
    firsts: Sequence[int]


def _numbered_places(table: Table, titles: Titles) -> _Places:
    """Number the places; beyond the limit, places of the same device share a number.

    A file with many threads can have few devices, whose totals must stay right.
    """
    of_context = table.contexts[:, 0].astype(np.int64)
    if len(table.places) <= _SINGLE:
        return _Places(of_context, range(len(table.places)))
    processes = dict.fromkeys(pid for pid, _ in islice(table.places, _SINGLE))
    known = frozenset(islice(processes, _MOST_PROCESSES))
    firsts, shared = list(range(_SINGLE)), dict[Any, int]()
    for context in np.flatnonzero(of_context >= _SINGLE).tolist():
        at, category = table.contexts[context].tolist()
        place = table.places[at]
        process = place[0] if place[0] in known else None
        key = process, *sharing_key(titles, place, table.categories[category])
        if key not in shared:
            shared[key] = len(firsts)
            firsts.append(at)
        of_context[context] = shared[key]
    return _Places(of_context, firsts)


def _shapes(names: list[str]) -> list[str]:
    """The names with every long number replaced by the same one; (names,)."""
    shapes = LONG_NUMBER.sub(ANY_NUMBER, "\n".join(names)).split("\n")
    if len(shapes) != len(names):
        shapes = [LONG_NUMBER.sub(ANY_NUMBER, name) for name in names]
    return [n if len(n) > LONGEST else s for n, s in zip(names, shapes, strict=True)]
