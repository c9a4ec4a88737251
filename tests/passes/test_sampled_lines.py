"""Lines by stack samples, computed by hand."""

from __future__ import annotations

from stepwhy.findings import HostLine
from stepwhy.passes.sampled_lines import hot_lines, python_lines
from stepwhy.trace import Meta, SampleRole, TraceBuilder


def trace(*samples):
    """Samples as (line, package, count), with a role where it is not the driving thread's."""
    builder = TraceBuilder()
    for line, leaf, count, *role in samples:
        builder.add(
            "samples",
            line=builder.intern(line),
            package=builder.intern(leaf),
            count=count,
            role=int(role[0]) if role else int(SampleRole.DRIVER),
        )
    return builder.finish(Meta("step-log"))


def test_python_outside_the_framework_by_its_share_of_all_samples():
    assert python_lines(
        trace(
            ("train.py(12): augment", "", 30),
            ("train.py(12): augment", "numpy", 20),
            ("train.py(40): <module>", "tensorflow", 40),
            ("train.py(14): augment", "python", 8),
            ("", "python", 2),
        )
    ) == [("train.py(12): augment", 0.5), ("train.py(14): augment", 0.08)]


def test_workers_do_not_count_for_the_driving_thread():
    both = trace(
        ("train.py(40): <module>", "", 50),
        ("train.py(41): <module>", "torch", 50),
        ("data.py(31): decode", "PIL", 83, SampleRole.WORKER),
        ("data.py(33): scale", "torch", 10, SampleRole.WORKER),
        ("", "python", 7, SampleRole.WORKER),
        ("feed.py(9): produce", "python", 30, SampleRole.THREAD),
    )
    assert python_lines(both) == [("train.py(40): <module>", 0.5)]
    assert hot_lines(both) == (
        HostLine("train.py(40): <module>", 0.5, "driver"),
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


def test_few_samples_name_no_line():
    assert python_lines(trace(("train.py(12): augment", "", 19))) == []


def test_nothing_sampled():
    assert python_lines(trace()) == []
