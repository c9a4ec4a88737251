"""Paths of the ranges and modules around slices, each with a number.

A file may nest a million ranges, or give each a different name. Paths are therefore limited in
depth and length, and beyond `MOST_PATHS` a range adds nothing to the path around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.nesting import nearest
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.nesting import Nesting
    from stepwhy.trace import Trace

MOST_PATHS = 1 << 16
"""Most different paths."""
DEEPEST = 200
"""Most ranges and modules of a path; the largest models nest some tens."""
LONGEST = 1 << 12
"""Most characters of a path."""

_MODULE = "nn.Module: "


class _Path(NamedTuple):
    """One path.

    Args:
        parent: Number of the path without the innermost range or module.
        name: Name of the innermost range or module.
        depth: Number of ranges and modules.
        length: Number of characters.
    """

    parent: int
    name: str
    depth: int
    length: int


class Paths:
    """Numbers the paths of the ranges and modules around slices; 0 is the empty path.

    Args:
        trace: The trace.
        nesting: Its call trees.
        with_ranges: Whether ranges count, or modules alone.
    """

    def __init__(self, trace: Trace, nesting: Nesting, *, with_ranges: bool = True) -> None:
        self._trace, self._parent = trace, nesting.parent
        self._nearest = nearest(nesting, _is_range(trace, with_ranges=with_ranges))
        self._paths = [_Path(NULL, "", 0, 0)]
        self._numbers: dict[tuple[int, str], int] = {}
        self._of_row: dict[int, int] = {NULL: 0}

    @property
    def found(self) -> bool:
        """Whether any slice passed to `around` or `within` is in a range or module."""
        return len(self._paths) > 1

    def around(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the paths around slices; (rows,)."""
        parents = self._parent[rows].astype(np.int64)
        return self._numbered(np.where(parents == NULL, NULL, self._nearest[parents]))

    def within(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the paths around slices, with their own name if they are ranges; (rows,)."""
        return self._numbered(self._nearest[rows].astype(np.int64))

    def text(self, number: int) -> str:
        """A path, outermost first, names separated by slashes."""
        names = []
        while number != 0:
            number, name, *_ = self._paths[number]
            names.append(name)
        return "/".join(reversed(names))

    def _numbered(self, ranges: NDArray[np.int64]) -> NDArray[np.int64]:
        rows, place = numbered(ranges)
        numbers = np.asarray([self._number(row) for row in rows.tolist()], dtype=np.int64)
        return numbers[place]

    def _number(self, row: int) -> int:
        climbed = []
        while row not in self._of_row:
            climbed.append(row)
            parent = int(self._parent[row])
            row = NULL if parent == NULL else int(self._nearest[parent])
        number = self._of_row[row]
        for inner in reversed(climbed):
            number = self._of_row[inner] = self._below(number, self._name(inner))
        return number

    def _below(self, parent: int, name: str) -> int:
        """Number of the path extended by a name; of the path itself beyond the limits."""
        known = self._numbers.get((parent, name))
        if known is not None:
            return known
        _, _, depth, length = self._paths[parent]
        path = _Path(parent, name, depth + 1, length + 1 + len(name))
        if path.depth > DEEPEST or path.length > LONGEST or len(self._paths) > MOST_PATHS:
            return parent
        self._paths.append(path)
        number = self._numbers[parent, name] = len(self._paths) - 1
        return number

    def _name(self, row: int) -> str:
        slices = self._trace.slices
        name = self._trace.string(int(slices.name[row]))
        if slices.kind[row] == Kind.ANNOTATION:
            return name.replace("/", "|")
        return name.removeprefix(_MODULE)


def _is_range(trace: Trace, *, with_ranges: bool) -> NDArray[np.bool_]:
    """Mask of the slices that are modules, or ranges, with a name; (slices,)."""
    names = trace.slices.name
    used, place = numbered(names)
    texts = list(map(trace.string, used.tolist()))
    is_named = np.asarray([bool(text) for text in texts], dtype=bool)
    is_module = np.asarray([text.startswith(_MODULE) and text != _MODULE for text in texts], bool)
    is_annotation = trace.slices.kind == Kind.ANNOTATION
    of_ranges = is_named[place] & with_ranges
    found: NDArray[np.bool_] = np.where(is_annotation, of_ranges, is_module[place])
    return found
