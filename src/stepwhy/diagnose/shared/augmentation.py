"""Random augmentation, whose results must not be stored for the next epoch."""

from __future__ import annotations

import re

from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.advice import advice
from stepwhy.result import Fix

# Source: names of functions in torchvision, Albumentations, imgaug and Keras.
_RANDOM = regex(
    r"rand|augment|crop|flip|jitter|noise|mixup|cutout|cutmix|distort|perturb|elastic",
    re.IGNORECASE,
)


def is_random(line: str) -> bool:
    """Whether a source line, 'file(line): function', is in a function that augments at random."""
    return _RANDOM.search(line.rpartition(": ")[2]) is not None


def cheaper_augmentation() -> Fix:
    """What to do about a function whose results must not be stored."""
    return advice(__name__, "cheaper")
