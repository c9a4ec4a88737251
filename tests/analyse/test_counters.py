"""Series of samples, computed by hand."""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.steps.counters import Series, series
from stepwhy.trace import DeviceKind, Meta, TraceBuilder

S = 1_000_000_000


def of(*samples):
    times, values = zip(*samples, strict=True) if samples else ((), ())
    return Series(np.asarray(times, dtype=np.int64) * S, np.asarray(values, dtype=np.int64))


def test_a_mean_over_time_does_not_count_samples():
    # Ten seconds at 0, then a step up within one second, then nine seconds at 100.
    assert of((0, 0), (1, 0), (2, 0), (10, 0), (11, 100), (20, 100)).mean == 47.5


def test_one_sample_is_its_own_mean():
    assert of((5, 80)).mean == 80.0
    assert of((5, 80), (5, 40)).mean == 60.0


def test_nothing_sampled():
    nothing = of()
    assert (nothing.mean, nothing.last, nothing.largest, nothing.growth) == (None,) * 4
    assert nothing.share_of_time is None


def test_a_total_of_time_as_a_share():
    assert of((0, 0), (10, 4 * S)).share_of_time == 0.4
    # Ticks are coarse: a total may grow a little faster than the clock.
    assert of((0, 0), (1, S + 1)).share_of_time == 1.0
    assert of((0, 0)).share_of_time is None


def test_bits():
    assert of((0, 4), (1, 12), (2, 0)).where(8).values.tolist() == [0, 1, 0]


def test_counters_of_the_machine_and_of_devices_are_apart():
    builder = TraceBuilder()
    device = builder.device("nvml:0", DeviceKind.GPU)
    name = builder.intern("used_bytes")
    builder.add("counters", time_ns=1, name=name, value=10)
    builder.add("counters", time_ns=2, name=name, value=20, device=device)
    trace = builder.finish(Meta("step-log"))
    assert series(trace, "used_bytes").values.tolist() == [10]
    assert series(trace, "used_bytes", device).values.tolist() == [20]
    assert series(trace, "other").values.tolist() == []
