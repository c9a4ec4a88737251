"""Random augmentation, whose results must not be stored for the next epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.advice import advice
from stepwhy.result import Fix
from stepwhy.trace import NULL

# Source: names of functions in torchvision, Albumentations, imgaug and Keras.
_RANDOM = regex(
    r"rand|augment|crop|flip|jitter|noise|mixup|cutout|cutmix|distort|perturb|elastic",
    re.IGNORECASE,
)


# Methods of generators of random numbers that draw values; those that choose elements are left out.
_DRAWS = regex(
    r"\b(?:randn?|randint|randrange|random|uniform_?|normal_?|standard_normal|normalvariate|gauss"
    r"|poisson|exponential_?|bernoulli_?|binomial)\b"
)
_LINE = regex(r"(?P<file>.*)\((?P<number>\d+)\): (?:.*\.)?(?P<function>.*)")
_BY_NAME = "By its name, the function augments at random"
_BY_CODE = "The function draws random numbers at or before this line"


def is_random(line: str) -> bool:
    """Whether a source line, 'file(line): function', is in a function that augments at random."""
    return _RANDOM.search(line.rpartition(": ")[2]) is not None


def is_new(facts: Facts, line: str) -> bool:
    """Whether what a line computes is new in each epoch, by the function's name or its code.

    The code of a data set of PyTorch was looked at. Of other code, only sampled lines are known.

    Args:
        facts: Facts of the run.
        line: The line, 'data.py(31): Images.decode'.
    """
    return is_random(line) or any(_is_behind(line, one) for one in _drawing_lines(facts))


def _drawing_lines(facts: Facts) -> Iterator[str]:
    """Lines that draw random numbers, or call what does."""
    trace, samples = facts.trace, facts.sampled.samples
    for row in rows_of_kinds(trace, "changing-lines").tolist():
        if trace.events.reason[row] != NULL:
            yield from trace.string(int(trace.events.reason[row])).split("\n")
    draws = facts.sampled.matches(samples.names, _DRAWS.search)
    yield from map(facts.sampled.string, set(samples.line[draws & (samples.line != NULL)].tolist()))


def _is_behind(line: str, earlier: str) -> bool:
    """Whether a line is in the same function as another one, and not before it."""
    one, other = _LINE.fullmatch(line), _LINE.fullmatch(earlier)
    if one is None or other is None or int(one["number"]) < int(other["number"]):
        return False
    return one.group("file", "function") == other.group("file", "function")


def cheaper_augmentation(line: str) -> Fix:
    """What to do about a line whose results must not be stored.

    Args:
        line: One for which `is_new` holds.
    """
    return advice(__name__, "cheaper", why=why_new(line))


def why_new(line: str) -> str:
    """Why the results of a line must not be stored, a clause."""
    return _BY_NAME if is_random(line) else _BY_CODE
