"""The entries of a served folder, kept up to date while requests come in."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from stepwhy.apps.serve.scan import scan
from stepwhy.apps.serve.summaries import Entry, summarise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepwhy.apps.serve.store import Store

# Looking for changes takes milliseconds; nobody reads a list faster than this.
_FRESH_S = 2.0


class Index:
    """What is listed; looked for again when it is asked for, at most every two seconds.

    Args:
        root: The served folder.
        store: Keeps what was read.
        clock: The time in seconds.

    Attributes:
        root: The served folder.
        version: Number that grows with each change.
        note: Why the list is not complete; '' if it is.
    """

    def __init__(
        self, root: Path, store: Store, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.root = root
        self.version = 0
        self.note = ""
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known = store.load()
        self._entries: dict[str, Entry] = {}
        self._checked_s: float | None = None

    def entries(self) -> list[Entry]:
        """All entries, newest first."""
        with self._lock:
            if self._checked_s is None or self._clock() - self._checked_s >= _FRESH_S:
                self._refresh()
                self._checked_s = self._clock()
            return list(self._entries.values())

    def get(self, name: str) -> Entry | None:
        """The entry of that name in addresses; None if there is none."""
        self.entries()
        return self._entries.get(name)

    def expire(self) -> None:
        """Look for changes at the next request, because something has just been changed."""
        with self._lock:
            self._checked_s = None

    def _refresh(self) -> None:
        found, self.note = scan(self.root)
        changed = {
            one.path: (one.signature, summarise(self.root, one))
            for one in found
            if self._known.get(one.path, ("",))[0] != one.signature
        }
        gone = self._known.keys() - {one.path for one in found}
        if changed or gone:
            self._store.save(changed, gone)
        if changed or gone or not self.version:
            self._known = {
                path: known
                for path, known in {**self._known, **changed}.items()
                if path not in gone
            }
            rows = [(one.path, self._known[one.path][1]) for one in found]
            entries = [Entry(path, summary) for path, summary in rows if summary is not None]
            entries.sort(key=lambda entry: (-entry.summary.time_ns, entry.path))
            self._entries = {entry.id: entry for entry in entries}
            self.version += 1
