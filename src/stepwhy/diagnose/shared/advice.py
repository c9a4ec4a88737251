"""Advice: the fixes that a module can give, in the Markdown file beside it.

Each section is a fix: its name, what to do, a few lines of code where there are any, and what else
the fix may change.

    ## workers

    Let worker processes prepare the batches.

    ```python
    loader = DataLoader(dataset, num_workers=2)
    ```

    Risk: changes-memory
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import get_data
from typing import cast

from msgspec.structs import replace

from stepwhy.base.patterns import regex
from stepwhy.result import Fix
from stepwhy.result.result import Risk

SECTION = regex(
    r"## (?P<name>\S+)\n\n(?P<text>.+?)\n\n"
    r"(?:```(?P<language>\w+)\n(?P<code>.+?)\n```\n\n)?"
    r"Risk: (?P<risk>\S+)\n",
    re.DOTALL,
)


def advice_text(module: str) -> str:
    """The Markdown file beside a module, which may be in an archive.

    Args:
        module: `__name__` of the module.

    Raises:
        OSError: There is none.
        ModuleNotFoundError: There is no such package.
    """
    package, _, name = module.rpartition(".")
    # `get_data` would load a package without making it an attribute of the one that contains it.
    import_module(package)
    return cast("bytes", get_data(package, f"{name}.md")).decode()


def advice(module: str, name: str, /, **values: object) -> Fix:
    """A fix of the file beside a module, which is read once.

    Args:
        module: `__name__` of the module.
        name: Heading of the section.
        values: What its text names in braces.
    """
    fix = fixes_of(module)[name]
    return replace(fix, text=fix.text.format(**values)) if values else fix


@cache
def fixes_of(module: str) -> Mapping[str, Fix]:
    """All fixes of a module by their names."""
    return {found["name"]: _fix(found) for found in SECTION.finditer(advice_text(module))}


def _fix(found: re.Match[str]) -> Fix:
    text = found["text"].replace("\n", " ")
    return Fix(text, found["code"] or "", cast("Risk", found["risk"]))
