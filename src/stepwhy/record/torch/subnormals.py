"""Measure what subnormal numbers cost the operations of one step.

A processor handles numbers next to zero, below 1.2e-38 in float32, by microcode: an operation that
reads or makes many of them takes up to hundreds of times as long. Some values of each longer
operation are looked at. Where there are subnormal ones, the operation is repeated on copies of its
arguments, as they are and with usual numbers in place of the smallest ones, so that both times are
of the same shapes, threads and moment. Nothing of the training is changed.
"""

from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

# Shorter operations are launched in that time, whatever they read.
_SHORTEST_NS = 30_000
_FEWEST_VALUES = 1024
_LOOKED_AT = 128  # values of each tensor
_GOLDEN = (5**0.5 - 1) / 2  # multiples of it, less their whole part, lie evenly in 0..1
_LEAST = 1 / 64  # of them are subnormal: two of 128
_MOST_BYTES = 64 << 20  # of the copies of an operation's arguments
_MOST_NS = 1_000_000_000  # of all repetitions
_MOST_OP_NS = 200_000_000  # of one operation
# The shortest of several times is one in which no other program had the core. Of a long operation
# it is two, of which the first may include what a library prepares.
_LONG_NS = 10_000_000
_TIMES, _TIMES_LONG = 5, 2
# The product of two numbers from here on is a usual one.
_SMALL = {"float32": 1e-18, "float64": 1e-150}
_TINY = {"float32": 1.1754943508222875e-38, "float64": 2.2250738585072014e-308}
_USUAL = 0.5
_PER_MILLE = 1000


class Subnormal(NamedTuple):
    """An operation that reads or makes subnormal numbers.

    Args:
        op: Its number in the step.
        share: Largest share of subnormal values in one of its tensors, per mille.
        time_ns: Time of a repetition with these numbers; 0 if none was measured.
        usual_ns: Time of a repetition with usual ones.
    """

    op: int
    share: int
    time_ns: int
    usual_ns: int


class Subnormals:
    """The subnormal numbers of one step.

    Attributes:
        found: The operations that read or make some.
    """

    def __init__(self) -> None:
        self.found: list[Subnormal] = []
        self._measured: dict[Any, tuple[int, int]] = {}
        self._left_ns = _MOST_NS

    def note(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Any],
        *,
        place: int,
        took_ns: int,
    ) -> None:
        """Note an operation that has returned, on the thread that ran it; never raises.

        Args:
            func: The operation.
            args: Its arguments.
            kwargs: Its further arguments.
            tensors: What it reads and makes.
            place: Its number in the step.
            took_ns: Its time.
        """
        if took_ns < _SHORTEST_NS:
            return
        with contextlib.suppress(Exception):  # sparse tensors have no strides
            shares = [_share(tensor) for tensor in tensors]
            if max(shares, default=0.0) < _LEAST:
                return
            about = zip(tensors, shares, strict=True)
            key = func, tuple((t.shape, t.stride(), share >= _LEAST) for t, share in about)
            if key not in self._measured:
                self._measured[key] = self._measure(func, args, kwargs, tensors, took_ns)
            share = round(max(shares) * _PER_MILLE)
            self.found.append(Subnormal(place, share, *self._measured[key]))

    def _measure(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Any],
        took_ns: int,
    ) -> tuple[int, int]:
        """Time with these numbers and with usual ones, ns; 0 and 0 if it cannot be repeated."""
        size = sum(t.numel() * t.element_size() for t in tensors)
        if took_ns > min(_MOST_OP_NS, self._left_ns) or size > _MOST_BYTES or not _repeats(func):
            return 0, 0
        if any(t.device.type != "cpu" for t in tensors):
            return 0, 0
        began_ns = time.perf_counter_ns()
        usual_ns = time_ns = 1 << 62
        try:
            for _ in range(_TIMES if took_ns < _LONG_NS else _TIMES_LONG):
                usual_ns = min(usual_ns, _repeat(func, args, kwargs, _as_usual))
                time_ns = min(time_ns, _repeat(func, args, kwargs, _as_is))
        except Exception:  # such as a loss that takes no numbers above one
            time_ns = usual_ns = 0
        self._left_ns -= time.perf_counter_ns() - began_ns
        return time_ns, usual_ns


def _share(tensor: Any) -> float:
    """Share of subnormal numbers in some values of a tensor, 0..1; 0 where none can be read."""
    tiny = _TINY.get(str(tensor.dtype).removeprefix("torch."))
    if tiny is None or tensor.device.type != "cpu" or tensor.numel() < _FEWEST_VALUES:
        return 0.0
    # All that lies between the first and the last element in memory; nothing is copied.
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    span = 1 + sum((size - 1) * stride for size, stride in steps)
    places = places_among(span)
    values = tensor.detach().as_strided((span,), (1,), tensor.storage_offset()).take(places)
    return float(sum(0.0 < abs(value) < tiny for value in values.tolist()) / len(places))


@functools.lru_cache(maxsize=256)
def places_among(span: int) -> Any:
    """Places among so many values; at steps of one size, they could all be in the same columns."""
    import torch

    count = min(_LOOKED_AT, span)
    places = [int(i * _GOLDEN % 1 * span) for i in range(count)]
    return torch.tensor(places, dtype=torch.int64, device="cpu")


def _repeats(func: Any) -> bool:
    """Whether an operation computes the same again from copies of its arguments."""
    from torch import Tag

    return func.name().startswith("aten::") and Tag.nondeterministic_seeded not in func.tags


def _repeat(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], copy: Callable[[Any], Any]
) -> int:
    """Time of an operation on copies of its arguments, ns."""
    copies: dict[int, Any] = {}

    def of(value: Any) -> Any:
        if value.__class__ in {list, tuple}:
            return value.__class__(map(of, value))
        if not hasattr(value, "untyped_storage"):
            return value
        if id(value) not in copies:
            copies[id(value)] = copy(value)
        return copies[id(value)]

    copied, named = of(tuple(args)), {name: of(value) for name, value in kwargs.items()}
    start_ns = time.perf_counter_ns()
    func(*copied, **named)
    return time.perf_counter_ns() - start_ns


def _as_is(tensor: Any) -> Any:
    return tensor.detach().clone()


def _as_usual(tensor: Any) -> Any:
    """A copy without very small and very large numbers."""
    usual = tensor.detach().clone()
    small = _SMALL.get(str(tensor.dtype).removeprefix("torch."))
    if small is not None:
        usual.masked_fill_(usual.abs() < small, _USUAL).clamp_(-1, 1)
    return usual
