"""Detect whether a signal was sent to the whole process group, or to this process alone.

A signal names its sender, but not whether that called `kill(pid)` or `kill(-group)`. A second
process of the same group answers that: it only blocks all signals, so those sent to the group stay
pending there until it is asked.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# The kernel signals the members of a group within microseconds; a program that signals the
# processes of a control group one by one (systemd) takes longer.
_GRACE_S = 0.01
_MOST = 255  # signals in one answer
_ANSWER_S = 1.0  # on a busy machine; without an answer, a signal counts as sent to one process


class GroupSignals:
    """A forked process that collects the signals sent to its process group.

    The caller must have blocked all signals and have a single thread. The fork ends with its
    parent, keeps none of its files open, and never runs any of its code.
    """

    def __init__(self) -> None:
        self._seen: Counter[int] = Counter()
        answer, reply = os.pipe()
        question, self._ask = os.pipe()
        self._answer = answer
        self._pid = os.fork()
        if not self._pid:
            _collect(question, reply)
        os.close(question)
        os.close(reply)

    def include(self, number: int) -> bool:
        """Whether the group was sent this signal; each delivery counts once.

        Args:
            number: The signal.
        """
        if not self._seen[number]:
            time.sleep(_GRACE_S)
            self._seen.update(self._pending())
        if not self._seen[number]:
            return False
        self._seen[number] -= 1
        return True

    def forget(self) -> None:
        """Forget the signals sent so far."""
        self._pending()
        self._seen.clear()

    def _pending(self) -> bytes:
        """The signals sent to the group since the last question, by their numbers."""
        try:
            os.write(self._ask, b"?")
            if select.select([self._answer], [], [], _ANSWER_S)[0]:
                return os.read(self._answer, _MOST + 1)
        except OSError:  # the process was killed
            pass
        return b""

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        for pipe in (self._ask, self._answer):
            with contextlib.suppress(OSError):
                os.close(pipe)


def _collect(question: int, reply: int) -> NoReturn:
    """Answer questions until the parent has gone."""
    try:
        _close_all_but({question, reply})
        while os.read(question, 1):
            # The leading 0 makes sure that a reply is never empty.
            os.write(reply, bytes([0, *_pending_signals()]))
    finally:
        os._exit(0)


def _pending_signals() -> list[int]:
    """Fetch pending signals; queued ones as often as they are queued."""
    every = signal.valid_signals()
    found: list[int] = []
    while len(found) < _MOST and (info := signal.sigtimedwait(every, 0)) is not None:
        found.append(info.si_signo)
    return found


def _close_all_but(kept: set[int]) -> None:
    """Close all other files of this process: pipes must end when the command ends."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, not paths
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))
