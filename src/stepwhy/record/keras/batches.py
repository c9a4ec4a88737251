"""Log how many examples a batch of Keras' `fit` has."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.wrappers import wraps

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

_latest = {"examples": 0, "batches": 1}


def observe_batches(module: ModuleType, _: str) -> None:
    """Note the size of the batches of each iterator over the data of an epoch.

    Args:
        module: `keras.src.trainers.epoch_iterator`.
    """
    owner = module.EpochIterator
    original = owner.__init__

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            size = self.data_adapter.batch_size
            _latest["examples"] = size if isinstance(size, int) else 0
            _latest["batches"] = int(getattr(self, "steps_per_execution", 1))

    owner.__init__ = init


def log_batch(recorder: Recorder) -> None:
    """Log the examples that a step gets from the iterator that `fit` made last, if known.

    Args:
        recorder: Writes the event.
    """
    if _latest["examples"]:
        batches, time_ns = _latest["batches"], now_ns()
        recorder.event(
            "batch",
            name="fit" if batches == 1 else "fit, several batches per call",
            start_ns=time_ns,
            end_ns=time_ns,
            count=_latest["examples"] * batches,
        )
