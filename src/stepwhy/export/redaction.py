"""What of a trace's texts may leave the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.patterns import regex
from stepwhy.trace.strings import strings_from

if TYPE_CHECKING:
    from stepwhy.trace import Trace

_HOME = regex(r"/(?:home|Users)/[^/\s:]+|/root(?=/|$)")


def without_homes(trace: Trace) -> Trace:
    """A trace whose texts name no home folder, and so no user.

    Importers keep names of hosts out and shorten paths of source files; this is for the paths that
    stand inside of other names, as of a kernel or a range.
    """
    return replace(trace, strings=strings_from(_HOME.sub("~", text) for text in trace.strings))


__all__ = ["without_homes"]
