"""Redaction of everything that is read, with one redactor."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from stepwhy.base.errors import StepwhyError
from stepwhy.base.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterator

Redact: TypeAlias = bool | Redactor


def redactor_of(redact: Redact) -> Redactor:
    """The redactor for an argument `redact`.

    Args:
        redact: A redactor; True for one that knows this process; False for one that replaces
            nothing.
    """
    if isinstance(redact, Redactor):
        return redact
    return Redactor.of_process(distinct=True) if redact else Redactor.none()


@contextmanager
def redacted_errors(redactor: Redactor) -> Iterator[None]:
    """Redact the messages of typed errors that are raised in the block."""
    try:
        yield
    except StepwhyError as error:
        what, todo = redactor.text(error.what), redactor.text(error.todo)
        if (what, todo) == (error.what, error.todo):
            raise
        raise type(error)(what, todo) from None
