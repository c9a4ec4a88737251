"""The smallest input that still fails in the same way, within some patience."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuzz.formats import Files

    Fails = Callable[[Files], bool]

_MOST_TRIES = 400


class EnoughError(Exception):
    """There is no patience left."""


def minimise(files: Files, fails: Fails) -> Files:
    """Leave out files, events, fields and bytes as long as the input fails.

    Args:
        files: An input that fails.
        fails: Whether an input fails in the same way; raises EnoughError to make an end.
    """
    best, tries = files, iter(range(_MOST_TRIES))

    def is_better(smaller: Files) -> bool:
        nonlocal best
        if next(tries, None) is None:
            raise EnoughError
        if not fails(smaller):
            return False
        best = smaller
        return True

    with suppress(EnoughError):
        for name in list(files)[1:]:
            is_better({n: data for n, data in best.items() if n != name})
        for name in best:
            _shorten(best, name, is_better)
    return best


def _shorten(files: Files, name: str, fails: Fails) -> None:
    """Try shorter contents of a file; what fails is noted."""

    def keep(data: bytes) -> bool:
        return fails({**files, name: data})

    data = files[name]
    document = _document(data)
    if document is not None and keep(_encoded(document)):
        data = _encoded(_pruned(document, lambda smaller: keep(_encoded(smaller))))
    _without_blocks(data, keep)


def _document(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def _pruned(document: Any, fails: Callable[[Any], bool]) -> Any:
    """A document without what it fails without, from the largest parts to the smallest."""
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(document):
            if fails(smaller):
                document, changed = smaller, True
                break
    return document


def _smaller(document: Any) -> Iterator[Any]:
    """Copies that lack a part."""
    if isinstance(document, list):
        step = len(document)
        while step := step // 2:
            for start in range(0, len(document), step):
                yield document[:start] + document[start + step :]
        if len(document) == 1:
            yield []
    parts = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in parts if isinstance(document, (dict, list)) else ():
        if isinstance(document, dict):
            yield {k: v for k, v in document.items() if k != key}
        if isinstance(value, (dict, list)):
            for inner in _smaller(value):
                copy = document.copy()
                copy[key] = inner
                yield copy


def _without_blocks(data: bytes, fails: Callable[[bytes], bool]) -> None:
    """Leave out blocks, of half of all bytes to a single one."""
    size = len(data) // 2
    while size:
        start = 0
        while start < len(data):
            shorter = data[:start] + data[start + size :]
            if fails(shorter):
                data = shorter
            else:
                start += size
        size //= 2
