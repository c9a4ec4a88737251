"""A name of a framework."""

from __future__ import annotations

from typing import NamedTuple


class Name(NamedTuple):
    """A name.

    Args:
        module: The module of the framework that has it.
        name: The name there.
        lost: What cannot be observed without it, or the command that cannot do without.
        expression: How to look it up, as Python in which `m` is the module; true if it is there.
            '' for an attribute of the module by its name.
    """

    module: str
    name: str
    lost: str
    expression: str = ""
