"""Tensors that a step reads and that stay as they are over several steps: constants.

A tensor counts if the same one is still there some steps later, with equal values, and is not one
of several like it, which the steps may take in turn.
"""

from __future__ import annotations

import gc
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

from stepwhy.record.torch.fingerprints import bytes_of, fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stepwhy.record.torch.provenance import Source

# Larger tensors, or more of them, are not compared, and do not count.
_MOST_BYTES = 64 << 20
_MOST_TOTAL = 256 << 20
# Each search for what holds a tensor looks at all objects of the process.
_MOST_SEARCH_NS = 500_000_000
# A batch may be a tensor in a list, or in a tuple or dictionary in a list.
_LEVELS = 3
_CONTAINERS = (list, tuple, dict, deque)


class LastingSources:
    """Some sources, and their values at the end of the step.

    Args:
        sources: All sources of the step.
        used: Which of them are of interest, as bits.
    """

    def __init__(self, sources: Sequence[Source], used: int) -> None:
        self._left = _MOST_TOTAL
        self._marks = {
            place: (source, mark)
            for place, source in enumerate(sources)
            if used >> place & 1 and (mark := self._mark(source)) is not None
        }

    def still_equal(self) -> int:
        """The sources that have lasted until now, as bits."""
        self._left = _MOST_TOTAL
        lasting = [p for p, (source, mark) in self._marks.items() if self._mark(source) == mark]
        stop_ns = time.perf_counter_ns() + _MOST_SEARCH_NS
        return sum(
            1 << place
            for place in lasting
            if time.perf_counter_ns() < stop_ns and not _is_one_of_many(self._marks[place][0].ref())
        )

    def _mark(self, source: Source) -> Any:
        """What equal values share; None if the tensor is gone, or cannot be compared."""
        tensor = source.ref()
        if tensor is None:
            return None
        size = bytes_of(tensor)
        self._left -= size
        return fingerprint(tensor) if size <= _MOST_BYTES and self._left >= 0 else None


def _is_one_of_many(tensor: Any) -> bool:
    """Whether a container that holds a tensor, directly or not, holds others like it."""
    held: tuple[Any, ...] = (tensor,)
    for _ in range(_LEVELS):
        known = {id(one) for one in held}
        holders = [
            h for h in gc.get_referrers(*held) if isinstance(h, _CONTAINERS) and h is not held
        ]
        if any(_has_several_like(holder, known) for holder in holders):
            return True
        held = tuple(h for h in holders if len(h) <= 16)
        if not held:
            return False
    return False


def _has_several_like(holder: Any, known: set[int]) -> bool:
    if isinstance(holder, dict) and all(isinstance(key, str) for key in holder):
        return False  # a namespace, or the parts of one batch
    values = list(holder.values() if isinstance(holder, dict) else holder)
    held = [value for value in values if id(value) in known]
    types = {type(value) for value in held}
    kinds = Counter(_kind(value) for value in values if type(value) in types)
    return any(kinds[_kind(value)] > 1 for value in held)


def _kind(value: Any) -> tuple[Any, ...]:
    """What values that are taken in turn share; only of tensors and containers.

    Attributes of other objects may be code of the program.
    """
    if isinstance(value, _CONTAINERS):
        return type(value), len(value)
    return type(value), getattr(value, "shape", None), getattr(value, "dtype", None)
