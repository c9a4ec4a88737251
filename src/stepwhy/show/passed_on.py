"""A result for readers on other machines, to whom the paths of this one say nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from stepwhy.result import Result


def with_short_paths(result: Result) -> Result:
    """The result with the paths of its inputs shortened to two names."""
    inputs = (replace(one, path="/".join(Path(one.path).parts[-2:])) for one in result.inputs)
    return replace(result, inputs=tuple(inputs))
