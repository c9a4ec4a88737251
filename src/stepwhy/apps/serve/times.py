"""Times in words, in the time zone of the server."""

from __future__ import annotations

from datetime import datetime


def date_text(time_ns: int) -> str:
    """A time since the epoch as '2026-01-31 09:30'; '' if it is no date.

    Args:
        time_ns: The time, ns.
    """
    try:
        return f"{datetime.fromtimestamp(time_ns / 1e9).astimezone():%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return ""
