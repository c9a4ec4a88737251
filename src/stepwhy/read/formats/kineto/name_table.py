"""What each title (category and name) of a Kineto file means, decided once per title."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepwhy.base.columns.groups import first_rows
from stepwhy.base.columns.interning import Interner
from stepwhy.base.patterns import regex
from stepwhy.read.formats.kineto.codes import Codes, extended
from stepwhy.read.formats.kineto.names import (
    Meaning,
    accelerator_of,
    category_of,
    meaning_of,
    shorten_path,
    shown_name,
)
from stepwhy.read.shared.chrome_json import Growing, KeyCodes
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyInts
    from stepwhy.read.formats.kineto.facts import Facts
    from stepwhy.trace import TraceBuilder


# Host records that cannot come from a CPU: collectives of ProcessGroupNCCL, and operations that
# have kernels for accelerators only. Most names prove nothing: on a CPU, too, recurrent layers
# call aten::cudnn_is_acceptable, and loaders aten::is_pinned.
# Source: the dispatch of each operation in PyTorch's native_functions.yaml.
_ON_DEVICE_ONLY = regex(
    r"nccl:|aten::(record_stream|_?cudnn_(rnn|ctc_loss|convolution\w*|batch_norm(_backward)?)"
    r"|miopen_(rnn|convolution\w*|depthwise_convolution|batch_norm(_backward)?))$"
)

KIND, ON_DEVICE, COPY, PAGEABLE, PHASE, IS_PROFILER_RANGE = range(6)
"""Columns of `NameTable.meanings_of`."""

_COLUMNS: Final = 6

_NAME_BITS: Final = 32

Title = tuple[str, str]
"""Category and name of a record."""


class _Title(NamedTuple):
    """A title and its meaning.

    Args:
        is_profiler_range: Whether it is a range of the performance-counter profiler.
        category: Category in the current spelling.
        name: Name without what makes every call unique.
        meaning: What the slice is.
    """

    is_profiler_range: bool
    category: str
    name: str
    meaning: Meaning


class NameTable:
    """Meaning and interned strings of each title.

    Args:
        builder: Interns the strings.
        facts: Collects what titles reveal about the run.
    """

    def __init__(self, builder: TraceBuilder, facts: Facts) -> None:
        self._builder, self._facts = builder, facts
        self._titles = Titles()
        self._meanings = Growing(np.int8)
        # Titles whose strings are not interned yet, by code.
        self._unresolved: dict[int, _Title] = {}
        # Strings of name and source line of each title, NULL while unresolved.
        self._strings = np.empty((0, 2), dtype=np.int32)

    @property
    def titles(self) -> Titles:
        """Assigns the codes; call `update` after it was used."""
        return self._titles

    @property
    def resolved(self) -> int:
        """Number of titles that the table had room for at the last `extend`."""
        return len(self._strings)

    def update(self) -> None:
        """Look up the meanings of titles that are new."""
        known = len(self._meanings) // _COLUMNS
        new = {code: _title(*raw) for code, raw in enumerate(self._titles.pop_new(), known)}
        if new:
            rows = [_row(title) for title in new.values()]
            self._meanings.append(np.asarray(rows, dtype=np.int8).ravel())
            self._unresolved |= new

    def extend(self) -> None:
        """Make room for the strings of all titles."""
        self._strings = extended(self._strings, len(self._titles))

    def meanings_of(self, codes: AnyInts) -> NDArray[np.int8]:
        """Meanings as integers, one column per constant of this module; (codes, columns)."""
        known = self._meanings.values().reshape(-1, _COLUMNS)
        meanings: NDArray[np.int8] = known[codes]
        return meanings

    def names_of(self, codes: AnyInts) -> NDArray[np.int32]:
        """Strings of the names; (codes,)."""
        names: NDArray[np.int32] = self._strings[codes, 0]
        return names

    def sources_of(self, codes: AnyInts) -> NDArray[np.int32]:
        """Strings of the source lines, NULL where the name is none; a new array, (codes,)."""
        sources: NDArray[np.int32] = self._strings[codes, 1]
        return sources

    def resolve(self, codes: AnyInts) -> None:
        """Intern the strings of titles, where that is not done yet."""
        new = codes[self._strings[codes, 0] == NULL]
        if not len(new):
            return
        titles = [self._unresolved.pop(code) for code in new.tolist()]
        strings = self._builder.intern_all([self._note(title) for title in titles])
        is_line = np.asarray([title.meaning.source for title in titles], dtype=bool)
        self._strings[new, 0] = strings
        self._strings[new, 1] = np.where(is_line, strings, NULL)

    def _note(self, title: _Title) -> str:
        """Record what a title reveals about the run; return the name to show."""
        _, category, name, meaning = title
        if meaning.kind is not None:
            self._facts.kinds.add(meaning.kind)
        # The profiler itself synchronises the whole device when it starts and stops.
        if meaning.kind is Kind.SYNC and "DeviceSynchronize" not in name:
            self._facts.device_hints = True
        if category in {"cpu_op", "user_annotation"} and _ON_DEVICE_ONLY.match(name):
            self._facts.device_hints = True
        self._facts.accelerator = accelerator_of(category) or self._facts.accelerator
        return shorten_path(name) if meaning.source else name


def _title(raw_category: str, raw_name: str) -> _Title:
    category = category_of(raw_category)
    name = shown_name(category, raw_name)
    is_profiler_range = raw_category == "cuda_profiler_range"
    return _Title(is_profiler_range, category, name, meaning_of(category, name))


def _row(title: _Title) -> tuple[int, ...]:
    """The meaning as integers, in the order of the columns."""
    meaning = title.meaning
    return (
        NULL if meaning.kind is None else int(meaning.kind),
        meaning.on_device,
        int(meaning.copy),
        meaning.pageable,
        int(meaning.phase),
        title.is_profiler_range,
    )


class Titles:
    """Assigns a code to each distinct title; a file may have as many titles as records."""

    def __init__(self) -> None:
        self._categories, self._names, self._keys = Codes(), Interner(), KeyCodes()
        self._new: list[Title] = []

    def __len__(self) -> int:
        """Number of distinct titles."""
        return len(self._keys)

    def of(self, titles: Iterable[Title], count: int) -> NDArray[np.int32]:
        """Codes of many titles; (count,)."""
        titles = list(titles)
        categories = self._categories.of((category for category, _ in titles), count)
        names = self._names.numbers([name for _, name in titles])
        keys = categories.astype(np.int64) << _NAME_BITS | names
        first = first_rows(keys)
        distinct, known = keys[first], len(self)
        codes = self._keys.of(distinct)
        self._new += [titles[i] for i in first[codes >= known].tolist()]
        return codes[np.searchsorted(distinct, keys)]

    def pop_new(self) -> list[Title]:
        """Titles that got a code since the last call, by ascending code."""
        new, self._new = self._new, []
        return new
