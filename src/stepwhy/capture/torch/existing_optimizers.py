"""Optimizers that were made before anybody observed: in a notebook, in a cell further up.

PyTorch wraps the `step` of a class when its first optimizer is made, so that a later observer has
to go around what is there. A learning rate scheduler does the same to the one optimizer that it
was given.

Source: `torch.optim.Optimizer._patch_step_function`, `torch.optim.lr_scheduler.LRScheduler`.
"""

from __future__ import annotations

import functools
import gc
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Call = Callable[..., Any]


def observe_existing(base: Any, around: Callable[[Call], Call], stepped: Call) -> None:
    """Observe the optimizers that there are.

    Args:
        base: `torch.optim.Optimizer`.
        around: Goes around the `step` of a class.
        stepped: Called with an optimizer after each step of one whose own `step` is not its
            class's.
    """
    wrapped = [c for c in _subclasses(base) if getattr(vars(c).get("step"), "hooked", False)]
    for optimizer in _instances(wrapped):
        if "step" in vars(optimizer):
            optimizer.step = _around_own(optimizer, stepped)
    for each in wrapped:
        each.step = around(each.step)


def _subclasses(base: Any) -> Iterator[Any]:
    """All classes below one, each once."""
    waiting, seen = [base], {base}
    while waiting:
        for each in type.__subclasses__(waiting.pop()):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
                yield each


def _instances(classes: list[Any]) -> list[Any]:
    """The objects of these classes and of those below them that define no `step`."""
    if not classes:
        return []
    all_classes = {*classes, *(below for each in classes for below in _subclasses(each))}
    # An object refers to its class; the type is asked because some objects lie about theirs.
    return [o for o in gc.get_referrers(*all_classes) if type(o) in all_classes]


def _around_own(optimizer: Any, stepped: Call) -> Call:
    """A `step` that one optimizer alone has, with `stepped` behind it."""
    step, owner = optimizer.step, weakref.ref(optimizer)

    @functools.wraps(step)
    def observed(*args: Any, **kwargs: Any) -> Any:
        result = step(*args, **kwargs)
        stepped(owner())
        return result

    return observed
