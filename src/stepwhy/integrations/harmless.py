"""Keep failures of stepwhy from the training: each becomes one line of output."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from stepwhy.base import output
from stepwhy.base.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


def harmless(hook: Callable[P, object]) -> Callable[P, None]:
    """Keep the failure of a callback's method from the training."""

    @functools.wraps(hook)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        attempt("the callback failed", lambda: hook(*args, **kwargs))

    return guarded


def attempt(problem: str, work: Callable[[], T]) -> T | None:
    """Do some work after the training, or beside it.

    Args:
        problem: What to print if it fails: "the result was not logged".
        work: The work.

    Returns:
        Its result; None if it failed.
    """
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the training goes on
        output.line(f"stepwhy: {problem}: {visible(f'{type(error).__name__}: {error}')}")
        return None
