"""Rates of copies whose size or time is damaged."""

import pytest

from stepwhy.diagnoses.exposed_transfer import diagnose
from stepwhy.passes.facts import Facts
from stepwhy.trace import Copy, DeviceKind, Kind, Meta, Role, TraceBuilder


def copying(size):
    builder = TraceBuilder()
    device = builder.device("GPU 0", DeviceKind.GPU)
    stream = builder.track(Role.STREAM, "stream 7", device=device)
    builder.slice(stream, Kind.MEMCPY, "HtoD", 0, 1000, copy=int(Copy.H2D), bytes=size)
    builder.slice(stream, Kind.KERNEL, "gemm", 1000, 1000)
    return builder.finish(Meta("test", signals=frozenset({"device-activity"})))


@pytest.mark.parametrize(("size", "rates"), [(32_000, [32 * 10**9]), (1 << 60, [])])
def test_a_rate_that_no_link_has_is_not_told(size, rates):
    told = {e.what: e.value for e in diagnose(Facts(copying(size))).evidence}
    assert told["copied host to device"] == size
    assert [v for what, v in told.items() if what.startswith("copied per second")] == rates
