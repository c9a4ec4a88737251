"""Whether something else than a framework's observer knows the steps of the training.

The training may mark them with `stepwhy.step()`: then the observers log no steps of their own, and
calls of compiled functions are parts of marked steps. Or Keras' `fit` runs, which has its own
observer on every backend.
"""

from __future__ import annotations


class Marks:
    """What this process knows of its steps; read in each step, so without a call.

    Attributes:
        marker: The object that logs the marked steps; None while the training marks none.
        in_fit: Whether an epoch of Keras' `fit` runs, whose steps are logged already.
    """

    __slots__ = ("in_fit", "marker")

    def __init__(self) -> None:
        self.marker: object | None = None
        self.in_fit = False


marks = Marks()


def marker() -> object | None:
    """The object that logs the marked steps; None while the training marks none."""
    return marks.marker
