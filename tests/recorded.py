"""Traces that others recorded, each of which is read, examined and explained once for all tests.

Tests that read most of them have the mark `TOGETHER`, those that explain most of them `EXPLAINED`:
one worker runs all of a mark, or each would read every trace.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import InputError
from stepwhy.diagnose import run_all
from stepwhy.engine import explain
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.registry import read_trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepwhy.result import Finding, Result

TOGETHER = pytest.mark.xdist_group("recorded")
EXPLAINED = pytest.mark.xdist_group("explained")


@cache
def facts_of(path: Path) -> Facts:
    """Facts of a file; tests change nothing about them."""
    trace, _ = read_trace(read_source(path))
    return Facts(trace)


@cache
def findings_of(path: Path) -> Sequence[Finding]:
    """What all rules say of a file."""
    return run_all(facts_of(path))


@cache
def outcome_of(path: Path) -> Result | InputError:
    """The result of a file or folder, or why it cannot be explained."""
    try:
        return explain([str(path)])
    except InputError as error:
        return error
