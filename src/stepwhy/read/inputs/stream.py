"""The decompressed content of an archive."""

from __future__ import annotations

from typing import Protocol


class Stream(Protocol):
    """Decompressed content; raises one of `archives.torn()` if it is damaged or ends early."""

    def read1(self, size: int, /) -> bytes:
        """At most `size` bytes; b'' at the end."""
