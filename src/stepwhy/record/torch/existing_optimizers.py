"""Observe optimizers made before the observation began, as in an earlier cell of a notebook.

PyTorch wraps the `step` of a class when its first optimizer is made, so a later observer has to
wrap the existing wrapper. A learning rate scheduler wraps the `step` of its one optimizer likewise.

Source: `torch.optim.Optimizer._patch_step_function`, `torch.optim.lr_scheduler.LRScheduler`.
"""

from __future__ import annotations

import functools
import gc
import weakref
from typing import TYPE_CHECKING

from stepwhy.record.core.compiled_code import wrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Call = Callable[..., Any]


def observe_existing(base: Any, around: Callable[[Call], Call], stepped: Call, know: Call) -> None:
    """Observe the optimizers that exist already.

    Args:
        base: `torch.optim.Optimizer`.
        around: Wraps the `step` of a class.
        stepped: Called after each step of an optimizer that has a `step` of its own.
        know: Called with each of the optimizers.
    """
    wrapped = [c for c in _subclasses(base) if getattr(vars(c).get("step"), "hooked", False)]
    for optimizer in _instances(wrapped):
        know(optimizer)
        if "step" in vars(optimizer):
            optimizer.step = _around_own(optimizer, stepped)
    for each in wrapped:
        each.step = around(each.step)


def _subclasses(base: Any) -> Iterator[Any]:
    """All subclasses, direct and indirect, each once."""
    waiting, seen = [base], {base}
    while waiting:
        for each in type.__subclasses__(waiting.pop()):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
                yield each


def _instances(classes: list[Any]) -> list[Any]:
    """The instances of these classes and of their subclasses."""
    if not classes:
        return []
    all_classes = {*classes, *(below for each in classes for below in _subclasses(each))}
    # Objects refer to their class. `type` is used since `__class__` may be overridden.
    return [o for o in gc.get_referrers(*all_classes) if type(o) in all_classes]


def _around_own(optimizer: Any, stepped: Call) -> Call:
    """Wrap the `step` of a single optimizer so that `stepped` follows it."""
    step, owner = optimizer.step, weakref.ref(optimizer)

    @wrapper
    @functools.wraps(step)
    def observed(*args: Any, **kwargs: Any) -> Any:
        result = step(*args, **kwargs)
        stepped(owner())
        return result

    return observed
