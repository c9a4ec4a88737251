"""The framework that Keras runs on, and the loop of its observers."""

from __future__ import annotations

import functools
import sys

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.steps.loop import Loop
from stepwhy.record.steps.step_window import NoWindow

_OBSERVER = "keras-fit"


def backend() -> str:
    """The backend that Keras runs on; legacy Keras has TensorFlow only."""
    config = sys.modules.get("keras.src.backend.config")
    return str(config.backend()) if config is not None else "tensorflow"


@functools.cache
def loop_of(run_dir: str) -> Loop:
    """The loop of the backend's framework."""
    name = backend()
    if name == "tensorflow":
        from stepwhy.record.tf2.loop import loop_of

        return loop_of(run_dir)
    if name == "jax":
        from stepwhy.record.jax.loop import loop_of as jax_loop_of

        return jax_loop_of(run_dir)
    version = str(getattr(sys.modules.get(name), "__version__", "unknown"))
    if name == "torch":
        from stepwhy.record.torch.window import ProfilerWindow

        recorder = Recorder(run_dir, "pytorch", version, _OBSERVER)
        return Loop(recorder, ProfilerWindow(recorder))
    return Loop(Recorder(run_dir, name, version, _OBSERVER), NoWindow())
