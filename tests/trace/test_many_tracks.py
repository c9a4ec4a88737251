"""Traces with more threads and streams than are told apart."""

import pytest

from stepwhy.engine.explain import explain
from stepwhy.importers.formats.chrome_trace import uses
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


@pytest.mark.usefixtures("ten_tracks")
def test_a_chrome_trace_of_many_threads_says_that_they_are_together(tmp_path):
    events = [f'{{"ph":"X","name":"f","pid":1,"tid":{n},"ts":{n},"dur":1}}' for n in range(30)]
    path = tmp_path / "trace.json"
    path.write_text(f"[{','.join(events)}]")
    (given,) = explain([str(path)]).inputs
    assert (given.events_read, given.events_kept) == (30, 30)
    assert [(h.counter, h.count) for h in given.health] == [("tracks-together", 21)]
