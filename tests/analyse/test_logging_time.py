"""Time in libraries that log is storage."""

from __future__ import annotations

import pytest

from stepwhy.analyse.breakdown.logging_time import as_storage, logging_lines
from stepwhy.trace.notation import parse

SAMPLES = """
    samples: role | line | package | entry | count
    driver | a.py(1): f | torch | - | 60
    driver | a.py(2): g | wandb | - | 40
    thread | a.py(3): h | wandb | - | 90
"""


def breakdown(**parts):
    return {"compute": 0, "python": 0, "unexplained": 0, "storage": 0, **parts}


def test_lines_of_the_driving_thread():
    assert logging_lines(parse(SAMPLES)) == ({("a.py(2): g", "wandb"): 40}, 0.4)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (breakdown(compute=50, unexplained=50), breakdown(compute=50, unexplained=10, storage=40)),
        (
            breakdown(compute=50, unexplained=20, python=30),
            breakdown(compute=50, python=10, storage=40),
        ),
        (breakdown(compute=90, python=10), breakdown(compute=90, storage=10)),
    ],
)
def test_unexplained_time_and_python_become_storage(before, after):
    assert as_storage(before, parse(SAMPLES)) == after
