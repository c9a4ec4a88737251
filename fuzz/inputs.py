"""The damaged input with a number: the same for the same seed, format and number, everywhere."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from fuzz.formats import seeds
from fuzz.mutate import mutate
from fuzz.targets import TARGETS

if TYPE_CHECKING:
    from fuzz.formats import Files

# Of an input of several files, the one that is explained is damaged this often.
_MAIN = 0.6


def make(format_name: str, seed: int, index: int) -> Files:
    """One input; the first ones are the seeds as they are.

    Args:
        format_name: A format of `formats.TABLE`, or a target of `targets.TARGETS`.
        seed: Of the whole run.
        index: Number of the input, from 0.
    """
    target = TARGETS.get(format_name)
    valid = target.seeds() if target else seeds(format_name)
    if index < len(valid):
        return valid[index]
    random = Random(f"{seed}/{format_name}/{index}")
    if target:
        return target.damage(dict(random.choice(valid)), random)
    files = dict(random.choice(valid))
    names = list(files)
    name = names[0] if random.random() < _MAIN else random.choice(names)
    if len(names) > 1 and random.random() < 0.1:
        del files[names[-1]]
        name = names[0]
    others = [other[n] for other in valid for n in other if n == name]
    files[name] = mutate(name, files[name], others, random)
    return files
