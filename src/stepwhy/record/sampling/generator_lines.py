"""Find the lines of the program's generator functions, in which a loop may prepare its batches."""

from __future__ import annotations

import functools
import inspect
import warnings
from pathlib import Path
from types import CodeType

from stepwhy.base.regular_files import read_regular

# Bytes; no one writes longer programs by hand.
_LONGEST_FILE = 4 << 20
_EXPRESSION = "<genexpr>"


@functools.cache
def generator_lines(path: str) -> frozenset[int]:
    """Numbers of the lines of a file that are in generator functions; empty if it is unreadable.

    The file is compiled, never run. Functions that a generator calls are not part of it.

    Args:
        path: A Python file.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            codes = [compile(read_regular(Path(path), _LONGEST_FILE), path, "exec")]
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return frozenset()
    found: set[int] = set()
    for code in codes:
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
        if code.co_flags & inspect.CO_GENERATOR and code.co_name != _EXPRESSION:
            found.update(line for *_, line in code.co_lines() if line is not None)
    return frozenset(found)
