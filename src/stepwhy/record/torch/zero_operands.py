"""Find products of which one operand is almost only zeros, and what they take without the zeros.

Some values of each operand of the longer products are looked at. Where most of them are zero, it is
read as a whole, and the product is repeated beside what could take its place: a scaling by the
diagonal, one product per block, a product of the rows and columns that are not zero, a sum of rows
for each row, or a transposed convolution. Both times are of the same shapes, threads and moment.

Zeros that activations happen to have, as behind a ReLU, do not count: what depends on parameters
must be zero in a pattern that does not come about by chance. Nothing of the training is changed.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from math import gcd, prod
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.torch.provenance import STATE, VARIES, sources_in
from stepwhy.record.torch.subnormals import places_among

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from stepwhy.record.torch.provenance import Storage

    Way = tuple[str, int, Callable[[], Any]]
    _Ways = Callable[[float], Iterator[Way]]
    _Tensors = Sequence[tuple[Any, Storage]]

DIAGONAL, BLOCKS, COMPACT, FEW, SCATTERED, STUFFED = (
    "diagonal", "blocks", "compact", "few", "scattered", "stuffed",
)  # fmt: skip
"""Patterns: only the diagonal, or blocks along it, are not zero; most rows or columns are zero;
each row has the same few values; any other; only every n-th place of an image is not zero."""
_OF_TWO = frozenset({"aten::mm", "aten::bmm"})
_OF_THREE = frozenset({"aten::addmm", "aten::baddbmm"})
_CONVOLUTION = "aten::convolution"
PRODUCTS = _OF_TWO | _OF_THREE | {_CONVOLUTION}
# Shorter operations take the time of a launch, with zeros or without.
_SHORTEST_NS = 50_000
_FEWEST_VALUES = 4096
# With fewer zeros, a sum of rows takes longer than the dense product on most CPUs.
_LEAST_ZEROS = 0.7
# Zeros between the values of a row, in one dimension, are half of them.
_LEAST_STUFFED = 0.45
_LOOKED_AT_AGAIN = 0.1  # 128 values show a share this exactly
_MOST_VALUES = 1 << 26  # of an operand, which is read as a whole
_MOST_NONZERO = 1 << 21  # of its values, whose indices take 16 bytes each
_MOST_NS = 500_000_000  # of all repetitions
_MOST_OP_NS = 150_000_000
# The first time may include what a library prepares for the shapes.
_LONG_NS, _TIMES, _TIMES_LONG = 10_000_000, 6, 4
_FEWEST_STUFFED = 3  # places with values in a dimension; of fewer, the distance may be by chance
_NEW = ("aten::new_", "aten::empty")  # their arguments only give the type
_FEWEST_ROWS = 8  # of the same few values; of fewer, that may be by chance
_MOST_DEPTH = 4  # conversions, and other operations by element, that make an operand
_PER_MILLE = 1000


class ZeroOperand(NamedTuple):
    """A product with an operand that is almost only zeros.

    Args:
        op: Its number in the step.
        share: Zeros in the operand, per mille.
        pattern: Where its other values are, one of the constants of this module.
        size: How many blocks, values per row, or places per value; 0 for other patterns.
        shape: Of the operand, such as '2048x2048'.
        time_ns: Time of a repetition.
        without_ns: Time of what can take its place.
        sources: What the operand depends on, as bits; -1 if it varies.
    """

    op: int
    share: int
    pattern: str
    size: int
    shape: str
    time_ns: int
    without_ns: int
    sources: int


class ZeroOperands:
    """The products of one step that have such an operand.

    Attributes:
        found: These products.
    """

    def __init__(self) -> None:
        self.found: list[ZeroOperand] = []
        self._measured: dict[Any, tuple[int, str, int, int, int] | None] = {}
        self._left_ns = _MOST_NS
        self._made: dict[Storage, list[tuple[int, list[Storage]]]] = {}
        # Whether it would not be computed at all, or as much smaller a tensor.
        self._operands: dict[Storage, bool] = {}

    def made(self, name: str, read: _Tensors, made: _Tensors, *, place: int) -> None:
        """Note which operations make a large tensor, and of which equally large ones.

        Args:
            name: Of the operation.
            read: The tensors that it reads, with their storages.
            made: Those that it returns.
            place: Its number in the step.
        """
        is_new = name in PRODUCTS or name.startswith(_NEW) or name.endswith("_like")
        for tensor, storage in made:
            size = tensor.numel()
            if size >= _FEWEST_VALUES:
                like = [] if is_new else [s for t, s in read if _FEWEST_VALUES <= t.numel() <= size]
                self._made.setdefault(storage, []).append((place, like))

    def rows(self, lasting: int | None = None) -> list[tuple[Any, ...]]:
        """The products as they are written, each with whether its operand is a constant, or -1.

        Args:
            lasting: The sources that are constants, as bits; None if they are not yet known.
        """
        known = -1 if lasting is None else lasting
        return [
            (*one[:-1], -1 if lasting is None else int(0 <= one.sources == one.sources & known))
            for one in self.found
        ]

    @property
    def makers(self) -> list[int]:
        """The operations that make these operands, by their numbers in the step."""
        found: set[int] = set()
        level, known = set(self._operands), set(self._operands)
        for _ in range(_MOST_DEPTH):
            ways = [(s, *way) for s in level for way in self._made.get(s, ())]
            found.update(place for _, place, _ in ways)
            # Of zeros that are chosen among activations, the activations are computed in any case.
            followed = (like for s, _, like in ways if self._operands.get(s, True))
            level = {storage for like in followed for storage in like} - known
            known |= level
        return sorted(found)

    def note(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        name: str,
        storage_of: Callable[[Any], Storage],
        *,
        place: int,
        took_ns: int,
        in_backward: bool,
    ) -> None:
        """Note a product that has returned, on the thread that ran it; never raises.

        Args:
            func: The operation.
            args: Its arguments.
            kwargs: Its further arguments.
            name: Its name.
            storage_of: Gives the storage of a tensor.
            place: Its number in the step.
            took_ns: Its time.
            in_backward: Whether the backward pass runs it. There only operands of the forward pass
                count: gradients are zero wherever something was not used.
        """
        if name not in PRODUCTS or took_ns < _SHORTEST_NS or kwargs.get("out") is not None:
            return
        with contextlib.suppress(Exception):  # of a type or layout that cannot be read like this
            for number, operand, ways in _operands(name, args):
                storage = storage_of(operand)
                if in_backward and storage not in self._operands:
                    continue
                least = _LEAST_STUFFED if name == _CONVOLUTION else _LEAST_ZEROS
                if _sampled_zeros(operand) < least - _LOOKED_AT_AGAIN:
                    continue
                of_state = bool(storage.origins & STATE)
                tensors = [one for one in args if hasattr(one, "stride") and hasattr(one, "shape")]
                layouts = tuple((one.shape, one.stride()) for one in tensors)
                key = func, number, storage, of_state, layouts
                if key not in self._measured:
                    most_ns = min(_MOST_OP_NS, self._left_ns // (2 * _TIMES_LONG))
                    call = _call(func, args, kwargs) if took_ns <= most_ns else None
                    self._measured[key] = self._measure(call, operand, ways, of_state=of_state)
                if self._measured[key] is not None:
                    self._add(place, operand, storage, self._measured[key])
                    return

    def _add(self, place: int, operand: Any, storage: Storage, about: Any) -> None:
        """Keep what is known of a product."""
        share, pattern, size, time_ns, without_ns = about
        sources = -1 if storage.origins & VARIES else sources_in(storage.origins)
        shape = "x".join(map(str, operand.shape))
        one = ZeroOperand(place, share, pattern, size, shape, time_ns, without_ns, sources)
        self.found.append(one)
        self._operands[storage] = pattern in {DIAGONAL, BLOCKS} or not storage.origins & STATE

    def _measure(
        self, call: Callable[[], Any] | None, operand: Any, ways: _Ways, *, of_state: bool
    ) -> tuple[int, str, int, int, int] | None:
        """Share of zeros, pattern, its size, time and time without the zeros; None if dense."""
        if operand.numel() > _MOST_VALUES or operand.device.type != "cpu":
            return None
        if self._left_ns <= 0:
            return None if of_state else (_PER_MILLE, SCATTERED, 0, 0, 0)
        began_ns = time.perf_counter_ns()
        nonzero = int(operand.count_nonzero())
        share = 1 - nonzero / operand.numel()
        found = None
        chosen = list(ways(share)) if nonzero <= _MOST_NONZERO else []
        if of_state:
            chosen = [way for way in chosen if way[0] not in {SCATTERED, COMPACT}]
        if chosen and call is None:
            found = round(share * _PER_MILLE), *chosen[0][:2], 0, 0
        elif chosen and call is not None:
            time_ns, *others = _shortest_ns([call, *(way for _, _, way in chosen)])
            without_ns, (pattern, size, _) = min(
                zip(others, chosen, strict=True), key=itemgetter(0)
            )
            found = round(share * _PER_MILLE), pattern, size, time_ns, without_ns
        self._left_ns -= time.perf_counter_ns() - began_ns
        return found


def _call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any]:
    """What repeats an operation, with the gradients of a convolution."""
    if func.name().startswith(_CONVOLUTION):
        return partial(_convolve, args, _differentiated(*args[:2]))
    return partial(func, *args, **kwargs)


def _operands(name: str, args: Sequence[Any]) -> Iterator[tuple[int, Any, _Ways]]:
    """Each operand that may be almost only zeros, as the first factor, and ways without them."""
    if name == _CONVOLUTION:
        yield 0, args[0], lambda share: _without_stuffing(args, share)
        return
    first, second = args[-2:] if name in _OF_TWO else args[1:3]
    for number, (one, other) in enumerate(((first, second), (second.mT, first.mT))):
        yield number, one, partial(_without_zeros, one, other)


def _sampled_zeros(tensor: Any) -> float:
    """Share of zeros in some values of a tensor, 0..1; 0 for small ones, and for integers."""
    size = tensor.numel()
    if size < _FEWEST_VALUES or not tensor.is_floating_point():
        return 0.0
    values = tensor.detach().take(places_among(size))
    return float((values == 0).sum()) / len(values)


def _without_zeros(operand: Any, other: Any, share: float) -> Iterator[Way]:
    """What can take the place of a product; each does about the same work as its result needs."""
    import torch

    if share < _LEAST_ZEROS:
        return
    whole, columns = operand.detach(), other.detach()
    if whole.dim() == 3 and whole.stride(0) == 0:
        # One matrix for all examples: their columns side by side.
        whole = whole[0]
        beside = columns.permute(1, 0, 2)
        yield from _without_zeros_of_one(whole, lambda: beside.reshape(beside.shape[0], -1))
        return
    if whole.dim() == 2:
        # A parameter may as well be stored in the other order.
        in_rows = columns.contiguous()
        yield from _without_zeros_of_one(whole, lambda: in_rows)
        return
    batch, row, column = whole.nonzero(as_tuple=True)
    values = whole[batch, row, column]
    if bool((row == column).all()):
        scale = torch.ones_like(whole[:, :, :1])
        yield DIAGONAL, 0, lambda: columns[:, : whole.shape[1]] * scale
        return
    rows, flat = batch * whole.shape[1] + row, columns.reshape(-1, columns.shape[-1])
    places = batch * whole.shape[2] + column
    count = whole.shape[0] * whole.shape[1]
    yield SCATTERED, 0, _sum_of_rows(rows, places, values, count, lambda: flat)


def _without_zeros_of_one(whole: Any, columns: Callable[[], Any]) -> Iterator[Way]:
    import torch

    row, column = whole.nonzero(as_tuple=True)
    values = whole[row, column]
    if whole.shape[0] == whole.shape[1] and bool((row == column).all()):
        scale = torch.ones_like(whole[:, :1])
        yield DIAGONAL, 0, lambda: columns() * scale
        return
    blocks, height, width = _blocks(row, column, *whole.shape)
    if blocks > 1:
        square = torch.ones(blocks, height, width, dtype=whole.dtype, device="cpu")
        beside = torch.ones(blocks, width, columns().shape[-1], dtype=whole.dtype, device="cpu")
        yield BLOCKS, blocks, lambda: torch.bmm(square, beside)
    counts = [torch.bincount(one) for one in (row, column)]
    few = [
        int(each[0])
        for each, size in zip(counts, whole.shape, strict=True)
        if len(each) == size >= _FEWEST_ROWS and bool((each == each[0]).all())
    ]
    used = int((counts[0] > 0).sum()), int((counts[1] > 0).sum())
    summed = _sum_of_rows(row, column, values, whole.shape[0], columns)
    yield (FEW, few[0], summed) if few else (SCATTERED, 0, summed)
    if 2 * used[0] * used[1] <= whole.numel():
        small = torch.ones(used, dtype=whole.dtype, device="cpu")
        chosen = counts[1].nonzero()[:, 0]
        yield COMPACT, 0, lambda: small @ columns().index_select(0, chosen)


def _sum_of_rows(
    rows: Any, places: Any, values: Any, count: int, columns: Callable[[], Any]
) -> Callable[[], Any]:
    """A product with a sparse matrix, as the weighted sum of some rows for each row."""
    import torch

    starts = torch.searchsorted(rows, torch.arange(count, device="cpu"))
    bag = torch.embedding_bag
    return lambda: bag(columns(), places, starts, False, 0, False, values)


def _blocks(row: Any, column: Any, rows: int, columns: int) -> tuple[int, int, int]:
    """How many blocks lie along the diagonal, their rows and columns; of the largest one."""
    import torch

    if rows == columns:
        # A cut lies where no value is in a row on one side and a column on the other.
        low, high = torch.minimum(row, column) + 1, torch.maximum(row, column) + 1
        covered = torch.zeros(rows + 2, dtype=torch.int64, device="cpu")
        one = torch.ones_like(low)
        covered.index_add_(0, low, one).index_add_(0, high, -one)
        cuts = (covered.cumsum(0)[1:rows] == 0).nonzero()[:, 0] + 1
        ends = torch.cat([cuts.new_zeros(1), cuts, cuts.new_full((1,), rows)])
        largest = int(ends.diff().max())
        # Smaller ones share a block of that size.
        return -(-rows // largest), largest, largest
    common = gcd(rows, columns)
    for blocks in (n for n in range(common, 1, -1) if common % n == 0):
        if bool((row // (rows // blocks) == column // (columns // blocks)).all()):
            return blocks, rows // blocks, columns // blocks
    return 1, rows, columns


def _without_stuffing(args: Sequence[Any], share: float) -> Iterator[Way]:
    """The transposed convolution of an input that has zeros between its values."""
    image, weight, bias, stride, padding, dilation, transposed, _, groups = args[:9]
    is_plain = not transposed and groups == 1 and all(n == 1 for n in (*stride, *dilation))
    if share < _LEAST_STUFFED or not is_plain:
        return
    small, steps = image.detach(), []
    for dim in range(2, image.dim()):
        others = [d for d in range(image.dim()) if d != dim]
        used = (image.detach() != 0).sum(others).nonzero()[:, 0]
        apart = used.diff().unique().tolist()
        step = gcd(*apart) if len(used) >= _FEWEST_STUFFED else 1
        steps.append(step)
        small = small.narrow(dim, int(used[0]), image.shape[dim] - int(used[0]))
        small = small[(slice(None),) * dim + (slice(None, None, step),)]
    if max(steps) == 1:
        return
    kernel, values = weight.detach().transpose(0, 1).contiguous(), small.contiguous()
    sizes = zip(weight.shape[2:], padding, steps, image.shape[2:], small.shape[2:], strict=True)
    around, rest = [], []
    for size, pad, step, large, few in sizes:
        around.append(max(size - 1 - pad, 0))
        missing = large + 2 * pad - size + 1 - ((few - 1) * step - 2 * around[-1] + size)
        rest.append(min(max(missing, 0), step - 1))
    about = values, kernel, bias, steps, around, dilation, True, rest, 1
    yield STUFFED, prod(steps), partial(_convolve, about, _differentiated(image, weight))


def _differentiated(image: Any, weight: Any) -> list[bool]:
    """Which arguments of a convolution have a gradient, as far as that takes much time."""
    return [image.requires_grad, weight.requires_grad, False]


def _convolve(args: Sequence[Any], mask: list[bool]) -> None:
    """A convolution and its gradients, which may take much longer."""
    import torch

    made = torch.ops.aten.convolution.default(*args)
    if any(mask):
        image, weight, _, *rest = args
        backward = torch.ops.aten.convolution_backward.default
        backward(torch.ones_like(made), image, weight, None, *rest, mask)


def _shortest_ns(calls: Sequence[Callable[[], Any]]) -> list[int]:
    """Shortest of several times of each call: one in which no other program had the core."""
    shortest = [1 << 62] * len(calls)
    for turn in range(_TIMES):
        if turn >= _TIMES_LONG and shortest[0] >= _LONG_NS:
            break
        for number, call in enumerate(calls):
            start_ns = time.perf_counter_ns()
            call()
            shortest[number] = min(shortest[number], time.perf_counter_ns() - start_ns)
    return shortest
