"""A file of several ranks, split into their traces."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.trace.traces import flows_of, slices_of, traces

from stepwhy.trace import NULL, DeviceKind, Kind, Meta, Role, TraceBuilder, ranks
from stepwhy.trace.integrity import check
from stepwhy.trace.merge import concatenate
from stepwhy.trace.ranks import SIGNAL, split_ranks


def two_ranks():
    """Rank 5 and rank 2, each with a thread and a GPU of its own; rank 5's slices are linked."""
    builder = TraceBuilder()
    for rank in (5, 2):
        device = builder.device(f"GPU:{rank}", DeviceKind.GPU)
        thread = builder.track(Role.HOST_THREAD, "main", process=rank, thread=rank)
        stream = builder.track(Role.STREAM, "stream", process=rank, thread=7, device=device)
        call = builder.slice(thread, Kind.LAUNCH, f"launch {rank}", rank, 1)
        work = builder.slice(stream, Kind.KERNEL, f"kernel {rank}", rank + 10, 1)
        builder.add("flows", source=call, target=work, kind=0)
        builder.add("counters", time_ns=1, name=builder.intern("memory"), device=device, value=rank)
    builder.add("counters", time_ns=2, name=builder.intern("all"), value=9)
    return builder.finish(Meta("test", signals=frozenset({SIGNAL, "passes"})))


def test_every_rank_has_its_own_tracks_devices_and_slices():
    second, fifth = split_ranks(two_ranks())
    assert (second.meta.rank, fifth.meta.rank) == (2, 5)
    assert second.meta.signals == {"passes"}
    for trace, rank in ((second, 2), (fifth, 5)):
        check(trace)
        names = [trace.string(n) for n in trace.slices.name]
        assert names == [f"launch {rank}", f"kernel {rank}"]
        assert [trace.string(n) for n in trace.devices.name] == [f"GPU:{rank}"]
        assert trace.tracks.device.tolist() == [NULL, 0]
        assert (trace.flows.source.tolist(), trace.flows.target.tolist()) == ([0], [1])
        assert trace.counters.value.tolist() == [rank, 9]


def test_shared_devices_are_in_each_of_their_ranks_and_flows_between_ranks_in_none():
    builder = TraceBuilder()
    shared, unused = (builder.device(name, DeviceKind.GPU) for name in ("GPU:0", "GPU:1"))
    streams = [builder.track(Role.STREAM, "s", process=p, thread=1, device=shared) for p in (0, 1)]
    source, target = (builder.slice(stream, Kind.KERNEL, "k", 0, 1) for stream in streams)
    builder.add("flows", source=source, target=target, kind=0)
    for device in (shared, unused):
        builder.add("counters", time_ns=0, name=builder.intern("c"), device=device, value=device)
    trace = builder.finish(Meta("test", signals=frozenset({SIGNAL})))
    for rank in split_ranks(trace):
        check(rank)
        assert [rank.string(n) for n in rank.devices.name] == ["GPU:0"]
        assert rank.counters.device.tolist() == [0]
        assert (len(rank.slices), len(rank.flows)) == (1, 0)


def test_rows_are_looked_at_for_their_own_rank_only(monkeypatch):
    builder, count = TraceBuilder(), 50
    for rank in range(count):
        device = builder.device(f"GPU:{rank}", DeviceKind.GPU)
        stream = builder.track(Role.STREAM, "s", process=rank, thread=1, device=device)
        builder.slice(stream, Kind.KERNEL, "k", rank, 1)
        builder.add("counters", time_ns=rank, name=builder.intern("c"), device=device, value=1)
    chosen, looked_at = ranks._chosen, []
    monkeypatch.setattr(
        ranks, "_chosen", lambda table, rows: looked_at.append(len(rows)) or chosen(table, rows)
    )
    split_ranks(builder.finish(Meta("test", signals=frozenset({SIGNAL}))))
    assert sum(looked_at) == 4 * count  # a device, a track, a slice and a counter of each rank


def test_other_traces_stay_whole():
    trace = TraceBuilder().finish(Meta("test"))
    assert split_ranks(trace) == [trace]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(traces(), min_size=1, max_size=3))
def test_nothing_is_lost_or_doubled(parts):
    joined = concatenate(parts)
    meta = replace(joined.meta, signals=frozenset({SIGNAL}))
    ranks = split_ranks(replace(joined, meta=meta))
    for rank in ranks:
        check(rank)
    assert sorted(s for r in ranks for s in slices_of(r)) == slices_of(joined)
    within = [f for r in ranks for f in flows_of(r)]
    assert set(within) <= set(flows_of(joined))
