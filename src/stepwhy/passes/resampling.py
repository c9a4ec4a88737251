"""Bootstrap intervals of medians.

Resampled here in two lines: SciPy would cost every start a third of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RESAMPLES = 400
_MOST_RESAMPLED = 1000  # values; more do not narrow the interval visibly


def resampled_medians(values: NDArray[Any], random: np.random.Generator) -> NDArray[np.float64]:
    """Medians of samples drawn with replacement; (resamples,).

    Args:
        values: What to draw from; of very many the last ones.
        random: Source of the draws.
    """
    chosen = values[-_MOST_RESAMPLED:]
    drawn = random.integers(0, len(chosen), (_RESAMPLES, len(chosen)))
    result: NDArray[np.float64] = np.median(chosen[drawn], axis=1)
    return result


def interval95(medians: NDArray[np.float64]) -> tuple[float, float]:
    """The middle 95 % of resampled values."""
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(low), float(high)
