"""How far gains measured on a GPU lie beyond those that were predicted.

No measured gain was below the lower end of its prediction, but many were above the upper end. So
one factor is calibrated: by how much the highest predicted gain has to be multiplied to hold a new
one with the probability `COVERAGE` (split conformal prediction, one-sided).

Source: Lei et al., "Distribution-Free Predictive Inference for Regression", JASA 113 (2018),
section 2.2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from stepwhy.predict.calibration import GpuGain, weighted_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result.gpu import GpuGrade

COVERAGE: Final = 0.8
"""Share of new gains that a prediction should hold; 15 pairs are too few for more."""
_PRECISION: Final = 10_000


def gains_of(grade: GpuGrade) -> tuple[GpuGain, ...]:
    """The gains that were both predicted and measured in a session of the GPU lab.

    Args:
        grade: What the session showed.

    Returns:
        One per pair, relative to predictions that were not widened.
    """
    return tuple(
        GpuGain(pair.graded.name, _ratio(grade.reach * pair.gain_ns, pair.predicted_high_ns))
        for pair in grade.pairs
        if pair.gain_ns is not None and pair.predicted_high_ns
    )


def _ratio(gain_ns: float, predicted_ns: int) -> float:
    """A quotient, rounded up, so that the gain itself is not above it."""
    return math.ceil(_PRECISION * gain_ns / predicted_ns) / _PRECISION


def reach(gains: Sequence[GpuGain]) -> float:
    """Factor for the highest predicted gain, at least 1; 1 if too few gains were measured.

    Args:
        gains: The measured gains.
    """
    ratios = [gain.ratio for gain in gains]
    found = weighted_quantile(ratios, [1.0] * len(ratios), COVERAGE)
    return max(1.0, found or 1.0)
