"""The interpreter's watchdog, which prints stacks: lent to the observer, owned by the program.

There is one per process. Where the program uses it, it is not touched.
"""

from __future__ import annotations

import faulthandler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

_start = faulthandler.dump_traceback_later
_claimed = False


def notice_claims() -> None:
    """Notice from here on when the program starts the watchdog; call it before the program runs."""

    def dump_traceback_later(*args: Any, **kwargs: Any) -> None:
        global _claimed  # noqa: PLW0603 - the watchdog is global, too
        _claimed = True
        _start(*args, **kwargs)

    dump_traceback_later.__doc__ = _start.__doc__
    faulthandler.dump_traceback_later = dump_traceback_later


def is_free() -> bool:
    """Whether the program has never used the watchdog."""
    return not _claimed and faulthandler.dump_traceback_later is not _start


def start(interval_s: float, file: IO[bytes]) -> None:
    """Write the stacks of all threads to a file again and again."""
    _start(interval_s, repeat=True, file=file)


def stop() -> None:
    """Stop, unless the program has taken the watchdog over meanwhile."""
    if not _claimed:
        faulthandler.cancel_dump_traceback_later()
