"""The CUDA device of the training, as a profiler window sees it; nothing here waits for it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from stepwhy.capture.clock import now_ns
from stepwhy.capture.torch.cuda_graphs import is_any_captured, were_captured

_TEARDOWN = "TEARDOWN_CUPTI"
# Earlier versions may crash when CUPTI starts again.
_FIRST_SAFE_CUDA = (12, 6)
# By then a training has called CUDA, and Kineto's thread has read the variable again.
_DETACHED_NS = 500_000_000


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

    Kineto reads an environment variable when a profiler stops, detaches at the next call of CUDA,
    and reads it again after that. It is therefore set for half a second only, so that the
    training's own profilers find the environment as it was. A program with CUDA graphs is left
    alone: there, versions of CUDA have crashed when CUPTI started again.

    Source: libkineto/src/CuptiActivityApi.cpp; pytorch/pytorch#144455.

    Attributes:
        is_asked: Whether the variable is set.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._asked_ns = 0

    def ask(self) -> None:
        """The profiler is about to stop: detach, unless the user has decided or it is not safe."""
        is_safe = _cuda_version() >= _FIRST_SAFE_CUDA and not were_captured()
        if is_safe and _TEARDOWN not in os.environ:
            os.environ[_TEARDOWN] = "1"
            self.is_asked, self._asked_ns = True, now_ns()

    def next_step(self) -> None:
        """A step begins: restore the environment once CUPTI is detached."""
        if self.is_asked and now_ns() - self._asked_ns >= _DETACHED_NS:
            self.withdraw()

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
