"""What of a run is shown: everything that is read passes through one redactor."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from stepwhy.errors import StepwhyError
from stepwhy.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterator

Redact: TypeAlias = bool | Redactor


def redactor_of(redact: Redact) -> Redactor:
    """The redactor that an argument asks for.

    Args:
        redact: A redactor; True for one that knows this process; False for one that replaces
            nothing.
    """
    if isinstance(redact, Redactor):
        return redact
    return Redactor.of_process(distinct=True) if redact else Redactor.none()


@contextmanager
def redacted_errors(redactor: Redactor) -> Iterator[None]:
    """Typed errors leave the block without secrets in their messages."""
    try:
        yield
    except StepwhyError as error:
        what, todo = redactor.text(error.what), redactor.text(error.todo)
        if (what, todo) == (error.what, error.todo):
            raise
        raise type(error)(what, todo) from None


__all__ = ["Redact", "redacted_errors", "redactor_of"]
