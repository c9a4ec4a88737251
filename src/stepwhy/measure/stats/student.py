"""Quantiles of Student's t distribution, for confidence intervals of a few repeated runs."""

from __future__ import annotations

import math

# Bisections of a quarter turn; more do not change the angle in double precision.
_BISECTIONS = 60


def student_quantile(freedom: int, probability: float) -> float:
    """Quantile of Student's t distribution.

    Args:
        freedom: Degrees of freedom, at least 1.
        probability: Between 0 and 1, exclusive.

    Raises:
        ValueError: If an argument is outside its range.
    """
    if freedom < 1 or not 0 < probability < 1:
        raise ValueError(f"no quantile for {freedom} degrees of freedom at {probability}")
    central = abs(2 * probability - 1)
    low, high = 0.0, math.pi / 2
    for _ in range(_BISECTIONS):
        angle = (low + high) / 2
        if _central_probability(freedom, angle) < central:
            low = angle
        else:
            high = angle
    return math.copysign(math.sqrt(freedom) * math.tan(low), probability - 0.5)


def _central_probability(freedom: int, angle: float) -> float:
    """P(|T| <= t) for the t whose angle is atan(t / sqrt(freedom)).

    Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 26.7.3 and 26.7.4.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for factor in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine**2 * (factor - 1) / factor
    return (2 / math.pi) * (angle + sine * total) if odd else sine * total
