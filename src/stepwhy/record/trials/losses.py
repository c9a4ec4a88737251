"""Keep the first losses of a training, to compare those with and without the fix.

A loss is what `backward` starts from in PyTorch, and what Keras' `fit` reports for each epoch. The
tensors are read at the end, so that no step waits for its loss.
"""

from __future__ import annotations

import functools
import math
import os

from stepwhy.record.core import import_hooks
from stepwhy.record.core.process import lifetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stepwhy.record.trials.reports import Trial

_MOST = 200


def keep_losses(trial: Trial) -> None:
    """Keep the losses of this process, and write them at its end.

    Args:
        trial: The trial.
    """
    kept: list[Any] = []
    pid = os.getpid()

    def write() -> None:
        if kept and os.getpid() == pid:
            values = [float(loss) for loss in kept]
            trial.write({"losses": [round(v, 6) if math.isfinite(v) else None for v in values]})

    lifetime.on_end(lambda: trial.guard(write))
    import_hooks.after_import("torch.autograd", lambda module: _of_torch(module, kept))
    import_hooks.after_import(
        "keras.src.callbacks.callback_list", lambda module: _of_keras(module, kept)
    )


def _of_torch(functions: Any, kept: list[Any]) -> None:
    original = functions.backward

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if len(kept) < _MOST:
            _keep(tensors, kept)
        return original(tensors, *args, **kwargs)

    functions.backward = backward


def _keep(tensors: Any, kept: list[Any]) -> None:
    """Keep a scalar that `backward` starts from."""
    try:
        from torch.compiler import is_compiling

        loss = tensors if hasattr(tensors, "detach") else tensors[0]
        if not is_compiling() and loss.numel() == 1:
            kept.append(loss.detach().clone())
    except Exception:
        return


def _of_keras(module: Any, kept: list[Any]) -> None:
    original = module.CallbackList.on_epoch_end

    @functools.wraps(original)
    def on_epoch_end(self: Any, epoch: Any, logs: Any = None) -> Any:
        if isinstance(logs, dict) and "loss" in logs and len(kept) < _MOST:
            kept.append(logs["loss"])
        return original(self, epoch, logs)

    module.CallbackList.on_epoch_end = on_epoch_end
