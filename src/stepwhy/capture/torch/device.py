"""The CUDA device of the training, as a profiler window sees it; nothing here waits for it."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from stepwhy.capture.torch.cuda_graphs import is_any_captured


def is_in_use() -> bool:
    """Whether the process uses CUDA or ROCm; a machine with a device may train on the CPU.

    Profiling the device of a process that uses none would make a context on it.
    """
    return bool(_cuda().is_initialized())


def holds_tensors() -> bool:
    """Whether tensors of the process are on a device; False if unknown."""
    cuda = _cuda()
    try:
        return any(cuda.memory_allocated(number) for number in range(cuda.device_count()))
    except Exception:
        return False


def launch_nothing() -> None:
    """Launch a kernel that does nothing, unless a thread captures a graph; never raises.

    A profiler that stops before it has recorded any work of the device can leave CUPTI dead: later
    profiles of the process then lack all kernels. Seen with CUDA 13.0 and PyTorch 2.13. A launch
    would become part of a graph that this thread captures, and may end the capture of another one.
    """
    with contextlib.suppress(Exception):
        cuda = _cuda()
        if not (is_any_captured() or cuda.is_current_stream_capturing()):
            cuda._sleep(1)


def _cuda() -> Any:
    return sys.modules["torch"].cuda
