"""Describe the feeds and fetches of a traced `Session.run`: names, types and sizes, never values.

Only traced runs are described, after they have ended, so that no step takes longer. A fingerprint
shows whether two runs were fed with the same value. Its key is random and never written, so that
the value cannot be guessed from it.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Description = dict[str, Any]

# Most runs feed and fetch a handful of values; one that fetches all variables, hundreds.
_MOST = 64
_LONGEST_NAME = 200
# Of a larger value, this many bytes are compared, spread evenly: two batches differ in some.
_COMPARED_BYTES = 1 << 16
_FINGERPRINT_BITS = 62


def describe(fetches: Any, feeds: Any, result: Any) -> dict[str, list[Description]]:
    """Describe the fed and the returned values of a run, largest first.

    Args:
        fetches: Argument of `Session.run`: an element, or a nest of them.
        feeds: Its feed dictionary, or None.
        result: What it returned, in the same nest.

    Returns:
        `feeds`, each with `name`, `given` (the type passed: 'float64', 'list of int'), `wanted`
        (the placeholder's type), `bytes` (in that type), `shape` and `fingerprint` (equal for equal
        values); `fetches`, each with `name`, `given`, `bytes` and `shape`. Unknown values are
        absent.
    """
    fed = [_fed(key, value) for key, value in (feeds or {}).items()]
    fetched = [_fetched(name, value) for name, value in _leaves(fetches, result)]
    return {"feeds": _largest(fed), "fetches": _largest(fetched)}


def _largest(found: Sequence[Description | None]) -> list[Description]:
    known = [each for each in found if each is not None]
    return sorted(known, key=lambda each: -each.get("bytes", 0))[:_MOST]


def _fed(key: Any, value: Any) -> Description:
    """One entry of a feed dictionary."""
    kind, shape, size = _type_of(value)
    expected = getattr(getattr(key, "dtype", None), "base_dtype", None)
    if expected is not None and shape is not None:
        product = 1
        for length in shape:
            product *= length
        size = product * _item_bytes(expected)
    described = _description(_name(key), kind, getattr(expected, "name", None), shape, size)
    mark = fingerprint(value)
    return described if mark is None else described | {"fingerprint": mark}


def fingerprints(feeds: Any) -> dict[str, int]:
    """Fingerprints of fed values by name; without those that cannot be compared.

    Args:
        feeds: Feed dictionary, or None.
    """
    marks = ((_name(key), fingerprint(value)) for key, value in list((feeds or {}).items())[:_MOST])
    return {name: mark for name, mark in marks if mark is not None}


def fingerprint(value: Any) -> int | None:
    """Number that equal values of a process share; None if they cannot be compared.

    Args:
        value: Array, number, or nest of numbers.
    """
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError:  # parts of different shapes, as in a SparseTensorValue
        return None
    if array.dtype.hasobject:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    items = max(_COMPARED_BYTES // max(array.itemsize, 1), 1)
    compared = flat[:: -(-len(flat) // items) or 1].tobytes()
    import hashlib

    digest = hashlib.blake2b(
        f"{array.dtype} {array.shape} ".encode() + compared, digest_size=8, key=_key()
    ).digest()
    return int.from_bytes(digest, "big") >> (64 - _FINGERPRINT_BITS)


@functools.cache
def _key() -> bytes:
    """The key of this process, which is never written."""
    return os.urandom(16)


def _fetched(name: str, value: Any) -> Description | None:
    """One fetched value; None for an operation, which has none."""
    if value is None:
        return None
    kind, shape, size = _type_of(value)
    return _description(name, kind, None, shape, size)


def _description(
    name: str, kind: str, expected: str | None, shape: list[int] | None, size: int | None
) -> Description:
    found = {"name": name, "given": kind, "wanted": expected, "shape": shape, "bytes": size or None}
    return {key: value for key, value in found.items() if value is not None}


def _name(element: Any) -> str:
    """TensorFlow's name of a feed or fetch."""
    name = element if isinstance(element, str) else getattr(element, "name", None)
    return (name if isinstance(name, str) else type(element).__name__)[:_LONGEST_NAME]


def _type_of(value: Any) -> tuple[str, list[int] | None, int | None]:
    """Type, shape and bytes of a value; for a list, according to its first elements."""
    shape = []
    outer, kind = value, type(value).__name__
    while type(value) in (list, tuple) and value:
        shape.append(len(value))
        value = value[0]
    dtype, inner = getattr(value, "dtype", None), getattr(value, "shape", ())
    if dtype is not None:
        shape += [int(n) for n in inner]
    name = type(value).__name__ if dtype is None else str(getattr(dtype, "name", dtype))
    if value is outer:
        size = getattr(value, "nbytes", None)
        # A SparseTensorValue, for example: a tuple of arrays without a shape of its own.
        whole = dtype is not None or isinstance(value, (bool, int, float, complex, str, bytes))
        return name, shape if whole else None, size
    arrays = f"{name} array" if dtype is not None and inner else name
    return f"{kind} of {arrays}", shape, None


def _item_bytes(dtype: Any) -> int:
    """Bytes of an element; 0 if they vary (strings)."""
    try:
        return int(dtype.size)
    except (TypeError, ValueError):
        return 0


def _leaves(fetches: Any, result: Any) -> Iterator[tuple[str, Any]]:
    """The elements of a nest by name, each with its result."""
    if isinstance(fetches, (list, tuple)) and isinstance(result, (list, tuple)):
        for one, value in zip(fetches, result, strict=False):
            yield from _leaves(one, value)
    elif isinstance(fetches, dict) and isinstance(result, dict):
        for key, one in fetches.items():
            yield from _leaves(one, result.get(key))
    else:
        yield _name(fetches), result
