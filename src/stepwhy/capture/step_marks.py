"""Whether the training marks its own steps with `stepwhy.step()`.

While it does, the observers of the frameworks log no steps of their own; calls of compiled
functions are then parts of marked steps.
"""

from __future__ import annotations

_marker: object | None = None


def marker() -> object | None:
    """What logs the marked steps; None while the training marks none."""
    return _marker


def set_marker(new: object | None) -> None:
    """The training marks its steps from here on, or no longer does (None)."""
    global _marker  # noqa: PLW0603 - the process has one
    _marker = new
