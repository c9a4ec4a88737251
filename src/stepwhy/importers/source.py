"""One input as importers see it: its bytes, where it came from, and the files beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEAD_BYTES = 65536
"""How much of the decompressed file `recognise` may look at."""


@dataclass(frozen=True, slots=True)
class Source:
    """A decompressed input.

    Args:
        data: The whole file, decompressed.
        origin: Where it came from, for messages; already redacted.
        path: The file itself, or None for data that never was a file.
        truncated: The compressed stream ended early; `data` is what could be saved.
    """

    data: bytes
    origin: str
    path: Path | None = None
    truncated: bool = False

    @property
    def head(self) -> bytes:
        """The first `HEAD_BYTES` bytes."""
        return self.data[:HEAD_BYTES]

    def beside(self, name: str) -> bytes | None:
        """Content of another file in the same folder, None where there is none."""
        if self.path is None:
            return None
        try:
            return self.path.with_name(name).read_bytes()
        except OSError:
            return None
