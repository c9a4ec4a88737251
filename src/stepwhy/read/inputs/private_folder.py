"""A temporary folder that is removed at the end of a block, however it ends."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Sent by batch systems to end a program, and by terminals that are closed.
_ENDINGS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that only this user can read, removed at the end of the block.

    SIGTERM and SIGHUP raise an exception in the block, as Ctrl-C does. All three are delayed while
    the folder is removed.

    Raises:
        OutputError: If it cannot be created.
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
    """Whether this is the main thread; only that may handle signals."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _endings_raise() -> Iterator[None]:
    """Turn signals with default handling into a `SystemExit`."""
    handled = [s for s in _ENDINGS if _is_main() and signal.getsignal(s) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Delay signals that arrive in this block until its end."""
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
