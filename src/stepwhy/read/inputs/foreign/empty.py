"""Chrome traces without a single event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.errors import EmptyInputError
from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from stepwhy.read.inputs.source import Source

_NO_EVENTS = regex(rb'"traceEvents"\s{0,1000}:\s{0,1000}\[\s{0,1000}\]')
_EMPTY_LIST = regex(rb"(?:\xef\xbb\xbf)?\s*\[\s*\]\s*\Z")


def is_empty_trace(source: Source) -> bool:
    """Whether the file is a Chrome trace whose list of events is empty."""
    if _EMPTY_LIST.match(source.head):
        return True
    begins_object = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
    return begins_object and source.holds(_NO_EVENTS)


def empty_trace(source: Source) -> EmptyInputError:
    """The error for a trace without events."""
    return EmptyInputError(
        f"{source.origin} is a trace without a single event",
        "Record again, with training steps between the profiler's start and stop (where it "
        "has a schedule, in its active steps)",
    )
