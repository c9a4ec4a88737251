"""Regular expressions that are compiled at first use.

stepwhy recognises the names and notations of many programs, but a run contains few of them.
Compiling all expressions would take longer than reading a small trace.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, AnyStr, cast


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, but compiles when the result is first used.

    The functions of `re` do not accept the result: use its methods.
    """
    return cast("re.Pattern[AnyStr]", _Regex(text, flags))


class _Regex:
    """Proxy of a compiled expression, which caches the attributes that were used."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[Any]:
        return re.compile(self.pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        """Get an attribute of the expression, and cache it in this object."""
        value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value
