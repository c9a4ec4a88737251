"""Observe which results of a step nothing needs: in the step itself, and in those that follow."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.user_code import is_users_file
from stepwhy.record.torch import device
from stepwhy.record.torch.later_reads import LaterReads
from stepwhy.record.torch.tensor_reads import TensorReads

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from stepwhy.record.torch.part_use import PartUse
    from stepwhy.record.torch.part_values import Unused
    from stepwhy.record.torch.result_use import ResultUse

# Of the time of all operations: less is not worth watching further steps for.
_LEAST_SHARE = 0.02
# Runs functions of the program, which are not on its stack while it has nothing to do.
_POOL = os.path.join("concurrent", "futures", "thread.py")  # noqa: PTH118


class Waste(NamedTuple):
    """What of the results of a step nothing reads.

    Args:
        unread: For each operation, whether its result was needed, a constant of `result_use`.
        parts: The parts of results that nothing reads; None if they are not known.
    """

    unread: list[int]
    parts: Unused | None


class ResultWatch:
    """Observes what becomes of the results of one step.

    Args:
        uses: Notes of the operations of the step.
        parts: Notes of which parts of the results they read.
    """

    def __init__(self, uses: ResultUse, parts: PartUse) -> None:
        self._uses = uses
        self._parts = parts
        self._reads = TensorReads(self._read)
        self._later: LaterReads | None = None
        self._is_given_up = False

    @property
    def is_watching(self) -> bool:
        """Whether the current step is a later one that is watched."""
        return self._later is not None and self._later.is_on

    def begin(self) -> None:
        """The step begins."""
        try:
            self._reads.begin()
        except AttributeError:
            self._is_given_up = True

    def end_step(self) -> None:
        """The step has ended, whose mode is gone: watch the next ones if they may read results."""
        if self._is_given_up or not self._uses.is_known or _others_may_read():
            self.give_up(None)
            return
        parts = self._parts.unused()
        ended = self._uses.end(() if parts is None else parts.storages)
        share = ended.share + (0.0 if parts is None else self._uses.share_of(parts.shares))
        self._later = LaterReads(ended.waiting)
        # On an accelerator, the host only launches the operations.
        if share < _LEAST_SHARE and not device.is_in_use():
            self._later.stop()
        self.next_step()

    def next_step(self) -> None:
        """A step begins: watch it if that may show anything, after `end` of the last one."""
        if self._later is None:
            return
        if self._later.is_over:
            self._reads.end()
        else:
            self._later.begin()

    def end(self, current: Any) -> bool:
        """A step has ended.

        Args:
            current: The dispatch mode on top of those of this thread.

        Returns:
            Whether the mode is gone: it cannot be removed from below one of the program.
        """
        return self._later is None or self._later.end(current)

    def finish(self) -> Waste | None:
        """No further step is watched, after `end`.

        Returns:
            What nothing has read; None if that is not known.
        """
        self._reads.end()
        later, self._later = self._later, None
        if later is None or self._is_given_up or _others_may_read():
            return None
        later.stop()
        return Waste(self._uses.judge(later.read), self._parts.unused(later.read))

    def give_up(self, current: Any) -> None:
        """Observe no further, and find nothing."""
        self._is_given_up = True
        self._reads.end()
        if self._later is not None:
            self._later.stop()
            self._later.end(current)

    def _read(self, tensor: Any) -> None:
        if self._later is None:
            self._uses.read(tensor)
            if not self._uses.is_paused:
                self._parts.read(tensor)
        else:
            self._later.note(tensor)


def _others_may_read() -> bool:
    """Whether another thread runs code of the program, whose reads are not seen."""
    own = threading.get_ident()
    return any(_is_of_program(frame) for key, frame in sys._current_frames().items() if key != own)


def _is_of_program(frame: FrameType | None) -> bool:
    while frame is not None:
        name = frame.f_code.co_filename
        if name.endswith(_POOL) or is_users_file(name):
            return True
        frame = frame.f_back
    return False
