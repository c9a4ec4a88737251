"""Traces with more threads and streams than can be distinguished."""

import pytest

from stepwhy.engine.explain import explain
from stepwhy.read.formats.chrome_trace import uses
from stepwhy.trace import DeviceKind, Kind, Meta, Role, TraceBuilder, builder


@pytest.fixture
def ten_tracks(monkeypatch):
    monkeypatch.setattr(builder, "MOST_TRACKS", 10, raising=False)
    monkeypatch.setattr(uses, "_SINGLE", 9, raising=False)


@pytest.mark.usefixtures("ten_tracks")
def test_streams_beyond_the_most_share_a_track_of_their_device():
    trace = TraceBuilder()
    for number in range(16):
        device = trace.device(f"GPU:{number % 2}", DeviceKind.GPU)
        track = trace.track(Role.STREAM, "stream", process=1, thread=number, device=device)
        assert track == trace.track(Role.STREAM, "stream", process=1, thread=number, device=device)
        trace.slice(track, Kind.KERNEL, "k", 10 * number, 5)
    done = trace.finish(Meta("kineto"))
    assert len(done.tracks) == 12
    assert done.tracks.device[done.slices.track].tolist() == [0, 1] * 8
    (counted,) = done.health.counters
    assert (counted.counter, counted.count, counted.dropped) == ("tracks-together", 6, False)


def chrome_trace(folder, *records):
    path = folder / "trace.json"
    path.write_text(f"[{','.join(records)}]")
    return str(path)


def x(process, thread, at, category=""):
    return (
        f'{{"ph":"X","cat":"{category}","name":"k","pid":{process},"tid":{thread},"ts":{at},'
        '"dur":1}'
    )


def named(kind, process, thread, name):
    return (
        f'{{"ph":"M","name":"{kind}_name","pid":{process},"tid":{thread},'
        f'"args":{{"name":"{name}"}}}}'
    )


@pytest.mark.parametrize(
    ("titles", "category"),
    [
        ([named("process", p, 0, f"GPU:{p}") for p in range(2)], ""),
        ([named("thread", n % 2, n, f"Stream #{n}") for n in range(40)], ""),
        ([named("thread", n % 2, n, f"GPU {n % 2} stream {n}") for n in range(40)], ""),
        ([], "kernel"),
    ],
    ids=["process", "stream", "thread", "category"],
)
@pytest.mark.usefixtures("ten_tracks")
def test_device_totals_of_a_chrome_trace_include_streams_beyond_the_most(
    titles, category, tmp_path
):
    """Two devices with 20 streams each, and a thread of the host."""
    work = [x(n % 2, n, 10 * n, category) for n in range(40)]
    host = [x(7, 70, 0)]
    devices = explain([chrome_trace(tmp_path, *titles, *host, *work)]).trace.devices
    assert [(d.kernels, d.busy_ns) for d in devices] == [(20, 20_000), (20, 20_000)]


@pytest.mark.usefixtures("ten_tracks")
def test_host_threads_of_a_chrome_trace_beyond_the_most_are_no_device(tmp_path):
    device = [named("process", 1, 0, "GPU:0"), x(1, 1, 0)]
    hosts = [x(2, n, 10 * n) for n in range(40)]
    (only,) = explain([chrome_trace(tmp_path, *device, *hosts)]).trace.devices
    assert (only.kernels, only.busy_ns) == (1, 1_000)


@pytest.mark.usefixtures("ten_tracks")
def test_a_chrome_trace_of_many_threads_says_that_they_are_together(tmp_path):
    (given,) = explain([chrome_trace(tmp_path, *(x(1, n, n) for n in range(30)))]).inputs
    assert (given.events_read, given.events_kept) == (30, 30)
    assert [(h.counter, h.count) for h in given.health] == [("tracks-together", 21)]
