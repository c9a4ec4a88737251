"""Which operations of a step compute what it has computed before: the same, from the same values.

Each storage has a number for its values. An operation that is called again with the same numbers,
shapes and further arguments gives its results the numbers of the first ones. Whatever writes into a
storage gives it a new number.
"""

from __future__ import annotations

from math import isclose, prod
from typing import TYPE_CHECKING

from stepwhy.record.torch.result_use import LIKE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from stepwhy.record.torch.provenance import Provenance, Storage

NEEDED_AGAIN = (*LIKE, "aten::clone", "aten::_to_copy")
"""Beginnings of the names of operations of which another result may be needed, to write into it."""
# Results of shorter operations are not compared: that takes as long.
_LEAST_NS = 20_000
_MOST_COMPARED = 2_000  # results; each takes some 20 us
_SAMPLED = 64  # elements of a result
_LIKE_THE_FIRST = 1e-3  # relative; sums of several threads differ in the last digits


class RepeatedResults:
    """Follows the values of one step.

    Args:
        storages: The storages of the step.

    Attributes:
        found: 1 for each operation that computes what an earlier one has computed, else 0.
    """

    def __init__(self, storages: Provenance) -> None:
        from torch import Tensor, is_grad_enabled

        self.found: list[int] = []
        self._storages = storages
        self._tensor = Tensor
        self._last = 0
        self._known: dict[Any, list[int]] = {}
        self._first: dict[Any, list[Any] | None] = {}
        self._recorded: set[Any] = set()
        self._records: Any = is_grad_enabled
        self._compared = 0

    def wrote(self, storage: Storage) -> None:
        """An operation has written into a storage."""
        storage.value = self._new_value()

    def note(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        read: Iterable[Storage],
        made: Sequence[tuple[Any, Storage]],
        *,
        may_repeat: bool,
        took_ns: int,
    ) -> None:
        """Note an operation that has returned.

        Args:
            func: The operation.
            args: Its arguments.
            kwargs: Its keyword arguments.
            read: The storages of the tensors among these.
            made: What it has returned, with the storage of each.
            may_repeat: Whether one result would do for equal arguments: no random numbers are
                drawn, no backward pass runs it, and it is none of `NEEDED_AGAIN`.
            took_ns: Time that it took, on the host.
        """
        for storage in read:
            storage.value = storage.value or self._new_value()
        fresh = [(tensor, storage) for tensor, storage in made if not storage.value]
        if not fresh:
            self.found.append(0)
            return
        key = self._key(func, args, kwargs) if may_repeat else None
        values = self._known.get(key) if key is not None else None
        is_worth_it = key is not None and _may_be_long(fresh[0][0], took_ns)
        sample = self._sample(fresh[0][0]) if is_worth_it else None
        first = self._first.get(key)
        # Something unseen, such as an array of the same memory, may have written in between.
        is_other = sample is not None and first is not None and not _are_close(sample, first)
        if values is None or is_other or len(values) != len(fresh):
            values = [self._new_value() for _ in fresh]
            if key is not None:
                self._known[key], self._first[key] = values, sample
            sample = None
        for (_, storage), value in zip(fresh, values, strict=True):
            storage.value = value
        # A result without gradients cannot take the place of one that the backward pass needs.
        would_do = key in self._recorded or not self._records()
        if not would_do and key is not None:
            self._recorded.add(key)
        self.found.append(int(would_do and sample is not None and first is not None))

    def _new_value(self) -> int:
        self._last += 1
        return self._last

    def _key(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What is equal for operations with equal results; None if that cannot be said."""
        try:
            named = tuple((name, self._token(value)) for name, value in sorted(kwargs.items()))
            key = func, self._tokens(args), named
            hash(key)
        except (TypeError, RuntimeError, NotImplementedError):  # a sparse tensor, a generator
            return None
        return key

    def _tokens(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple([self._token(value) for value in values])

    def _token(self, value: Any) -> Any:
        if isinstance(value, self._tensor):
            layout = tuple(value.shape), value.stride(), value.storage_offset()
            return (
                self._storages.storage(value).value,
                *layout,
                value.dtype,
                value.is_conj(),
                value.is_neg(),
            )
        if isinstance(value, list | tuple):
            return self._tokens(value)
        return value.__class__, value  # 1, 1.0 and True are equal

    def _sample(self, tensor: Any) -> list[Any] | None:
        """Some elements of a result; None if it is not compared."""
        count = prod(tensor.shape)
        if not count or self._compared >= _MOST_COMPARED:
            return None
        self._compared += 1
        try:
            flat = tensor.detach().view(-1)
            found: list[Any] = flat[:: max(count // _SAMPLED, 1)].tolist()
        except (RuntimeError, NotImplementedError):  # of another layout
            return None
        return found


def _may_be_long(result: Any, took_ns: int) -> bool:
    """Whether an operation may take longer than to compare its result.

    On an accelerator, it is only launched when it returns.
    """
    return took_ns >= _LEAST_NS or result.device.type != "cpu"


def _are_close(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two samples agree up to rounding; NaN agrees with NaN."""
    return len(some) == len(others) and all(
        a == b or (a != a and b != b) or _is_close(a, b)  # noqa: PLR0124 - NaN is not itself
        for a, b in zip(some, others, strict=True)
    )


def _is_close(one: Any, other: Any) -> bool:
    if isinstance(one, complex):
        return bool(abs(one - other) <= _LIKE_THE_FIRST * abs(one))
    return isclose(one, other, rel_tol=_LIKE_THE_FIRST)
