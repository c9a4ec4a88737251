"""Whether a signal was sent to the whole process group, or to this process alone.

A signal says who sent it, but not whether that called `kill(pid)` or `kill(-group)`. A second
process of the same group answers that: it does nothing but block all signals, so those sent to the
group stay pending there until it is asked.
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


class Witness:
    """A forked process that remembers the signals sent to its process group.

    The caller must have blocked all signals and must have a single thread. The witness ends with
    its parent, holds no file of the parent's open, and never runs any of its code.
    """

    def __init__(self) -> None:
        self._seen: Counter[int] = Counter()
        answer, told = os.pipe()
        asked, self._ask = os.pipe()
        self._answer = answer
        self._pid = os.fork()
        if not self._pid:
            _remember(asked, told)
        os.close(asked)
        os.close(told)

    def saw(self, number: int) -> bool:
        """Whether the group was sent this signal; each that it was sent counts once.

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
        except OSError:  # somebody ended it
            pass
        return b""

    def close(self) -> None:
        """End the witness."""
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        for pipe in (self._ask, self._answer):
            with contextlib.suppress(OSError):
                os.close(pipe)


def _remember(asked: int, told: int) -> NoReturn:
    """Answer questions until the parent has gone."""
    try:
        _close_all_but({asked, told})
        while os.read(asked, 1):
            # 0 stands first, so that an answer is never empty.
            os.write(told, bytes([0, *_taken()]))
    finally:
        os._exit(0)


def _taken() -> list[int]:
    """Take pending signals; those of a queue as often as they are in it."""
    every = signal.valid_signals()
    taken: list[int] = []
    while len(taken) < _MOST and (info := signal.sigtimedwait(every, 0)) is not None:
        taken.append(info.si_signo)
    return taken


def _close_all_but(kept: set[int]) -> None:
    """Close every file of this process but some: a pipe must end when the command ends."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, not paths
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


__all__ = ["Witness"]
