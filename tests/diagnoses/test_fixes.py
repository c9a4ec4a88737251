"""Code that a finding offers can be copied from the terminal as it stands."""

from __future__ import annotations

import pytest

from stepwhy.diagnoses import TABLE, load
from stepwhy.findings import Fix

WIDEST = 73  # columns, beside the indentation of the report on a terminal of 80


@pytest.mark.parametrize("name", TABLE)
def test_code_fits_the_terminal(name):
    fixes = [value for value in vars(load(name)).values() if isinstance(value, Fix)]
    lines = [line for fix in fixes for line in fix.code.splitlines()]
    assert [line for line in lines if len(line) > WIDEST] == []
