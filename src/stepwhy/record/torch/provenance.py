"""Where the values of tensors come from, followed storage by storage through operations.

Views share a storage, and so an origin. A storage keeps the origins of all that was written into
it, which never says less than is true.
"""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

from stepwhy.record.torch.fingerprints import bytes_of, fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

STATE = 1
"""Origin: a parameter, the state of an optimizer, or what the step itself changes."""
RANDOM = 2
"""Origin: a generator of random numbers."""
DATA = 4
"""Origin: values that are known or likely to differ from step to step."""
VARIES = STATE | RANDOM | DATA
RECORDED = 8
"""Origin: a backward pass that is recorded for a further one."""
REDUCED = 16
"""Origin: a single number made of such gradients."""
OUTSIDE, NEW = 0, -1
"""Numbers of storages, see `Storage`."""
# A part of so few may be chosen for good, such as the sources of the edges of a graph.
_FEW = 4
_FIRST_SOURCE = 5
_MOST_SOURCES = 256
# Bytes of a tensor, and of all of them, whose values are compared with those of later steps.
_LARGEST_COMPARED = 16 << 20
_MOST_COMPARED = 64 << 20
# Values that are too common to identify the tensor that they were read from.
_COMMON_SCALARS = frozenset({-1, 0, 1, 2})


class Source:
    """A tensor that the step reads and has not computed.

    Args:
        tensor: The tensor, which is not kept alive.
        seen: Fingerprint of its values when it is first read; None if they are not compared.
    """

    __slots__ = ("ref", "seen")

    def __init__(self, tensor: Any, seen: Any) -> None:
        self.ref = weakref.ref(tensor)
        self.seen = seen


def _tensors_in_memory(of: type) -> dict[int, Any]:
    """Weak references to the tensors of the process, by their addresses."""
    kinds: dict[type, bool] = {}
    found = {}
    for each in gc.get_objects():
        kind = type(each)
        if kind not in kinds:
            kinds[kind] = issubclass(kind, of)
        if kinds[kind]:
            found[id(each)] = weakref.ref(each)
    return found


class Storage:
    """A storage, which is not kept alive.

    Args:
        holder: The storage itself.
        origins: Where its values come from.
        is_outside: Whether it is from before the step.

    Attributes:
        is_fresh: Whether it was made in the step, of an array or a list.
        number: Of its values, by those who follow these; `OUTSIDE` from before the step, and `NEW`
            if it has none yet.
        maker: What makes its values, see `Makers`.
        is_named: Whether that is noted.
        value: Equal for equal values, see `RepeatedResults`; 0 until one is given.
        products: The layers that its values come from, as bits, see `SeparateProducts`; None until
            that is known.
    """

    __slots__ = (
        "holder", "is_fresh", "is_named", "is_outside", "maker", "number", "origins", "products",
        "value",
    )  # fmt: skip

    def __init__(self, holder: Any, origins: int, *, is_outside: bool) -> None:
        self.holder = weakref.ref(holder)
        self.origins = origins
        self.is_outside, self.is_fresh = is_outside, False
        self.number = OUTSIDE if is_outside else NEW
        self.maker: Any = None
        self.is_named = False
        self.value = 0
        self.products: int | None = None


