"""The training loop of a TensorFlow 2 process, shared by everything that observes it."""

from __future__ import annotations

import functools
import os

from stepwhy.record.core.process.ranks import place_by_launcher
from stepwhy.record.core.process.threads import tensorflow_threads
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.steps.call_log import CallLog
from stepwhy.record.steps.loop import Loop
from stepwhy.record.steps.step_window import NoWindow
from stepwhy.record.tf2.profiler import TensorFlowProfiler
from stepwhy.record.windows.clocked_window import ClockedWindow
from stepwhy.record.windows.xplane_window import XPlaneWindow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# TensorFlow 2.21: 'double free or corruption' in one of three runs of two workers.
_SEVERAL_WORKERS = (
    "the steps were timed, but not profiled: with several workers (TF_CONFIG), TensorFlow can "
    "crash when its profiler stops. Profile a run with one worker"
)


@functools.cache
def loop_of(run_dir: str) -> Loop:
    """The loop of this process."""
    from tensorflow.python.framework.versions import VERSION

    recorder = Recorder(run_dir, "tensorflow", str(VERSION), "tf2-function")
    recorder.describe(threads=_threads)
    if is_one_of_several_workers(os.environ):
        recorder.message("warning", "several-workers", _SEVERAL_WORKERS)
        return Loop(recorder, NoWindow())
    window = XPlaneWindow(recorder, TensorFlowProfiler(recorder.scratch))
    return Loop(recorder, ClockedWindow(recorder, window))


def is_one_of_several_workers(environ: Mapping[str, str]) -> bool:
    """Whether `TF_CONFIG` names further workers, with which this one runs TensorFlow's collectives.

    Args:
        environ: The environment.
    """
    return "TF_CONFIG" in environ and (place_by_launcher(environ)[1] or 1) > 1


def _threads() -> dict[str, int]:
    """The threads of an eager operation or a function, as the program has configured them."""
    from tensorflow.python.framework.config import get_intra_op_parallelism_threads

    return tensorflow_threads(int(get_intra_op_parallelism_threads()))


@functools.cache
def calls_of(run_dir: str) -> CallLog:
    """The log of calls, one for functions and optimizers since either may call the other."""
    return CallLog(loop_of(run_dir))
