"""Regular expressions that are compiled when they are first used.

stepwhy knows the names and notations of many programs, and a run shows few of them: to compile all
of its expressions would take longer than to read a small trace.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, AnyStr, cast


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, which is called with the first use of what this returns.

    Functions of `re` do not take it for an expression: use its methods.
    """
    return cast("re.Pattern[AnyStr]", _Regex(text, flags))


class _Regex:
    """Stands for an expression, and holds those of its methods that were used."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[Any]:
        return re.compile(self.pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        """An attribute of the expression, from then on one of this object."""
        value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value


__all__ = ["regex"]
