"""What the source of a file says of its lines: which are in generators or loops, what they call.

Files are parsed, never run. Nothing is known of a file that cannot be read.
"""

from __future__ import annotations

import ast
import functools
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepwhy.base.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Loop = Literal["", "loop", "comprehension"]

# Bytes; no one writes longer programs by hand.
_LONGEST_FILE = 4 << 20
_MOST_NAMES = 4  # of a line; more calls in one line are rare
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_YIELDS = (ast.Yield, ast.YieldFrom)


class SourceLine(NamedTuple):
    """What a line is part of.

    Args:
        in_generator: Whether it is in a generator function, which may hand over batches.
        loop: 'loop' in a `for` or `while` of its function, 'comprehension' in a comprehension; ''
            in neither. A loop that yields, or is in no function, does not count: it hands over one
            batch after another, or is that of the training.
        names: Names of the functions that it calls, without their modules and objects.
    """

    in_generator: bool = False
    loop: Loop = ""
    names: tuple[str, ...] = ()


@functools.cache
def source_lines(path: str) -> Mapping[int, SourceLine]:
    """The lines of a file by number; empty if it cannot be read.

    Args:
        path: A Python file.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(read_regular(Path(path), _LONGEST_FILE), path)
        return _lines(tree)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return {}


def _lines(tree: ast.Module) -> dict[int, SourceLine]:
    generators: dict[int, bool] = {}
    loops: dict[int, Loop] = {}
    for function in _of(tree, *_FUNCTIONS):
        generators |= dict.fromkeys(_numbers(function), _yields(function))
        loops |= dict.fromkeys(_numbers(function), "")
        for loop in _own(function, *_LOOPS):
            loops |= {} if _yields(loop) else dict.fromkeys(_numbers(loop), "loop")
    for loop in _of(tree, *_COMPREHENSIONS):
        loops |= dict.fromkeys(_numbers(loop), "comprehension")
    calls = _calls(tree)
    return {
        n: SourceLine(generators.get(n, False), loops.get(n, ""), calls.get(n, ()))
        for n in generators.keys() | loops.keys() | calls.keys()
    }


def _of(node: ast.AST, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of some kinds in a node, outer ones first."""
    return (one for one in ast.walk(node) if isinstance(one, kinds))


def _own(node: ast.AST, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of some kinds in a node, but not in functions within it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, kinds):
            yield child
        if not isinstance(child, (*_FUNCTIONS, ast.Lambda)):
            yield from _own(child, *kinds)


def _yields(node: ast.AST) -> bool:
    return any(_own(node, *_YIELDS))


def _numbers(node: ast.AST) -> range:
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 0)
    return range(first, last + 1)


def _calls(tree: ast.Module) -> dict[int, tuple[str, ...]]:
    """The names of the called functions by line, in the order of the source."""
    found: dict[int, tuple[str, ...]] = {}
    for call in _of(tree, ast.Call):
        function = getattr(call, "func", None)
        name = getattr(function, "attr", "") or getattr(function, "id", "")
        for number in _numbers(function) if name and function else ():
            known = found.get(number, ())
            if name not in known and len(known) < _MOST_NAMES:
                found[number] = (*known, name)
    return found
