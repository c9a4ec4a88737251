"""Which lines hold the threads of each role, by samples computed by hand."""

from __future__ import annotations

from tests.analyse.test_sampled_lines import trace

from stepwhy.analyse.answers.host_load import hot_lines
from stepwhy.result import HostLine
from stepwhy.trace import SampleRole


def test_lines_of_each_role():
    both = trace(
        ("train.py(40): <module>", "", 50),
        ("train.py(41): <module>", "torch", 50),
        ("data.py(31): decode", "PIL", 83, SampleRole.WORKER),
        ("data.py(33): scale", "torch", 10, SampleRole.WORKER),
        ("", "python", 7, SampleRole.WORKER),
        ("feed.py(9): produce", "python", 30, SampleRole.THREAD),
    )
    assert hot_lines(both) == (
        HostLine("train.py(40): <module>", 0.5, "driver"),
        HostLine("train.py(41): <module>", 0.5, "driver"),
        HostLine("data.py(31): decode", 0.83, "worker"),
        HostLine("data.py(33): scale", 0.1, "worker"),
        HostLine("feed.py(9): produce", 1.0, "thread"),
    )


def test_a_role_with_few_samples_names_no_line():
    assert hot_lines(trace(("data.py(31): decode", "", 19, SampleRole.WORKER))) == ()


def test_five_lines_per_role_and_no_rare_ones():
    many = trace(*((f"train.py({n}): f", "", 100 - n) for n in range(10)))
    assert [h.line for h in hot_lines(many)] == [f"train.py({n}): f" for n in range(5)]
    rare = trace(("train.py(1): f", "", 99), ("train.py(2): f", "", 1))
    assert [h.line for h in hot_lines(rare)] == ["train.py(1): f"]
