"""Forks of the training, before which an open window is closed.

A child has the state of its parent's profiler, but none of the threads that belong to it: it may
crash, or never end. A window therefore opens only where the forks so far leave room for one.
"""

from __future__ import annotations

import contextlib
import threading

from stepwhy.record.core.process import lifetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.record.core.recorder import Recorder

SLUG = "forks"
# A profiler starts or stops within a second. A fork waits for it, but not forever: what holds it up
# may be a lock of the thread that forks.
_LONGEST_WAIT_S = 10.0
# A window needs one step in which the profiler starts, and one that is kept.
_FEWEST_STEPS = 2
# Forks in a row that leave no room before a window waits for longer, in which steps cost less.
_SHORT_DISTANCES = 4
# Windows that forks may end before the next one waits for longer, too. The first fork tells how far
# apart they are, so that the next window opens right after one.
_DROPPED_WINDOWS = 4


class Forks:
    """The forks of this process, as one window sees them.

    Args:
        recorder: Receives the message; readers drop it if a window was kept after all.
        close: Closes the window if it is open. Called before a fork, on the thread that forks;
            returns whether such forks keep windows from opening.

    Attributes:
        switching: Held while the profiler starts or stops, so that no fork of another thread falls
            into that, and during forks, so that the profiler does not start.
    """

    def __init__(self, recorder: Recorder, close: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._close = close
        self.forget()
        lifetime.on_fork(self._before, self._after)

    def forget(self) -> None:
        """Start over, as in a process that has not forked (after a fork)."""
        self.switching = threading.RLock()
        self._forked = False
        self._step = 0
        # The step that began after the last one with a fork, and how many steps after the fork
        # before that was; 0 if unknown.
        self._last = self._distance = self._short = 0
        self._dropped = 0
        self._reported = False

    def _before(self) -> None:
        self.switching.acquire(timeout=_LONGEST_WAIT_S)
        self._forked |= self._close()

    def _after(self) -> None:
        with contextlib.suppress(RuntimeError):  # the wait was in vain
            self.switching.release()

    def next_step(self, step: int) -> None:
        """A step begins; steps may be left out.

        Args:
            step: Its number, from 0.
        """
        if step != self._step + 1:
            self._last = self._distance = self._short = 0
        self._step = step
        if self._forked:
            self._forked = False
            self._distance = step - self._last if self._last else 0
            self._last = step
            self._short = self._short + 1 if 0 < self._distance <= _FEWEST_STEPS else 0

    @property
    def leave_room(self) -> bool:
        """Whether a window that opens now is complete before the next fork.

        The next fork is expected after as many steps as the last one, or else in each step until
        one without shows the opposite.
        """
        next_fork = self._last + max(self._distance, 1) - 1
        return not self._last or self._step > next_fork or self._step + _FEWEST_STEPS <= next_fork

    @property
    def leave_none(self) -> bool:
        """Whether no window fits between forks that are as far apart as the last ones."""
        return self._short >= _SHORT_DISTANCES

    def dropped(self, step: int) -> bool:
        """A fork has ended a window before that held a complete step.

        Args:
            step: Number of the current step, from 0.

        Returns:
            Whether the next window waits for longer than the next step.
        """
        self.report(step)
        self._dropped += 1
        return self._dropped % _DROPPED_WINDOWS == 0

    def report(self, step: int) -> None:
        """Report, once, that forks keep a window from opening.

        Args:
            step: Number of the step that begins, from 0.
        """
        if self._reported:
            return
        self._reported = True
        self._recorder.message(
            "warning",
            SLUG,
            f"the training forked its process around step {step + 1:,}, which no profiler may "
            "be running for, and did not leave enough steps without a fork to trace",
        )