class Provenance:
    """Origins of the tensors of one step, as bits: the constants above, and one for each source.

    Attributes:
        sources: Tensors from before the step that may be constants.
        varying: Those of them that are none, as bits.
        earlier: Those that were there before the step, as bits: an earlier one may have made them.
        are_all: Whether there are few enough to be told apart.
    """

    def __init__(self) -> None:
        from torch import Tensor, strided
        from torch.nn import Parameter

        self._known: dict[int, Storage] = {}
        self._scalars: dict[float, int] = {}
        self._parameter = Parameter
        self._strided = strided
        self._left = _MOST_COMPARED
        self.sources: list[Source] = []
        self.varying = self.earlier = 0
        self.are_all = True
        self._before = _tensors_in_memory(Tensor)

    def add_state(self, tensors: Sequence[Any]) -> None:
        """Declare tensors as state."""
        for tensor in tensors:
            self._meet(tensor, holder_of(tensor), STATE, is_outside=True)

    def of(self, tensor: Any) -> int:
        """Origins of a tensor, which is a source if it was not seen before."""
        return self.storage(tensor).origins

    def storage(self, tensor: Any) -> Storage:
        """The storage of a tensor, which is a source if it was not seen before."""
        holder = holder_of(tensor)
        known = self._known.get(id(holder))
        if known is None or known.holder() is not holder:
            return self._meet(tensor, holder, self._first_origin(tensor), is_outside=True)
        return known

    def wrote(self, tensor: Any, origins: int) -> bool:
        """An operation has written into a tensor: what it read is in it now.

        Returns:
            Whether the tensor is from before the step. What the step changes of it is state, but
            not what it has made of an array and then changes.
        """
        known = self.storage(tensor)
        if known.is_outside:
            self.varying |= sources_in(known.origins)
            known.origins |= DATA if known.is_fresh else STATE
        known.origins |= origins
        return known.is_outside

    def made(self, tensor: Any, origins: int) -> Storage:
        """An operation has returned a tensor: a new one, or a view of one that is known.

        Returns:
            Its storage.
        """
        holder = holder_of(tensor)
        known = self._known.get(id(holder))
        if known is None or known.holder() is not holder:
            return self._meet(tensor, holder, origins, is_outside=False)
        # A backward pass also makes views of parameters and activations.
        known.origins |= origins & ~RECORDED
        return known

    def known(self, tensor: Any) -> Storage | None:
        """The storage of a tensor; None if no operation of the step has read or made it."""
        holder = holder_of(tensor)
        known = self._known.get(id(holder))
        return known if known is not None and known.holder() is holder else None

    def read_scalar(self, value: Any, origins: int) -> None:
        """A number was read from a tensor: arguments of that value have the same origins."""
        if value.__class__ in {int, float} and value not in _COMMON_SCALARS:
            self._scalars[value] = self._scalars.get(value, 0) | origins

    def of_scalar(self, value: Any) -> int:
        """Origins of a number; 0 if it was read from no tensor."""
        return self._scalars.get(value, 0) if self._scalars else 0

    def varies(self, tensor: Any) -> None:
        """A part of a source was taken that is likely to be another one in the next step."""
        known = self.storage(tensor)
        if known.is_outside:
            self.varying |= sources_in(known.origins)
            known.origins |= DATA

    def _first_origin(self, tensor: Any) -> int:
        if isinstance(tensor, self._parameter) or (tensor.requires_grad and tensor.is_leaf):
            return STATE
        if len(self.sources) >= _MOST_SOURCES:
            self.are_all = False
        if not self.are_all or _is_part(tensor) or tensor.is_inference():
            return DATA
        place = len(self.sources)
        self.sources.append(Source(tensor, self._fingerprint(tensor)))
        before = self._before.get(id(tensor))
        if before is not None and before() is tensor:
            self.earlier |= 1 << place
        return 1 << (_FIRST_SOURCE + place)

    def _fingerprint(self, tensor: Any) -> Any:
        """What equal values share, by which a tensor is found again that each step makes anew.

        None for large tensors, and where all values are equal: those of a mask may be so by chance.
        """
        if tensor.layout is not self._strided or tensor.is_quantized or not tensor.numel():
            return None
        size = bytes_of(tensor)
        if size > min(_LARGEST_COMPARED, self._left):
            return None
        self._left -= size
        try:
            flat = tensor.detach().reshape(-1)
            is_plain = len(flat) > 1 and bool((flat == flat[0]).all())
            return None if is_plain else fingerprint(tensor)
        except RuntimeError:  # of a type, or on a device, that has no such operation
            return None

    def _meet(self, tensor: Any, holder: Any, origins: int, *, is_outside: bool) -> Storage:
        if tensor.is_quantized:
            origins |= DATA
        self._known[id(holder)] = origin = Storage(holder, origins, is_outside=is_outside)
        return origin


def has_lasting_storages(tensor: Any) -> bool:
    """Whether this version of PyTorch has one object for a storage as long as that lives."""
    return tensor.untyped_storage() is tensor.untyped_storage()


def holder_of(tensor: Any) -> Any:
    """The storage of a tensor; the tensor itself if it has none, as sparse ones."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return tensor


def sources_in(origins: int) -> int:
    """The sources among origins, as bits from 0."""
    return origins >> _FIRST_SOURCE


def _is_part(tensor: Any) -> bool:
    """Whether a tensor is a part of a larger storage, chosen where it was not seen."""
    try:
        return bool(tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes())
    except (NotImplementedError, RuntimeError):
        return False


def takes_another_part(name: str, args: Sequence[Any]) -> bool:
    """Whether a part of a tensor is likely to be another one in the next step, as a batch is.

    The beginning of a table is not, unless it is one of numbers, which may be an order of rows.
    """
    tensor, dim, start, end = (*args, 0, None, None)[:4] if len(args) < 4 else args[:4]
    if not tensor.dim() or tensor.shape[dim] <= _FEW:
        return False
    if name == "aten::select":
        return True
    return bool(start) or (tensor.dim() == 1 and end is not None and end < tensor.shape[0])
