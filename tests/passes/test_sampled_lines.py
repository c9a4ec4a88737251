"""Lines by stack samples, computed by hand."""

from __future__ import annotations

from stepwhy.passes.sampled_lines import python_lines
from stepwhy.trace import Meta, TraceBuilder


def trace(*samples):
    builder = TraceBuilder()
    for line, leaf, count in samples:
        builder.add("samples", line=builder.intern(line), leaf=builder.intern(leaf), count=count)
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


def test_few_samples_name_no_line():
    assert python_lines(trace(("train.py(12): augment", "", 19))) == []


def test_nothing_sampled():
    assert python_lines(trace()) == []
