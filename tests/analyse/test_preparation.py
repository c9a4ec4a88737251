"""Python that prepares batches, counted by hand."""

from __future__ import annotations

from stepwhy.analyse.breakdown.preparation import find_preparation
from stepwhy.trace import NULL, Meta, SampleRole, TraceBuilder

DRIVER, WORKER, THREAD = SampleRole.DRIVER, SampleRole.WORKER, SampleRole.THREAD


def trace(*samples):
    """Samples as (role, line, package, entry, count, names that it calls, what it has called)."""
    builder = TraceBuilder()
    for role, line, leaf, entry, count, *calls in samples:
        names, called = (*calls, "", "")[:2]
        builder.add(
            "samples",
            role=int(role),
            line=builder.intern(line),
            package=builder.intern(leaf),
            entry=builder.intern(entry) if entry else NULL,
            names=builder.intern(names) if names else NULL,
            called=builder.intern(called) if called else NULL,
            count=count,
        )
    return builder.finish(Meta("step-log"))


WAITS = (DRIVER, "train.py(40): main", "tensorflow", "", 100)


def test_threads_by_function_and_hottest_line():
    found = find_preparation(
        trace(
            WAITS,
            (THREAD, "data.py(3): decode", "", "py_func", 90),
            (THREAD, "data.py(4): decode", "PIL", "py_func", 110),
            (THREAD, "data.py(4): decode", "", "py_func", 10),
            (THREAD, "data.py(9): <lambda>", "", "py_func", 40),
        )
    )
    assert (found.function, found.line) == ("data.py: decode", "data.py(4): decode")
    assert (found.function_share, found.at_once, found.producers) == (210 / 250, 2.5, None)


def test_workers_are_counted_idle_ones_too():
    found = find_preparation(
        trace(
            WAITS,
            (WORKER, "data.py(3): decode", "", "DataLoader", 150),
            (WORKER, "", "python", "", 250),
        )
    )
    assert (found.role, found.entry, found.at_once, found.producers) == (
        WORKER, "DataLoader", 1.5, 4.0,
    )  # fmt: skip


def test_the_loop_itself_where_it_feeds():
    samples = trace(
        (DRIVER, "train.py(9): batch", "numpy", "", 60),
        (DRIVER, "train.py(40): main", "tensorflow", "", 40),
    )
    assert find_preparation(samples) is None
    found = find_preparation(samples, fed=True)
    assert (found.line, found.at_once) == ("train.py(9): batch", 0.6)


def test_the_role_that_does_most_of_it():
    found = find_preparation(
        trace(
            (DRIVER, "data.py(3): decode", "", "DataLoader", 10),
            WAITS,
            (WORKER, "data.py(3): decode", "", "DataLoader", 80),
        )
    )
    assert found.role is WORKER


def test_too_few_samples():
    assert find_preparation(trace((DRIVER, "a.py(1): f", "", "DataLoader", 19))) is None
    assert find_preparation(trace()) is None


def test_what_another_line_calls_is_not_called_by_the_line_of_the_work():
    found = find_preparation(
        trace(
            (DRIVER, "data.py(9): collate", "", "DataLoader", 80, "tensor"),
            (DRIVER, "data.py(3): load", "numpy", "DataLoader", 20, "", "numpy: roll"),
        )
    )
    assert (found.kind_line, found.kind_call) == ("data.py(9): collate", "")
