"""Copies with an impossible size or duration do not distort bandwidths."""

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.transfer import exposed_transfer, slow_link
from stepwhy.trace import Copy, DeviceKind, Kind, Meta, Role, TraceBuilder


def copying(size):
    builder = TraceBuilder()
    device = builder.device("GPU 0", DeviceKind.GPU)
    stream = builder.track(Role.STREAM, "stream 7", device=device)
    builder.slice(stream, Kind.MEMCPY, "HtoD", 0, 1000, copy=int(Copy.H2D), bytes=size)
    builder.slice(stream, Kind.KERNEL, "gemm", 1000, 1000)
    return builder.finish(Meta("test", signals=frozenset({"device-activity"})))


@pytest.mark.parametrize(("size", "rates"), [(32_000, [32 * 10**9]), (1 << 60, [])])
def test_impossible_bandwidth_is_not_reported(size, rates):
    evidence = {e.what: e.value for e in exposed_transfer.diagnose(Facts(copying(size))).evidence}
    assert evidence["copied host to device"] == size
    assert [v for what, v in evidence.items() if what.startswith("copied per second")] == rates


@pytest.mark.parametrize(("size", "best"), [(32_000_000, [320 * 10**9]), (1 << 60, [])])
def test_link_speed_ignores_impossible_copies(size, best):
    builder = TraceBuilder()
    device = builder.device("GPU 0", DeviceKind.GPU)
    stream = builder.track(Role.STREAM, "stream 7", device=device)
    for n in range(8):
        at = 200_000 * n
        copied = {"copy": int(Copy.H2D), "bytes": size}
        builder.slice(stream, Kind.MEMCPY, "HtoD", at, 100_000, **copied)
        builder.slice(stream, Kind.KERNEL, "gemm", at + 100_000, 100_000)
    trace = builder.finish(Meta("test", signals=frozenset({"device-activity", "copies"})))
    evidence = slow_link.diagnose(Facts(trace)).evidence
    assert [e.value for e in evidence if e.what.startswith("the best large copy")] == best
