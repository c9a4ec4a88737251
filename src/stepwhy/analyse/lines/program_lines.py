"""Which slices have a line of the program, and not one of the standard library."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Kind, among

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

# Traces name files relative to where Python finds them: 'threading.py(320): wait'. A program may
# have the name of a module of the standard library, but then its own code is '<module>' or 'main'.
_LINE = regex(r"(?:\S*python3\.\d+/)?(?P<module>\w+)(?:/\S+)?\.py\(\d+\): (?P<function>.+)")
_OF_PROGRAMS = frozenset({"<module>", "main"})
# What functions of the framework do: also wait, as `block_until_ready`, compile or save.
_OF_FRAMEWORK = (Kind.FRAMEWORK, Kind.COMPILE, Kind.SYNC, Kind.STORAGE)


def is_of_library(line: str) -> bool:
    """Whether a line 'file(line): function' is of the standard library."""
    match = _LINE.fullmatch(line)
    if match is None or match["function"] in _OF_PROGRAMS:
        return False
    return match["module"] in sys.stdlib_module_names


def has_program_line(trace: Trace) -> NDArray[np.bool_]:
    """Whether each slice has a line of the program, or of a library that it uses; (slices,).

    Lines of the framework and of the standard library do not count. A function of the framework is
    named by its line; a call of the framework may have the line of its caller.
    """
    slices = trace.slices
    of_framework = among(slices.kind, _OF_FRAMEWORK) & (slices.name == slices.source)
    found: NDArray[np.bool_] = (slices.source != NULL) & ~of_framework
    found[found] = ~trace.matches(slices.source[found], is_of_library)
    return found
