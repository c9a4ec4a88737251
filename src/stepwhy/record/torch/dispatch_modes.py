"""Dispatch modes that observe the operations of a step and leave the results as they are.

They run below autograd and autocast, so that they see what these do, in both directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Run = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]


def make_mode(run: Run) -> Any:
    """A dispatch mode, of a class that is defined here because it derives from one of PyTorch's."""
    from torch.utils import _python_dispatch

    base: Any = _python_dispatch.TorchDispatchMode

    class ObservingMode(base):  # type: ignore[misc]
        """Passes each operation to `run`."""

        supports_higher_order_operators = True

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Not by Dynamo's own means, which import it: a run that compiles has no such step."""
            return False

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """Let the first function that is compiled at all be compiled within the step."""
            return True

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return run(func, args, kwargs or {})

    made: Any = ObservingMode
    return made()


class StepMode:
    """Passes the operations of a step to a function, in one step or in several.

    Args:
        run: Receives each operation, its arguments and its keyword arguments, and returns what the
            operation returns.
    """

    def __init__(self, run: Run) -> None:
        self._observe = run
        self._mode: Any = None

    @property
    def is_on(self) -> bool:
        """Whether the current step is observed."""
        return self._mode is not None

    def begin(self) -> None:
        """A step begins that is observed."""
        self._mode = make_mode(self._observe)
        self._mode.__enter__()

    def end(self, current: Any) -> bool:
        """The step has ended.

        Args:
            current: The dispatch mode on top of those of this thread.

        Returns:
            Whether the mode is gone: it cannot be removed from below one of the program.
        """
        mode = self._mode
        if mode is None:
            return True
        if current is not mode:
            return False
        self._mode = None
        mode.__exit__(None, None, None)
        return True


def run_unseen(func: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operation without calling subclasses of tensors again: they have had their turn.

    Args:
        func: The operation.
        args: Its arguments.
        kwargs: Its keyword arguments.
    """
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def is_special(tensor: Any) -> bool:
    """Whether operations of a tensor are those of a subclass, or what it tells is."""
    import torch

    kind, parameter = type(tensor), torch.nn.Parameter
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return True
    # Parameters are a subclass as well, which is told of nothing.
    return kind is not torch.Tensor and (
        kind.__torch_function__ is not parameter.__torch_function__
    )
