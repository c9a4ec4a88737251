"""Answers of a limited size: a model can read only so much, and has to know what it did not see."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.apps.agents.answers import LeftOut
from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    Path = tuple[str | int, ...]

MOST_DATA = 48_000
"""Most bytes of the data of an answer as JSON; about 15,000 tokens of a language model."""
MOST_TEXT = 16_000
"""Most characters of the text of an answer."""

_LONGEST_TEXT = 2_000  # characters of a text among the data, such as the code of a fix
_SHORT = 2  # rows; such a list may be the ends of an interval
_SHORTENED_TEXT = 200  # characters of all texts, where removing rows does not suffice
# All other lists lose rows first: these say what is wrong, and why something is unknown.
_KEPT = "findings"
_ITEM = regex(r"\.\d+")
_ELSEWHERE = {
    "ops": "The tool 'ops' lists all, with limit and offset.",
    "lines.lines": "The tool 'ops' lists all in its view 'line', with limit and offset.",
    "steps.durations_ns": "The tool 'sql' has them: select number, dur_ns from steps.",
    "nodes": "Call again with a smaller limit, and an offset for the others.",
    "rows": "Call again with a smaller limit or fewer columns, and an offset for the others.",
    "runs": "Call again with a smaller limit, and an offset for the others.",
}
_DEFAULT = "The tool 'sql' queries all tables; 'stepwhy explain PATH --json' prints everything."


class _Cut:
    """What was removed from the lists of a document.

    Args:
        data: The document; it is changed.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._counts: dict[Path, tuple[int, int]] = {}

    def largest(self) -> tuple[Path, list[Any]] | None:
        """The list that takes most room; None if only short ones are left, and the one to keep."""
        every = _lists(self._data, ())
        lists = [found for found in every if len(found[1]) > _SHORT and found[0] != (_KEPT,)]
        return max(lists, key=lambda found: size_of(found[1]), default=None)

    def halve(self, path: Path, rows: list[Any]) -> int:
        """Remove the second half of a list, and return the number of freed bytes."""
        before, size = len(rows), size_of(rows)
        del rows[before // 2 :]
        _, total = self._counts.get(path, (0, before))
        self._counts[path] = len(rows), total
        return size - size_of(rows)

    def left_out(self) -> Iterator[LeftOut]:
        """One entry per name; lists at the same place of several rows are added up."""
        named = sorted(
            (_ITEM.sub("[]", ".".join(map(str, path))), *counts)
            for path, counts in self._counts.items()
        )
        for name, group in groupby(named, key=lambda one: one[0]):
            counts = [(shown, total) for _, shown, total in group]
            shown, total = map(sum, zip(*counts, strict=True))
            yield LeftOut(name, shown, total, how_to_see(name))


def fitted(data: dict[str, Any], most: int = MOST_DATA) -> tuple[dict[str, Any], list[LeftOut]]:
    """The data with fewer rows and shorter texts, if it is too large.

    Lists lose the second half of their rows, the largest list first, until the rest fits. The order
    of the rows is that of their importance.

    Args:
        data: A JSON object.
        most: Bytes that it may have.

    Returns:
        The data, and which lists have fewer rows.
    """
    data = _shorten_texts(data, _LONGEST_TEXT)
    cut = _Cut(data)
    too_many = size_of(data) - most
    while too_many > 0 and (largest := cut.largest()):
        too_many -= cut.halve(*largest)
    if too_many > 0:
        shorter = _shorten_texts(data, _SHORTENED_TEXT)
        data.update(shorter)
    while size_of(data) > most and data.get(_KEPT):
        cut.halve((_KEPT,), data[_KEPT])
    return data, list(cut.left_out())


def shortened(text: str, most: int = MOST_TEXT) -> str:
    """The first lines of a text, with a remark if others follow.

    Args:
        text: The text.
        most: Characters that it may have.
    """
    if len(text) <= most:
        return text
    head = text[:most].rpartition("\n")[0]
    left = text.count("\n") - head.count("\n")
    return f"{head}\n\n({left} more lines are left out; the data may have them.)\n"


def how_to_see(what: str) -> str:
    """How to get the rows that a list does not show.

    Args:
        what: Its name, as in `LeftOut`.
    """
    return _ELSEWHERE.get(what, _DEFAULT)


def size_of(value: Any) -> int:
    """Bytes of a value as JSON."""
    return len(msgspec.json.encode(value))


def _lists(value: Any, path: Path) -> Iterator[tuple[Path, list[Any]]]:
    """All lists in a JSON value, with their paths."""
    if isinstance(value, list):
        yield path, value
        for number, item in enumerate(value):
            yield from _lists(item, (*path, number))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _lists(item, (*path, key))


def _shorten_texts(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[: most - 3]}..."
    if isinstance(value, list):
        return [_shorten_texts(item, most) for item in value]
    if isinstance(value, dict):
        return {key: _shorten_texts(item, most) for key, item in value.items()}
    return value
