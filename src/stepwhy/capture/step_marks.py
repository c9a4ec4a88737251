"""Whether something else than a framework's observer knows the steps of the training.

The training may mark them with `stepwhy.step()`: then the observers log no steps of their own, and
calls of compiled functions are parts of marked steps. Or Keras' `fit` runs, which has its own
observer on every backend.
"""

from __future__ import annotations

_marker: object | None = None
_in_fit = False


def marker() -> object | None:
    """The object that logs the marked steps; None while the training marks none."""
    return _marker


def set_marker(new: object | None) -> None:
    """Set the object that logs the marked steps; None if the training stops marking them."""
    global _marker  # noqa: PLW0603 - the process has one
    _marker = new


def in_fit() -> bool:
    """Whether an epoch of Keras' `fit` runs, whose steps are logged already."""
    return _in_fit


def set_in_fit(*, running: bool) -> None:
    """Set whether an epoch of Keras' `fit` runs."""
    global _in_fit  # noqa: PLW0603 - the process has one
    _in_fit = running
