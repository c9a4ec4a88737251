"""Log iterators over data that are made although the previous one has batches left.

`next(iter(loader))` in each step makes an iterator, takes one batch, and drops the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from stepwhy.record.core.recorder import Recorder

# An iterator per step must not fill the event log.
_MOST_EVENTS = 400


class Iterators:
    """The iterators of this process over its data sets.

    Args:
        recorder: Writes the log.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has made no iterator (after a fork)."""
        self._open: set[Hashable] = set()
        self._events = 0

    def replaces(self, key: Hashable) -> bool:
        """Whether the previous iterator has batches left, and another one is still logged."""
        return key in self._open and self._events < _MOST_EVENTS

    def began(self, key: Hashable, name: str, source: str, start_ns: int, end_ns: int) -> None:
        """An iterator has returned its first batch.

        Args:
            key: What it iterates over.
            name: Name of that.
            source: Line of the program that made it.
            start_ns: When it was asked for.
            end_ns: When it was ready.
        """
        if self.replaces(key):
            self._events += 1
            self._recorder.event(
                "iterator",
                name=name,
                start_ns=start_ns,
                end_ns=end_ns,
                source=source,
                count=self._events,
            )
        self._open.add(key)

    def ended(self, key: Hashable) -> None:
        """An iterator has returned all of its batches."""
        self._open.discard(key)
