"""The CUDA device of the training, as a profiler window sees it; nothing here waits for it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from stepwhy.record.torch import request_thread
from stepwhy.record.torch.cuda_graphs import is_any_captured, were_captured

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEARDOWN = "TEARDOWN_CUPTI"
# Earlier versions may crash when CUPTI starts again.
_FIRST_SAFE_CUDA = (12, 6)
_DETACHED_S = 0.5  # at most; it takes a few milliseconds
_INTERVAL_S = 0.0005


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


@contextlib.contextmanager
def detaching_cupti() -> Iterator[None]:
    """A profiler stops in this context: have Kineto detach CUPTI, which slows every launch.

    While CUPTI stays attached, launching takes a fifth to a third longer, for the rest of the
    process (measured on an H100). Kineto detaches it if an environment variable is set: a thread of
    its own waits until a call of CUDA ends, and detaches there. A process that makes no such call
    hangs when it ends, because that thread still waits. So this context calls CUDA until the
    thread has ended.

    Kineto is left alone where the user has decided, and in a program with CUDA graphs: there,
    versions of CUDA have crashed when CUPTI started again.

    Source: libkineto/src/CuptiActivityApi.cpp; pytorch/pytorch#144455.
    """
    is_safe = _cuda_version() >= _FIRST_SAFE_CUDA and not were_captured()
    if not is_safe or _TEARDOWN in os.environ:
        yield
        return
    before = request_thread.threads()
    os.environ[_TEARDOWN] = "1"
    try:
        yield
    finally:  # also if the profiler failed: its thread may wait all the same
        _call_until_ended(request_thread.threads() - before)
        if os.environ.get(_TEARDOWN) == "1":
            del os.environ[_TEARDOWN]


def _call_until_ended(threads: set[str]) -> None:
    """Call CUDA until some threads have ended, for a limited time."""
    deadline_s = time.monotonic() + _DETACHED_S
    while threads & request_thread.threads() and time.monotonic() < deadline_s:
        with contextlib.suppress(Exception):
            _cuda().current_stream().query()
        time.sleep(_INTERVAL_S)


def _cuda_version() -> tuple[int, ...]:
    """The version of CUDA that PyTorch was built for; () for none, or for ROCm."""
    try:
        return tuple(map(int, sys.modules["torch"].version.cuda.split(".")[:2]))
    except (AttributeError, KeyError, ValueError):
        return ()


def _cuda() -> Any:
    return sys.modules["torch"].cuda
