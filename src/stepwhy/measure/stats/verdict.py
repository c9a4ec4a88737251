"""Verdict of a comparison, which may be 'cannot tell'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from stepwhy.measure.stats.paired import Ratio

Outcome = Literal["faster", "slower", "same", "cannot tell"]


def judge(ratio: Ratio | None, margin: float) -> Outcome:
    """Verdict on the second program.

    'same' is checked first: a difference that is certainly within the margin does not matter, even
    if it is certainly not zero.

    Args:
        ratio: The comparison; None if there are too few runs.
        margin: Largest change that counts as the same, such as 0.03.
    """
    if ratio is None:
        return "cannot tell"
    if ratio.inner_low > 1 / (1 + margin) - 1 and ratio.inner_high < margin:
        return "same"
    if ratio.low > 0:
        return "slower"
    if ratio.high < 0:
        return "faster"
    return "cannot tell"
