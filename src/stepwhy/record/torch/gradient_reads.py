"""Notice whether the program itself reads the gradients of some parameters.

A norm that is logged, a sum of squares, or an update by hand uses a gradient that no optimizer has.
While parameters are watched, `grad` of `torch.nn.Parameter` is a property that notes who reads it
and otherwise does the same. Whether a gradient is there, or how large it is, needs no gradient, and
neither does clearing it. PyTorch's clipping reads gradients only to change them.
"""

from __future__ import annotations

import contextlib
import dis
import sys
import weakref
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from stepwhy.record.core.compiled_code import never_compiled
from stepwhy.record.torch.semantic_obstacles import is_compiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType
    from typing import Any

COMPILED = "torch.compile is in use, so whether the program reads gradients cannot be observed"
OBSCURED = (
    "a leaf is no plain parameter, or `grad` of parameters was replaced, so whether the program "
    "reads gradients cannot be observed"
)

_NAME = "grad"
# Clear gradients, in `torch.optim`, in `torch.nn` and in programs.
_CLEARING = "zero_grad"
_CLIPPING = "torch.nn.utils.clip_grad"
# Of a gradient; all others may pass its values on.
_NEEDS_NO_VALUES = frozenset(
    {
        "zero_", "detach_", "requires_grad_", "requires_grad", "grad_fn", "is_sparse", "is_leaf",
        "device", "dtype", "shape", "layout", "size", "dim", "numel", "is_cuda",
    }
)  # fmt: skip
_PASSES_ON = "data"  # `p.grad.data.zero_()`


class GradientReads:
    """Reads of the gradients of some parameters.

    Attributes:
        is_on: Whether any are watched.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._watched: dict[int, weakref.ref[Any]] = {}
        self._read: set[int] = set()
        self._places: dict[tuple[CodeType, int], bool] = {}
        self._property: Any = None

    def obstacle(self, leaves: Iterable[Any]) -> str:
        """Why the reads of the gradients of some leaves cannot be noticed; '' if they can."""
        from torch.nn import Parameter

        if is_compiled():
            return COMPILED
        is_ours = Parameter.__dict__.get(_NAME) is self._property
        is_known = all(type(leaf) is Parameter for leaf in leaves)
        return "" if is_ours and is_known else OBSCURED

    def watch(self, leaves: Iterable[Any]) -> None:
        """Watch parameters from now on; `obstacle` must have found none."""
        self._watched |= {id(leaf): weakref.ref(leaf) for leaf in leaves}
        if not self.is_on:
            self._begin()

    def any_of(self, leaves: Iterable[weakref.ref[Any]]) -> bool:
        """Whether the program has read a gradient of any of them."""
        known = (leaf() for leaf in leaves)
        return any(leaf is not None and id(leaf) in self._read for leaf in known)

    def forget(self) -> None:
        """Forget what was read so far."""
        self._read = set()

    def end(self) -> None:
        """Watch none from now on, and forget what was read; never raises."""
        made, self._property = self._property, None
        self._watched, self._read, self._places = {}, set(), {}
        self.is_on = False
        if made is None:
            return
        with contextlib.suppress(Exception):
            from torch.nn import Parameter

            if Parameter.__dict__.get(_NAME) is made:
                del Parameter.grad

    def _begin(self) -> None:
        import torch

        plain: Any = torch.Tensor.grad
        get = plain.__get__

        @never_compiled
        def read(parameter: Any) -> Any:
            gradient = get(parameter)
            if gradient is not None and id(parameter) in self._watched:
                self._note(parameter, sys._getframe(1))
            return gradient

        made: Any = property(read, plain.__set__, plain.__delete__, plain.__doc__)
        kind: Any = torch.nn.Parameter
        self._property = kind.grad = made
        self.is_on = True

    def _note(self, parameter: Any, frame: FrameType) -> None:
        """A frame reads the gradient of a watched parameter; never raises."""
        try:
            is_use = self._watched[id(parameter)]() is parameter and self._uses(frame)
        except Exception:
            is_use = True
        if is_use:
            self._read.add(id(parameter))

    def _uses(self, frame: FrameType) -> bool:
        """Whether a frame may do more than test, clear or clip a gradient that it reads."""
        if frame.f_globals.get("__name__") == _CLIPPING:
            return False
        place = frame.f_code, frame.f_lasti
        if place not in self._places:
            self._places[place] = _uses(*place)
        return self._places[place]


def _uses(code: CodeType, offset: int) -> bool:
    """Whether code that reads a gradient at an offset may do more than test or clear it."""
    if code.co_name == _CLEARING:
        return False
    following = _after(code, offset)
    first = next(following)
    while first.opname.startswith("LOAD_") and first.argval == _PASSES_ON:
        first = next(following)
    if first.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
        return first.argval not in _NEEDS_NO_VALUES
    is_none = first.opname == "LOAD_CONST" and first.argval is None
    tests = (is_none and next(following).opname == "IS_OP") or first.opname.endswith("_NONE")
    return not tests


def _after(code: CodeType, offset: int) -> Iterator[dis.Instruction]:
    """The instructions behind one that reads an attribute; others read it in a way of their own."""
    # A property that is called without a call in C leaves the offset behind the instruction.
    until = list(takewhile(lambda each: each.offset <= offset, dis.get_instructions(code)))
    if until[-1].opname.startswith("LOAD_ATTR"):
        yield from islice(dis.get_instructions(code), len(until), None)
