"""What a comparison says, 'cannot tell' included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from stepwhy.stats.paired import Ratio

Outcome = Literal["faster", "slower", "same", "cannot tell"]


def judge(ratio: Ratio | None, margin: float) -> Outcome:
    """The verdict on the second program.

    'same' comes first: a difference that surely lies within the margin is none that matters, also
    where it is surely not zero.

    Args:
        ratio: The comparison; None when there are too few runs for one.
        margin: The largest change that is called the same, as 0.03.
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
