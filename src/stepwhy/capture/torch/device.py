"""The CUDA device of the training, as a profiler window sees it; nothing here waits for it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from stepwhy.capture.torch.cuda_graphs import is_any_captured

_TEARDOWN = "TEARDOWN_CUPTI"
# Earlier versions crash when CUPTI starts again in a program with CUDA graphs.
_FIRST_SAFE_CUDA = (12, 6)


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


class CuptiTeardown:
    """Let Kineto detach CUPTI after a window, which slows each launch as long as it is attached.

    Kineto reads an environment variable when a profiler stops, and detaches at the next call of
    CUDA. It is therefore set during one step only, so that the training's own profilers find the
    environment as it was. CUPTI attaches again with the next profiler.

    Source: libkineto/src/CuptiActivityApi.cpp; pytorch/pytorch#144455.

    Attributes:
        is_asked: Whether the variable is set.
    """

    def __init__(self) -> None:
        self.is_asked = False

    def ask(self) -> None:
        """The profiler is about to stop: detach, unless the user has decided or it is not safe."""
        if _TEARDOWN not in os.environ and _cuda_version() >= _FIRST_SAFE_CUDA:
            os.environ[_TEARDOWN] = "1"
            self.is_asked = True

    def withdraw(self) -> None:
        """Restore the environment, unless somebody has changed it since."""
        if self.is_asked and os.environ.get(_TEARDOWN) == "1":
            del os.environ[_TEARDOWN]
        self.is_asked = False


def _cuda_version() -> tuple[int, ...]:
    """The version of CUDA that PyTorch was built for; () for none, or for ROCm."""
    try:
        return tuple(map(int, sys.modules["torch"].version.cuda.split(".")[:2]))
    except (AttributeError, KeyError, ValueError):
        return ()


def _cuda() -> Any:
    return sys.modules["torch"].cuda
