"""Hide stepwhy's own calls of PyTorch from a program that intercepts them.

A `TorchFunctionMode`, and `__torch_function__` of a subclass of `Tensor`, run for each call of
PyTorch and each attribute of a tensor that is read, also for those of the observer.

Source: torch/overrides.py, `TorchFunctionMode`; torch/utils/_device.py, `DeviceContext`.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

# PyTorch's own mode behind `torch.set_default_device`; it only sets the device of new tensors.
_DEVICE_MODE = "DeviceContext"


def hidden_from_modes() -> AbstractContextManager[None]:
    """Context without the program's modes and subclasses, if this version of PyTorch has one."""
    context: Any = getattr(sys.modules.get("torch._C"), "DisableTorchFunction", nullcontext)
    made: AbstractContextManager[None] = context()
    return made


def has_active_mode() -> bool:
    """Whether a `TorchFunctionMode` of the program is active in the calling thread."""
    from torch.overrides import _get_current_function_mode_stack

    stack: Any = _get_current_function_mode_stack
    return any(type(mode).__name__ != _DEVICE_MODE for mode in stack())
