"""What a traced `Session.run` was handed and handed back: names, types and sizes, never a value.

Only traced runs are described, and only after they have ended: nothing of it falls on a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Handed = dict[str, Any]

# A run feeds and fetches a handful; a program that fetches all of its variables, hundreds.
_MOST = 64
_LONGEST_NAME = 200


def describe(fetches: Any, feeds: Any, result: Any) -> dict[str, list[Handed]]:
    """What a run was fed and what it returned, the largest first; what cannot be read is left out.

    Args:
        fetches: What `Session.run` took: an element, or a nest of them.
        feeds: Its feed dictionary, or None.
        result: What it returned, in the same nest.

    Returns:
        `feeds`, each with `name`, `given` ('float64', 'list of int'), `wanted` (type of the
        placeholder), `bytes` (in that type) and `shape`; `fetches`, each with `name`, `given`,
        `bytes` and `shape`. What is not known is missing.
    """
    fed = [_fed(key, value) for key, value in (feeds or {}).items()]
    fetched = [_fetched(name, value) for name, value in _leaves(fetches, result)]
    return {"feeds": _largest(fed), "fetches": _largest(fetched)}


def _largest(found: Sequence[Handed | None]) -> list[Handed]:
    known = [each for each in found if each is not None]
    return sorted(known, key=lambda each: -each.get("bytes", 0))[:_MOST]


def _fed(key: Any, value: Any) -> Handed:
    """One entry of a feed dictionary."""
    given, shape, size = _given(value)
    wanted = getattr(getattr(key, "dtype", None), "base_dtype", None)
    if wanted is not None and shape is not None:
        size = _product(shape) * _item_bytes(wanted)
    return _known(_name(key), given, getattr(wanted, "name", None), shape, size)


def _fetched(name: str, value: Any) -> Handed | None:
    """One fetched value; None for an operation, which has none."""
    if value is None:
        return None
    given, shape, size = _given(value)
    return _known(name, given, None, shape, size)


def _known(
    name: str, given: str, wanted: str | None, shape: list[int] | None, size: int | None
) -> Handed:
    handed = {"name": name, "given": given, "wanted": wanted, "shape": shape, "bytes": size or None}
    return {key: value for key, value in handed.items() if value is not None}


def _name(element: Any) -> str:
    """The name of what is fed or fetched, in TensorFlow's words."""
    name = element if isinstance(element, str) else getattr(element, "name", None)
    return (name if isinstance(name, str) else type(element).__name__)[:_LONGEST_NAME]


def _given(value: Any) -> tuple[str, list[int] | None, int | None]:
    """Type, shape and bytes of a value; of a list by its first elements, as all are alike."""
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
        # A SparseTensorValue and the like: arrays, of which none has the whole shape.
        whole = dtype is not None or isinstance(value, (bool, int, float, complex, str, bytes))
        return name, shape if whole else None, size
    arrays = f"{name} array" if dtype is not None and inner else name
    return f"{kind} of {arrays}", shape, None


def _product(shape: list[int]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product


def _item_bytes(dtype: Any) -> int:
    """Bytes of an element; 0 where they differ (strings)."""
    try:
        return int(dtype.size)
    except (TypeError, ValueError):
        return 0


def _leaves(fetches: Any, result: Any) -> Iterator[tuple[str, Any]]:
    """The elements of a nest by name, each with what was returned for it."""
    if isinstance(fetches, (list, tuple)) and isinstance(result, (list, tuple)):
        for one, value in zip(fetches, result, strict=False):
            yield from _leaves(one, value)
    elif isinstance(fetches, dict) and isinstance(result, dict):
        for key, one in fetches.items():
            yield from _leaves(one, result.get(key))
    else:
        yield _name(fetches), result


__all__ = ["describe"]
