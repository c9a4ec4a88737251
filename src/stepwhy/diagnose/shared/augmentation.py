"""Random augmentation, whose results must not be stored for the next epoch."""

from __future__ import annotations

import re

from stepwhy.base.patterns import regex
from stepwhy.result import Fix

# Source: names of functions in torchvision, Albumentations, imgaug and Keras.
_RANDOM = regex(
    r"rand|augment|crop|flip|jitter|noise|mixup|cutout|cutmix|distort|perturb|elastic",
    re.IGNORECASE,
)

RANDOM = Fix(
    "By its name, the function augments at random, so that its results cannot be stored: each "
    "epoch needs new ones. Make it cheaper, for example by one call of the library for a whole "
    "batch, and store what comes before it.",
    "",
    "unknown",
)


def is_random(line: str) -> bool:
    """Whether a source line, 'file(line): function', is in a function that augments at random."""
    return _RANDOM.search(line.rpartition(": ")[2]) is not None


__all__ = ["RANDOM", "is_random"]
