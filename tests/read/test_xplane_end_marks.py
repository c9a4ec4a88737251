"""Ends of asynchronous instructions of XLA's CPU, whose marks are written late."""

import numpy as np
import pytest
from tests.read.xplane_samples import event, host, line, trace_of

from stepwhy.analyse.facts import Facts

CALL = "ThunkExecutor::Execute"


def ends_of(*on_pool):
    """End of a product from 10 us on, whose mark is at 90 us, us."""
    product = event("dot.1", 10, 2, hlo_op="dot.1", _p=7)
    pool = line("tf_XLAEigen/9", *on_pool, event("end: dot.1", 90, 0, _c=7))
    trace = trace_of(host(line("tf_XLAPjRtCpuClient/8", product), pool))
    slices = trace.slices
    (row,) = [n for n, code in enumerate(slices.name) if trace.string(int(code)) == "dot.1"]
    return int(slices.start_ns[row] + slices.dur_ns[row] - slices.start_ns.min()) // 1000


@pytest.mark.parametrize(
    ("calls", "end"),
    [
        ([], 90),
        ([(CALL, 30, 58)], 30),  # ran what waited for the product
        ([(CALL, 30, 58), ("all-reduce.1", 32, 50)], 30),
        ([(CALL, 30, 58), (CALL, 40, 20)], 30),  # of nested calls, the outermost
        ([(CALL, 30, 28)], 90),  # ended long before
        ([(CALL, 5, 83)], 90),  # began before the product: it did not wait for it
        ([("Other::Execute", 30, 58)], 90),
    ],
)
def test_what_ran_before_the_mark_is_not_part_of_the_instruction(calls, end):
    assert ends_of(event("begin", 0, 1), *(event(*call) for call in calls)) == end


def test_a_call_on_another_thread_changes_nothing():
    pools = [
        line("tf_XLAEigen/7", event(CALL, 30, 58)),
        line("tf_XLAEigen/9", event("end: dot.1", 90, 0, _c=7)),
    ]
    product = event("dot.1", 10, 2, hlo_op="dot.1", _p=7)
    trace = trace_of(host(line("tf_XLAPjRtCpuClient/8", product), *pools))
    assert int(trace.slices.dur_ns.max()) == 80_000


def test_a_product_does_not_hide_the_collective_that_waited_for_it():
    trace = trace_of(
        host(
            line("python", event("step", 0, 100, step_num=0)),
            line("tf_XLAPjRtCpuClient/8", event("dot.1", 10, 2, hlo_op="dot.1", _p=7)),
            line(
                "tf_XLAEigen/9",
                event(CALL, 30, 58),
                event("all-reduce.1", 32, 50, hlo_op="all-reduce.1"),
                event("end: dot.1", 90, 0, _c=7),
            ),
        )
    )
    breakdown = Facts(trace).breakdown
    assert breakdown["communication"] == 50_000
    assert breakdown["compute"] == 20_000


@pytest.mark.parametrize("span_us", [200_000_000, 90_000_000_000])
def test_a_long_window_changes_nothing(span_us):
    """A line's number times such a time in nanoseconds does not fit in 32 bits."""
    others = [line(f"other/{n}", event("begin", 0, 1)) for n in range(40)]
    pool = line(
        "tf_XLAEigen/9",
        event(CALL, 30, 58),
        event("end: dot.1", 90, 0, _c=7),
        event(CALL, span_us, 10),
    )
    product = event("dot.1", 10, 2, hlo_op="dot.1", _p=7)
    slices = trace_of(host(*others, line("tf_XLAPjRtCpuClient/8", product), pool)).slices
    (row,) = np.flatnonzero(slices.start_ns - slices.start_ns.min() == 10_000)
    assert slices.dur_ns[row] == 20_000
