"""Tensors that each step makes anew of the same values: `torch.tensor([...])`, `from_numpy`.

Nothing of such a tensor is left in a later step. So two later steps are watched for tensors of the
same values: three and four steps later, in which batches that are used in turn are others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.torch.cuda_graphs import is_any_captured
from stepwhy.record.torch.dispatch_modes import StepMode, run_unseen
from stepwhy.record.torch.fingerprints import bytes_of, fingerprint
from stepwhy.record.torch.function_modes import hidden_from_modes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

# Of all tensors of a step that are compared; 0.1 s.
_MOST_BYTES = 128 << 20
# Tensors of one shape and type; activations may have those of a constant.
_MOST_ALIKE = 32


class FreshConstants(StepMode):
    """Watches steps for tensors of known values.

    Args:
        known: Fingerprint of each source that is to be found again, by its place.

    Attributes:
        left: The places of those that each step so far has had.
    """

    def __init__(self, known: Mapping[int, Any]) -> None:
        from torch import Tensor

        super().__init__(self._run)
        self._plain = Tensor
        self._known = known
        self.left = set(known)
        self._start_step()

    def _start_step(self) -> None:
        self._wanted: dict[Any, set[int]] = {}
        self._alike: dict[Any, int] = {}
        self._bytes = _MOST_BYTES
        self.found: set[int] = set()
        for place in self.left:
            self._wanted.setdefault(self._known[place][:2], set()).add(place)

    def begin(self) -> None:
        """A step begins that is watched."""
        self._start_step()
        super().begin()

    def end(self, current: Any) -> bool:
        """The step has ended; see `StepMode`."""
        if self.is_on and self._wanted:
            self.left &= self.found
        self._wanted = {}
        return super().end(current)

    def give_up(self, current: Any) -> None:
        """Find none: the step is not watched to its end."""
        self.left = set()
        self.end(current)

    def _run(self, func: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an operation as it is, after its arguments were compared."""
        if is_any_captured():
            self._wanted, self.left = {}, set()
        elif any(self._wanted.values()):
            self._look_safely(args)
        return run_unseen(func, args, kwargs)

    def _look_safely(self, values: Iterable[Any]) -> None:
        """Compare the tensors among the arguments of an operation; never raises."""
        try:
            with hidden_from_modes():
                self._look(values)
        except Exception:
            self._wanted = {}
            self.left = set()

    def _look(self, values: Iterable[Any]) -> None:
        for value in values:
            if value.__class__ is list or value.__class__ is tuple:
                self._look(value)
            elif value.__class__ is self._plain:
                self._compare(value)

    def _compare(self, tensor: Any) -> None:
        key = tuple(tensor.shape), tensor.dtype
        places = self._wanted.get(key)
        if not places or tensor.requires_grad:
            return
        self._alike[key] = self._alike.get(key, 0) + 1
        self._bytes -= bytes_of(tensor)
        if self._alike[key] > _MOST_ALIKE or self._bytes < 0:
            return
        seen = fingerprint(tensor)
        same = {place for place in places if self._known[place] == seen}
        self.found |= same
        places -= same
