"""Lines by stack samples, computed by hand."""

from __future__ import annotations

from stepwhy.analyse.steps.sampled_lines import python_lines
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
        ("feed.py(9): produce", "python", 30, SampleRole.THREAD),
    )
    assert python_lines(both) == [("train.py(40): <module>", 0.5)]


def test_few_samples_name_no_line():
    assert python_lines(trace(("train.py(12): augment", "", 19))) == []


def test_nothing_sampled():
    assert python_lines(trace()) == []
