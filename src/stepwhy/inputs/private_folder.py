"""A temporary folder that is removed however the block that uses it ends."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# By which batch systems end a program, and terminals that are closed.
_ENDINGS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that only this user can read, removed at the end of the block.

    SIGTERM and SIGHUP leave the block as an exception does; Ctrl-C does so anyway. While the folder
    is removed, all three wait.

    Raises:
        OutputError: It cannot be made.
    """
    with _endings_raise():
        folder = _folder()
        try:
            yield Path(folder.name)
        finally:
            with _signals_wait():
                folder.cleanup()


def _folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="stepwhy-", ignore_cleanup_errors=True)
    except OSError as error:
        raise OutputError(
            f"no folder for a temporary copy can be made ({error.strerror})",
            "Set TMPDIR to a folder that can be written to",
        ) from None


def _is_main() -> bool:
    """Only the main thread may handle signals."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _endings_raise() -> Iterator[None]:
    """Exit by an exception on signals that nothing else handles."""
    handled = [s for s in _ENDINGS if _is_main() and signal.getsignal(s) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Deliver signals after this block that arrive in it."""
    arrived: list[int] = []
    held = {
        number: signal.signal(number, lambda number, _: arrived.append(number))
        for number in (signal.SIGINT, *_ENDINGS)
        if _is_main() and callable(signal.getsignal(number))
    }
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for number in arrived[:1]:
            signal.raise_signal(number)


__all__ = ["private_folder"]
