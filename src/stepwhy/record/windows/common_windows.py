"""Where the ranks of a job open their windows: at steps that all know without asking each other.

Collectives of ranks are compared in the steps that all of them recorded. By the first of these
steps, the loop of each rank counts as warm, unless it still compiles. A request from outside names
the step itself, the same for all ranks that it goes to.
"""

from __future__ import annotations

from stepwhy.record.core.process.ranks import place_in_job

# Evaluations and checkpoints run most often every 10, 20, 50 or 100 steps, and a rank that has
# grown by them keeps no window: five steps from here on, and one more to write them, are between.
_FIRST = (12, 22)
_LATER = 2
_EVERY = 50
# A rank that has read a request too late opens its window so many steps later, as do others that
# have; after some tries, something else than the time is in the way.
_NEXT_TRY = 16
_MOST_TRIES = 4
# Requests may come from anybody who can write to the run directory.
_MOST_REQUESTS = 3


def may_open(step: int) -> bool:
    """Whether a window may open at a step; in a job of a single rank, at any.

    Args:
        step: Number of the step that begins: its line in the log, from 0.
    """
    if step in _FIRST or (step > _FIRST[-1] and step % _EVERY == _LATER):
        return True
    return (place_in_job()[1] or 1) == 1


class RequestedStep:
    """The step at which a request from outside wants a window to open.

    Attributes:
        is_open: Whether there is one, which no window has opened at so far.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process without requests (after a fork)."""
        self.is_open = False
        self._step = self._tries = 0
        self._left = _MOST_REQUESTS

    def refuse(self) -> None:
        """Accept no request any more: windows fail."""
        self.is_open, self._left = False, 0

    def accept(self, step: int) -> bool:
        """Accept a request, unless there were enough.

        Args:
            step: The step that it names.
        """
        if self.is_open or self._left <= 0:
            return False
        self._left -= 1
        self._step, self._tries, self.is_open = step, -1, True
        return True

    def may_open(self, step: int) -> bool:
        """Whether the requested window opens at a step, the first one at or after the named one.

        Args:
            step: Number of the step that begins: its line in the log, from 0. A step may have
                several lines.
        """
        tries = (step - self._step) // _NEXT_TRY + 1
        is_late = self._tries < 0 and step > self._step
        is_next = tries > max(self._tries, 0)
        self._tries = max(tries, 0)
        self.is_open &= tries <= _MOST_TRIES
        return self.is_open and is_next and not is_late

    def met(self) -> None:
        """A window has opened."""
        self.is_open = False
