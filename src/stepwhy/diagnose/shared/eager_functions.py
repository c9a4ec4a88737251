"""Functions of a JAX program whose operations run one by one beside a compiled gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Phase

MOST = 0.5  # of the operations with a known line; functions that run fewer are not the cause
_PART = 0.1  # of these operations, of each function that is named
# Of the repeats of the sequence: a function that is called in each of them comes to each of its
# lines as often. Lines are noted by time, and branches are taken at times, so some are missing.
_CALLED = 1 / 3

_LINE = regex(r"(?P<place>.*\(\d+)\): (?P<function>.+)")
# Custom gradients of activations are compiled, even where the gradient of a model is not.
_PRODUCT = regex(r".*(dot|matmul|gemm|conv|ynn).*")


class EagerFunctions(msgspec.Struct, frozen=True):
    """Functions that run operations one by one.

    Args:
        names: Their names, most operations first; () for code in the loop itself, and if they are
            not known.
        are_repeated: Whether all are called in each repeat of the sequence, as once per sample.
    """

    names: tuple[str, ...] = ()
    are_repeated: bool = False


def functions_beside_gradient(facts: Facts, calls: AnyRows, repeats: int) -> EagerFunctions | None:
    """The functions that run most of the operations.

    Args:
        facts: Facts of a JAX run.
        calls: The operations, in order; rows of slices.
        repeats: How often their sequence repeats in a step.

    Returns:
        None if the gradient is not compiled, or most operations are of the model.
    """
    lines = facts.derived(slice_lines)
    # Matrix products of the backward pass: only a compiled gradient has their names.
    rows = np.flatnonzero(facts.phases == Phase.BACKWARD)
    rows = rows[facts.trace.matches(facts.trace.slices.name[rows], _PRODUCT.fullmatch)]
    model = {_function(_text(facts, line)) for line in np.unique(lines[rows]).tolist()} - {""}
    if not model:
        return None
    texts = [_text(facts, line) for line in lines[calls].tolist()]
    counts = Counter(filter(None, _resolved(texts)))
    if sum(counts[name] for name in model) >= MOST * counts.total():
        return None
    named = tuple(
        name
        for name, count in counts.most_common()
        if count >= _PART * counts.total() and _is_function(name) and name not in model
    )
    if sum(counts[name] for name in named) < MOST * counts.total():
        return EagerFunctions()
    least = max(_CALLED * repeats, 2)
    steps = max(facts.steady_count, 1)
    return EagerFunctions(named, all(_is_repeated(texts, name, steps, least) for name in named))


def _is_function(name: str) -> bool:
    """Whether a name is that of a function apart from the loop."""
    return name.isidentifier() and name != "main"


def _is_repeated(lines: list[str], name: str, steps: int, least: float) -> bool:
    """Whether a step comes to each line of a function so often.

    Args:
        lines: The line of each operation, in order.
        name: The function.
        steps: Number of steps.
        least: The least number of times per step.
    """
    visits = _visits([line if _function(line) == name else "" for line in lines], steps)
    return bool(visits) and min(visits) >= least


def _text(facts: Facts, line: int) -> str:
    return "" if line == NULL else facts.trace.string(line)


def _function(line: str) -> str:
    """'train.py(12): update' -> 'update'; '' if the line is not known."""
    found = _LINE.fullmatch(line)
    return "" if found is None else found["function"]


def _resolved(lines: Iterable[str]) -> list[str]:
    """Functions of lines; a lambda belongs to the function that it stands in, where that is known.

    Args:
        lines: 'file(line): function' of each operation; '' where unknown.
    """
    found = [_LINE.fullmatch(line) for line in lines]
    named = {m["place"]: m["function"] for m in found if m and m["function"].isidentifier()}
    return ["" if m is None else _named(m["function"], named.get(m["place"])) for m in found]


def _named(function: str, around: str | None) -> str:
    """A function, or the one around it if it has no name of its own, as '<lambda>'."""
    return function if function.isidentifier() else around or function


def _visits(lines: list[str], steps: int) -> list[float]:
    """How often a step comes to each line that it runs, without those of less than one per step.

    Args:
        lines: The line of each operation, in order; '' for those of other functions.
        steps: Number of steps.
    """
    counts = Counter(lines)
    changes = zip(["", *lines], lines, strict=False)
    begins = Counter(line for before, line in changes if line != before)
    return [n / steps for line, n in begins.items() if line and counts[line] >= steps]
