"""Modes and subclasses by which a program is told of the functions of torch that are called.

They would be told of the observer's own calls, too, and of the attributes of tensors that it reads.

Source: torch/overrides.py, `TorchFunctionMode`; torch/utils/_device.py, `DeviceContext`.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

# Only sets the device of new tensors.
_DEVICE_MODE = "DeviceContext"


def untold() -> AbstractContextManager[None]:
    """A context in which the program is not told, if this version of PyTorch has one."""
    context: Any = getattr(sys.modules.get("torch._C"), "DisableTorchFunction", nullcontext)
    made: AbstractContextManager[None] = context()
    return made


def is_told() -> bool:
    """Whether a mode of the program is active in the calling thread."""
    from torch.overrides import _get_current_function_mode_stack

    stack: Any = _get_current_function_mode_stack
    return any(type(mode).__name__ != _DEVICE_MODE for mode in stack())


__all__ = ["is_told", "untold"]
