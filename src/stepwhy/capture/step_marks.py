"""Whether the training marks its own steps with `stepwhy.step()`.

While it does, the observers of the frameworks log no steps of their own; calls of compiled
functions are then parts of marked steps.
"""

from __future__ import annotations

_marker: object | None = None


def marker() -> object | None:
    """The object that logs the marked steps; None while the training marks none."""
    return _marker


def set_marker(new: object | None) -> None:
    """Set the object that logs the marked steps; None if the training stops marking them."""
    global _marker  # noqa: PLW0603 - the process has one
    _marker = new
