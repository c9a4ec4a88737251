"""What is measured of a step while it goes on, until the log takes it."""

from __future__ import annotations

import json
import threading
import time


class CompileTime:
    """Time spent tracing and compiling since it was last taken.

    Nested pieces count once: pieces arrive when they end, so a later one that began earlier
    contains them.
    """

    def __init__(self) -> None:
        self._pieces: list[tuple[int, int, str]] = []

    def add(self, event: str, start_ns: int, end_ns: int) -> None:
        """Add a piece that ends now.

        Args:
            event: What was done, in the framework's words.
            start_ns: When it began.
            end_ns: When it ended.
        """
        while self._pieces and self._pieces[-1][0] >= start_ns:
            self._pieces.pop()
        self._pieces.append((start_ns, end_ns, event))

    def began_ns(self) -> int | None:
        """When the first piece began; None without any."""
        return self._pieces[0][0] if self._pieces else None

    def take(self) -> str:
        """What the log says about it: the end of a JSON object's members, '' without any."""
        if not self._pieces:
            return ""
        by_event: dict[str, int] = {}
        for start_ns, end_ns, event in self._pieces:
            by_event[event] = by_event.get(event, 0) + end_ns - start_ns
        self._pieces = []
        total_ns = sum(by_event.values())
        return f',"compile_ns":{total_ns},"compiled":{json.dumps(by_event, separators=(",", ":"))}'


class InputWait:
    """Time in which the driving thread waited for batches since it was last taken."""

    __slots__ = ("_waited_ns",)

    def __init__(self) -> None:
        self._waited_ns = 0

    def add(self, duration_ns: int) -> None:
        """Add a wait, in ns."""
        self._waited_ns += duration_ns

    def take(self) -> int | None:
        """The wait in ns; None where none was seen, which is not to say that there was none."""
        waited_ns, self._waited_ns = self._waited_ns, 0
        return waited_ns or None


class ThreadTime:
    """CPU time of the driving thread: what it does not use, it waits."""

    __slots__ = ("_last_ns", "_thread")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """What is taken next has no known beginning."""
        self._thread = self._last_ns = 0

    def take(self) -> int | None:
        """CPU time of the calling thread since it last called, ns; None where it did not."""
        used_ns, thread = time.thread_time_ns(), threading.get_ident()
        since_ns = used_ns - self._last_ns if thread == self._thread else None
        self._last_ns, self._thread = used_ns, thread
        return since_ns
