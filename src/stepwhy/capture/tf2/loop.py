"""The training loop of a TensorFlow 2 process, shared by everything that observes it."""

from __future__ import annotations

import functools

from stepwhy.capture.call_log import CallLog
from stepwhy.capture.clocked_window import ClockedWindow
from stepwhy.capture.loop import Loop
from stepwhy.capture.process.threads import tensorflow_threads
from stepwhy.capture.recorder import Recorder
from stepwhy.capture.tf2.profiler import TensorFlowProfiler
from stepwhy.capture.xplane_window import XPlaneWindow


@functools.cache
def loop_of(run_dir: str) -> Loop:
    """The loop of this process."""
    from tensorflow.python.framework.versions import VERSION

    recorder = Recorder(run_dir, "tensorflow", str(VERSION), "tf2-function")
    recorder.describe(threads=_threads)
    window = XPlaneWindow(recorder, TensorFlowProfiler(recorder.scratch))
    return Loop(recorder, ClockedWindow(recorder, window))


def _threads() -> dict[str, int]:
    """The threads of an eager operation or a function, as the program has configured them."""
    from tensorflow.python.framework.config import get_intra_op_parallelism_threads

    return tensorflow_threads(int(get_intra_op_parallelism_threads()))


@functools.cache
def calls_of(run_dir: str) -> CallLog:
    """The log of calls, one for functions and optimizers since either may call the other."""
    return CallLog(loop_of(run_dir))
