"""Work between the steps of a PyTorch loop that is no training, such as a validation.

The step in progress is dropped, and the next one begins after that work. Only a caller that knows
the training loop can say when, such as the callback of a trainer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record import attach
from stepwhy.record.core.process import lifetime

if TYPE_CHECKING:
    from stepwhy.record.torch.steps import StepObserver

_OPTIMIZERS = "torch.optim.optimizer"


def pause() -> None:
    """What follows belongs to no step until `resume`; never raises."""
    steps = _observed_steps()
    if steps is not None:
        steps.pause()


def resume() -> None:
    """Begin the next step here; never raises."""
    steps = _observed_steps()
    if steps is not None:
        steps.resume()


def _observed_steps() -> StepObserver | None:
    """The step observer of this process; None while nothing is observed."""
    if not lifetime.is_active() or not attach.is_instrumented(_OPTIMIZERS):
        return None
    from stepwhy.record.torch.observer import observer_of

    return observer_of(attach.run_dir()).steps
