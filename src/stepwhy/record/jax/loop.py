"""The training loop of a JAX process, shared by everything that observes it."""

from __future__ import annotations

import functools

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.jax.launched_work import LaunchedWork
from stepwhy.record.jax.profiler import JaxProfiler
from stepwhy.record.steps.call_log import CallLog
from stepwhy.record.steps.loop import Loop
from stepwhy.record.windows.clocked_window import ClockedWindow
from stepwhy.record.windows.xplane_window import XPlaneWindow


@functools.cache
def profiler() -> JaxProfiler:
    """The profiler of this process."""
    return JaxProfiler()


@functools.cache
def launched_work() -> LaunchedWork:
    """What the last step of this process has launched."""
    return LaunchedWork()


@functools.cache
def loop_of(run_dir: str) -> Loop:
    """The loop of this process."""
    from jax.version import __version__

    recorder = Recorder(run_dir, "jax", str(__version__), "jax-jit")
    window = XPlaneWindow(recorder, profiler(), launched_work().unfinished)
    loop = Loop(recorder, ClockedWindow(recorder, window))
    loop.ahead, loop.launched = launched_work().ahead, launched_work().note
    return loop


@functools.cache
def calls_of(run_dir: str) -> CallLog:
    """The log of calls, one for functions and for the annotations around them."""
    return CallLog(loop_of(run_dir))
