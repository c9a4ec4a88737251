"""Make calls that a program makes in every step only in every n-th one."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepwhy.record.trials.ticks import Ticks

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from stepwhy.record.trials.reports import Trial

_EVERY = 100
# Writers of summaries have a method for each kind.
_SUMMARY = "add_"


class RareSteps:
    """The steps in which rare calls are made.

    A call before the first step is made, and so are all calls of the first step.

    Args:
        trial: The trial; its value is the number of steps from one such step to the next.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.every = trial.spec.count(_EVERY)
        self._step = 0
        Ticks(self._ended).of_all()

    def _ended(self) -> None:
        self._step += 1

    def leaves_out(self, name: str) -> bool:
        """Whether a call in the current step is left out."""
        if not self._trial.on or self._step <= 1 or self._step % self.every == 0:
            return False
        self._trial.changed(f"{name}: every {self.every} steps")
        return True


def _make_rare(place: Any, attribute: str, name: str, steps: RareSteps) -> None:
    """Let a function return its previous result in steps in which it is left out."""
    original = getattr(place, attribute, None)
    if original is None:
        return  # another version of the framework
    last: list[Any] = [None]

    @functools.wraps(original)
    def rare(*args: Any, **kwargs: Any) -> Any:
        if steps.leaves_out(name):
            return last[0]
        last[0] = original(*args, **kwargs)
        return last[0]

    setattr(place, attribute, rare)


def empty_cache(module: ModuleType, trial: Trial) -> None:
    """Empty the cache of the CUDA allocator rarely."""
    steps = RareSteps(trial)
    _make_rare(module, "empty_cache", "torch.cuda.empty_cache", steps)


def write_summaries(module: Any, trial: Trial) -> None:
    """Write summaries for TensorBoard rarely."""
    steps = RareSteps(trial)
    for name in dir(module.SummaryWriter):
        if name.startswith(_SUMMARY):
            _make_rare(module.SummaryWriter, name, "SummaryWriter", steps)
