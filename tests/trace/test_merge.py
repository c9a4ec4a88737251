"""Windows of one process joined into one trace."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.traces import executions_of, flows_of, slices_of, traces, waits_of

from stepwhy.trace import Meta, TraceBuilder
from stepwhy.trace.merge import concatenate

FEW = settings(max_examples=40, deadline=None, derandomize=True)


def test_nothing_cannot_be_joined():
    with pytest.raises(ValueError, match="nothing"):
        concatenate([])


def test_one_window_is_itself():
    trace = TraceBuilder().finish(Meta("test"))
    assert concatenate([trace]) is trace


@FEW
@given(st.lists(traces(), min_size=2, max_size=4))
def test_every_row_keeps_its_meaning(parts):
    joined = concatenate(parts)
    assert slices_of(joined) == sorted(s for p in parts for s in slices_of(p))
    assert flows_of(joined) == sorted(f for p in parts for f in flows_of(p))
    assert executions_of(joined) == sorted(e for p in parts for e in executions_of(p))
    assert waits_of(joined) == sorted(w for p in parts for w in waits_of(p))
    for table in ("counters", "marks", "copies", "samples", "events", "levels", "stages"):
        assert len(joined.table(table)) == sum(len(p.table(table)) for p in parts)
    for table, column in (("counters", "time_ns"), ("events", "start_ns"), ("levels", "time_ns")):
        times = [t for p in parts for t in getattr(p.table(table), column).tolist()]
        assert getattr(joined.table(table), column).tolist() == sorted(times)


@FEW
@given(st.lists(traces(), min_size=2, max_size=3))
def test_devices_tracks_and_nodes_are_shared(parts):
    joined = concatenate(parts)

    def names(trace, table):
        return [trace.string(i) for i in trace.table(table).name]

    for table in ("devices", "tracks", "nodes"):
        assert sorted(names(joined, table)) == sorted({n for p in parts for n in names(p, table)})
    assert {joined.string(joined.nodes.name[i]) for i in joined.copies.source} == {
        p.string(p.nodes.name[i]) for p in parts for i in p.copies.source
    }


@FEW
@given(st.lists(traces(), min_size=2, max_size=3))
def test_facts_and_losses_of_all_windows_count(parts):
    joined = concatenate(parts)
    assert joined.health.events_read == sum(p.health.events_read for p in parts)
    assert joined.health.events_kept == sum(p.health.events_kept for p in parts)
    assert joined.health.dropped == sum(p.health.dropped for p in parts)
    assert joined.meta.signals == frozenset().union(*(p.meta.signals for p in parts))
    assert joined.meta.rank == parts[0].meta.rank
    assert joined.meta.device_expected is any(p.meta.device_expected for p in parts)
    assert joined.meta.notes == tuple(dict.fromkeys(n for p in parts for n in p.meta.notes))
