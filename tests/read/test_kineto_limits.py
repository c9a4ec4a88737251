"""Kineto traces with more threads, streams, devices and memory pools than are told apart."""

import json

import pytest

from stepwhy.read.formats.kineto import allocations, lanes, track_codes
from stepwhy.read.formats.kineto import reader as kineto
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.chrome_json import cuts
from stepwhy.trace import Role


@pytest.fixture(params=["plain", "swept"])
def read(request, monkeypatch):
    """Read records as a Kineto trace, with and without the compiled kernel."""
    monkeypatch.setattr(track_codes, "MAX_TRACKS", 6)
    monkeypatch.setattr(allocations, "MAX_POOLS", 2)
    swept = []
    if request.param == "swept":
        request.getfixturevalue("kernels")
        monkeypatch.setattr(kineto, "LARGE", 0)
        monkeypatch.setattr(cuts, "CHUNK", 128)

    class Counted(lanes.Sweep):
        def read(self, position, goal):
            swept.append(super().read(position, goal))
            return swept[-1]

    monkeypatch.setattr(lanes, "Sweep", Counted)

    def read_records(records):
        swept.clear()
        trace = kineto.read(Source(json.dumps({"traceEvents": records}).encode(), "x.json"))
        assert bool(sum(s.records for s in swept)) == (request.param == "swept")
        return trace

    return read_records


def kernel(number, device, stream):
    return {
        "ph": "X",
        "cat": "kernel",
        "name": "k",
        "pid": device,
        "tid": stream,
        "ts": 10 * number,
        "dur": 4,
        "args": {"device": device, "stream": stream},
    }


def operation(number, thread):
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 1,
        "tid": thread,
        "ts": 10 * number,
        "dur": 4,
    }


# The file's last records are read without the kernel.
END = [operation(1000 + n, 0) for n in range(3)]


def counted(trace):
    return {c.counter: (c.count, c.dropped) for c in trace.health.counters}


def kernels_of(trace):
    """Number of slices on each device."""
    names = [trace.string(name) for name in trace.devices.name.tolist()]
    device = trace.tracks.device[trace.slices.track].tolist()
    return {name: device.count(row) for row, name in enumerate(names)}


def test_streams_beyond_the_most_share_a_track_of_their_device(read):
    trace = read([kernel(n, n % 2, n) for n in range(60)] + END)
    assert kernels_of(trace) == {"GPU:0": 30, "GPU:1": 30}
    assert list(trace.tracks.role).count(Role.STREAM) == 5 + 2  # one is a thread
    assert counted(trace)["tracks-together"] == (55, False)
    assert trace.health.events_kept == 63


def test_devices_beyond_the_most_are_one(read):
    trace = read([kernel(n, n, 7) for n in range(60)] + [kernel(99, 3, 8), *END])
    assert kernels_of(trace) == {
        "GPU:0": 1,
        "GPU:1": 1,
        "GPU:2": 1,
        "GPU:3": 2,
        "GPU:4": 1,
        "GPU:others": 55,
    }
    assert counted(trace)["tracks-together"] == (55 + 1, False)


def test_threads_beyond_the_most_share_a_track(read):
    trace = read([operation(n, n) for n in range(60)] * 2 + END)
    names = [trace.string(name) for name in trace.tracks.name.tolist()]
    assert names == [*(f"thread {n}" for n in range(6)), "other tracks"]
    on = trace.slices.track.tolist()
    assert [on.count(track) for track in range(7)] == [2 + 3, 2, 2, 2, 2, 2, 108]
    assert counted(trace)["tracks-together"] == (54, False)


def test_threads_up_to_the_most_keep_their_tracks(read):
    trace = read([operation(n, n % 6) for n in range(60)] + END)
    assert len(trace.tracks) == 6
    assert "tracks-together" not in counted(trace)


def test_memory_of_devices_beyond_the_most_is_one(read):
    memory = [
        {
            "ph": "i",
            "name": "[memory]",
            "pid": 1,
            "tid": 0,
            "ts": 10 * n,
            "args": {"Device Type": n % 5 and 1, "Device Id": n, "Addr": n, "Bytes": 8},
        }
        for n in range(1, 60)
    ]
    trace = read(memory + END)
    pools = [trace.string(pool) for pool in trace.allocations.pool.tolist()]
    assert {pool: pools.count(pool) for pool in pools} == {
        "GPU:1": 1,
        "GPU:2": 1,
        "GPU:others": 46,
        "CPU": 11,
    }
    assert counted(trace)["pools-together"] == (46, False)
