"""Notice what is read of tensors without an operation that a dispatch mode sees.

The host reads values as an array, a list or a text, by their address, or to pickle them. A backward
pass needs the graph of its outputs, whose values it may not read.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING

from stepwhy.record.core.compiled_code import never_compiled

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Source: torch/_tensor.py and torch/csrc/autograd/python_variable_methods.cpp; `__array__` calls
# `numpy`, and sharing, saving and copying a tensor goes by its storage.
_METHODS = ("numpy", "tolist", "data_ptr", "_typed_storage", "__dlpack__", "__reduce_ex__")
# Turns modes off to read the values, torch/_tensor_str.py.
_TEXT = "_str"
# Both `torch.autograd.backward` and `torch.autograd.grad` call it, torch/autograd/__init__.py.
_BACKWARD = "_engine_run_backward"


class TensorReads:
    """Observes the reads of all tensors while it is on, in all threads.

    Args:
        on_read: Called with each tensor before it is read; may raise nothing.
    """

    def __init__(self, on_read: Callable[[Any], None]) -> None:
        self._on_read = on_read
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def begin(self) -> None:
        """Observe reads from now on.

        Raises:
            AttributeError: This version of PyTorch lacks one of the functions.
        """
        from torch import Tensor, _tensor_str, autograd

        try:
            for name in _METHODS:
                self._replace(Tensor, name, self._on_read)
            self._replace(_tensor_str, _TEXT, self._on_read)
            self._replace(autograd, _BACKWARD, self._read_all)
        except AttributeError:
            self.end()
            raise

    def end(self) -> None:
        """Observe none from now on; never raises."""
        while self._replaced:
            owner, name, plain, made = self._replaced.pop()
            with contextlib.suppress(Exception):
                if vars(owner).get(name) is not made:
                    continue  # something else was put in its place
                if plain is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, plain)

    def _read_all(self, outputs: Any) -> None:
        for output in outputs:
            self._on_read(output)

    def _replace(self, owner: Any, name: str, before: Callable[[Any], None]) -> None:
        from torch.overrides import handle_torch_function, has_torch_function_unary

        plain = getattr(owner, name)
        is_native = inspect.ismethoddescriptor(plain)

        @never_compiled
        @functools.wraps(plain)
        def read(first: Any, *args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(Exception):
                before(first)
            # PyTorch would pass `read` to `__torch_function__`, which may look for the original.
            if is_native and has_torch_function_unary(first):
                return handle_torch_function(plain, (first,), first, *args, **kwargs)
            return plain(first, *args, **kwargs)

        # What a base class has is none of the attributes of the class itself.
        self._replaced.append((owner, name, vars(owner).get(name), read))
        setattr(owner, name, read)
