"""Whether later steps read what a step has left behind, such as the last values of a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.torch.dispatch_modes import StepMode, run_unseen
from stepwhy.record.torch.provenance import holder_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from stepwhy.record.torch.result_use import Waiting

# A few microseconds for each, and 10 to 20 by PyTorch.
_MOST_OPS = 20_000


class LaterReads(StepMode):
    """Watches steps for operations that read some storages.

    Args:
        waiting: The storages, which are not kept alive.

    Attributes:
        read: Numbers of those that were read, or may be unseen.
    """

    def __init__(self, waiting: Sequence[Waiting]) -> None:
        from torch import Tensor

        super().__init__(self._run)
        self._tensor = Tensor
        self._waiting = {id(one.holder()): one for one in waiting if one.holder() is not None}
        self._left = _MOST_OPS
        self.read: set[int] = set()

    @property
    def is_over(self) -> bool:
        """Whether each of them was read, or is gone."""
        self._waiting = {key: one for key, one in self._waiting.items() if one.holder() is not None}
        return not self._waiting

    def stop(self) -> None:
        """Watch no further: what is still there may be read."""
        self.read.update(one.number for one in self._waiting.values() if one.holder() is not None)
        self._waiting = {}

    def note(self, tensor: Any) -> None:
        """Something reads a tensor."""
        holder = holder_of(tensor)
        known = self._waiting.get(id(holder))
        if known is not None and known.holder() is holder:
            self.read.add(known.number)
            del self._waiting[id(holder)]

    def _run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an operation as it is, after its arguments were noted."""
        if self._waiting:
            self._left -= 1
            try:
                self._note_all(args)
                self._note_all(kwargs.values())
            except Exception:
                self._left = -1
            if self._left < 0:
                self.stop()
        return run_unseen(func, args, kwargs)

    def _note_all(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, self._tensor):
                self.note(value)
            elif isinstance(value, list | tuple):
                self._note_all(value)
