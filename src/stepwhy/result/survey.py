"""One of several unrelated runs; no part of a stored result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from stepwhy.result.result import Result


class Surveyed(msgspec.Struct, frozen=True):
    """One of several unrelated runs.

    Args:
        name: Its file or folder.
        result: Its result; None if it cannot be read.
        error: Why it cannot be read.
    """

    name: str
    result: Result | None
    error: str = ""
