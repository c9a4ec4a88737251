"""The code of a fix fits into the terminal, so that it can be copied."""

from __future__ import annotations

import pytest

from stepwhy.diagnose import TABLE, load
from stepwhy.result import Fix

WIDEST = 73  # columns: a terminal of 80 less the indentation of the report


@pytest.mark.parametrize("name", TABLE)
def test_code_fits_the_terminal(name):
    fixes = [value for value in vars(load(name)).values() if isinstance(value, Fix)]
    lines = [line for fix in fixes for line in fix.code.splitlines()]
    assert [line for line in lines if len(line) > WIDEST] == []
