"""A callback for `fit` of legacy Keras (`tf_keras`).

::

    callback = StepwhyCallback()
    model.fit(data, callbacks=[callback])
    callback.result.verdict.sentence
"""

from __future__ import annotations

from stepwhy.base.optional import needs_package
from stepwhy.integrations.fit_hooks import FitHooks

with needs_package("tf_keras", "Callbacks for legacy Keras"):
    from tf_keras.callbacks import Callback


class StepwhyCallback(FitHooks, Callback):
    """Observe each `fit`, explain it when it ends, and log the result to active runs.

    Validation belongs to no step. Only the first rank is observed. Inside `stepwhy run` and
    `stepwhy.watch()` the callback has no effect.

    Args:
        out: The run directory to write; default `stepwhy-runs/<time>-<name>`. It holds one `fit`:
            of several with one callback, the first.
        quiet: Print no report, only problems.
        log: Whether to log the result to the active runs of MLflow and Weights & Biases.
    """
