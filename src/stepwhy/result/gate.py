"""Whether a comparison lets a build pass."""

from __future__ import annotations

from typing import Literal

import msgspec

GateOutcome = Literal["passed", "slower", "unknown"]


class Gate(msgspec.Struct, frozen=True):
    """A limit on the slowdown, and whether a program keeps it.

    Args:
        limit: Largest relative slowdown that passes, such as 0.03.
        outcome: 'slower' if B exceeds it, 'unknown' if the runs do not show whether it does.
        reason: Why it is unknown; '' otherwise.
    """

    limit: float
    outcome: GateOutcome
    reason: str = ""
