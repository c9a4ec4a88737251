"""Comparisons in the formats of continuous integration.

Each format is a function of the comparison, of the limit that it must keep, and of the name of the
comparison; `FAILURES` holds those that also show a program that broke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.show.ci import bencher, github, junit

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.base.errors import StepwhyError
    from stepwhy.result import Comparison
    from stepwhy.result.gate import Gate

FORMATS: dict[str, Callable[[Comparison, Gate, str], str]] = {
    "bmf": bencher.render,
    "github": github.render,
    "junit": junit.render,
}
"""Renders a comparison, by the name of the format."""

FAILURES: dict[str, Callable[[StepwhyError, str], str]] = {
    "github": github.render_failure,
    "junit": junit.render_failure,
}
"""Renders why there is no comparison, by the name of the format."""

__all__ = ["FAILURES", "FORMATS"]
