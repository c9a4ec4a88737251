"""Traces that others recorded, each of which is read once for all tests.

Tests that read most of them have the mark `TOGETHER`: one worker runs them all, or each would read
every trace.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.registry import read_trace

if TYPE_CHECKING:
    from pathlib import Path

TOGETHER = pytest.mark.xdist_group("recorded")


@cache
def facts_of(path: Path) -> Facts:
    """Facts of a file; tests change nothing about them."""
    trace, _ = read_trace(read_source(path))
    return Facts(trace)
