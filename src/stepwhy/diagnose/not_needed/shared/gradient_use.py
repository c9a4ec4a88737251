"""What a step does with gradients that are recorded, as `stepwhy run` has seen it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts

# Source: `stepwhy.record.torch.gradient_use`.
_EVENT = "gradient-use"
NO_WEIGHT = "penalty without weight"
"""They are reduced to a number, which is multiplied by zero."""
OTHER = "other"
"""The step needs them for more than a penalty."""


class GradientUse(NamedTuple):
    """What the step does with them.

    Args:
        kind: One of the constants above, or 'penalty'.
        line: Line of the program that reads them first; '' if unknown.
    """

    kind: str
    line: str


def gradient_use(facts: Facts) -> GradientUse | None:
    """What the step does with recorded gradients; None if it was not seen."""
    rows, events = rows_of_kinds(facts.trace, _EVENT), facts.trace.events
    if not len(rows):
        return None
    name, source = int(events.name[rows[-1]]), int(events.source[rows[-1]])
    line = "" if source == NULL else facts.trace.string(source)
    return GradientUse(facts.trace.string(name), line)


__all__ = ["NO_WEIGHT", "OTHER", "GradientUse", "gradient_use"]
