"""Publish the metrics of a run while it lasts, in threads of `stepwhy run`.

A publisher that fails never affects the training: its first failure becomes one message at the end.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from stepwhy.base.errors import StepwhyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from stepwhy.show.metrics.model import Run

_INTERVAL_S = 5.0
# Share of a core that reading and publishing take at most, however fast the steps are.
_MOST_OF_A_CORE = 1 / 200
# A scheduler that ends a job leaves it some seconds; the report needs them, too.
_LONGEST_CLOSE_S = 2.0


class Publisher(Protocol):
    """Something that publishes metrics.

    Attributes:
        what: What it publishes, as the start of a sentence.
    """

    what: str

    def prepare(self) -> None:
        """Check what can be checked before the training starts.

        Raises:
            StepwhyError: Nothing can be published.
        """

    def start(self, read: Callable[[], Run]) -> None:
        """Start, once the training runs.

        Args:
            read: Returns the current numbers.
        """

    def publish(self, run: Run) -> None:
        """Publish the current numbers; called every few seconds."""

    def close(self, run: Run) -> None:
        """Publish the last numbers and stop."""


def prepared(publishers: Sequence[Publisher], report: Callable[[str], None]) -> list[Publisher]:
    """The publishers that can work.

    Args:
        publishers: Those that the user asked for.
        report: Called with a message about each of the others.
    """
    able = []
    for publisher in publishers:
        try:
            publisher.prepare()
        except StepwhyError as error:
            report(f"{error.what}. {error.todo}. The training runs without {publisher.what}")
        else:
            able.append(publisher)
    return able


class Publications:
    """Publishes the numbers of a run until it is closed.

    Args:
        publishers: The publishers, prepared.
        read: Returns the current numbers; called from several threads. Its argument says whether
            the run still lasts.
        report: Called with a message for each publisher that fails.
    """

    def __init__(
        self,
        publishers: Sequence[Publisher],
        read: Callable[[bool], Run],
        report: Callable[[str], None],
    ) -> None:
        self._loops = [_Loop(publisher, read, report) for publisher in publishers]

    def __enter__(self) -> Self:
        for loop in self._loops:
            loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        for loop in self._loops:
            loop.ask_to_end()
        deadline_s = time.monotonic() + _LONGEST_CLOSE_S
        for loop in self._loops:
            loop.wait(deadline_s)


class _Loop:
    """One publisher in a thread of its own, so that none waits for another.

    Args:
        publisher: The publisher.
        read: As in `Publications`.
        report: As in `Publications`.
    """

    def __init__(
        self, publisher: Publisher, read: Callable[[bool], Run], report: Callable[[str], None]
    ) -> None:
        self._publisher, self._read, self._report = publisher, read, report
        self._ended = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(
            target=self._run, name=f"stepwhy-{publisher.what}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask_to_end(self) -> None:
        """Ask it to publish the last numbers."""
        self._ended.set()

    def wait(self, deadline_s: float) -> None:
        """Wait until it has ended, and report its problem.

        Args:
            deadline_s: When to stop waiting, on the monotonic clock, s.
        """
        self._thread.join(timeout=max(deadline_s - time.monotonic(), 0))
        if self._thread.is_alive() and not self._problem:
            self._problem = "the last ones could not be published in time"
        if self._problem:
            self._report(f"{self._publisher.what}: {self._problem}")

    def _run(self) -> None:
        if not self._tried(lambda: self._publisher.start(lambda: self._read(True))):
            return
        wait_s = _INTERVAL_S
        while not self._ended.wait(wait_s):
            before_s = time.thread_time()
            self._tried(lambda: self._publisher.publish(self._read(True)))
            wait_s = max(_INTERVAL_S, (time.thread_time() - before_s) / _MOST_OF_A_CORE)
        self._tried(lambda: self._publisher.close(self._read(False)))

    def _tried(self, work: Callable[[], None]) -> bool:
        """Do some work, and keep the first failure."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - must not affect the training
            self._problem = self._problem or _words(error)
            return False
        return True


def _words(error: Exception) -> str:
    """A failure in words, without paths."""
    if isinstance(error, StepwhyError):
        return error.what
    if isinstance(error, OSError) and error.strerror:
        return f"they could not be published ({error.strerror})"
    return f"an internal failure, {type(error).__name__}"
