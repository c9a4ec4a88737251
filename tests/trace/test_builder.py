"""The builder: interning, order, and flows that follow their slices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.trace import NULL, DeviceKind, FlowKind, Kind, Meta, Role, TraceBuilder

FEW = settings(max_examples=60, deadline=None, derandomize=True)
META = Meta("test")


def test_equal_strings_are_one():
    builder = TraceBuilder()
    assert builder.intern_all(["a", "b", "a"]) == [0, 1, 0]
    assert builder.intern("b") == 1


def test_devices_and_tracks_are_added_at_first_sight():
    builder = TraceBuilder()
    gpu = builder.device("GPU:0", DeviceKind.GPU, "A100")
    assert builder.device("GPU:0", DeviceKind.GPU) == gpu
    first = builder.track(Role.STREAM, "stream 7", process=1, thread=7, device=gpu)
    assert builder.track(Role.STREAM, "another name", process=1, thread=7, device=gpu) == first
    assert builder.track(Role.STREAM, "stream 8", process=1, thread=8, device=gpu) != first
    trace = builder.finish(META)
    assert trace.string(trace.devices.model[0]) == "A100"
    assert len(trace.tracks) == 2


def test_columns_that_are_not_given_take_their_null():
    builder = TraceBuilder()
    builder.slice(builder.track(Role.HOST_THREAD, "main"), Kind.OP, "a", 5, 3)
    trace = builder.finish(META)
    row = {name: values[0] for name, values in vars(trace.slices).items()}
    assert row == {
        "start_ns": 5, "dur_ns": 3, "track": 0, "kind": Kind.OP, "name": row["name"],
        "scope": NULL, "source": NULL, "phase": 0, "correlation": NULL, "sequence": NULL,
        "copy": 0, "pageable": NULL, "bytes": NULL,
    }  # fmt: skip
    assert trace.string(NULL) == ""


def test_a_column_of_nulls_takes_no_memory_until_a_row_has_a_value():
    builder = TraceBuilder()
    thread = builder.track(Role.HOST_THREAD, "main", process=1, thread=1)
    for start in (5, 0):
        builder.slice(thread, Kind.OP, "f", start, 1)
    columns = builder.finish(Meta("test")).slices
    assert columns.bytes.tolist() == [-1, -1]
    assert columns.bytes.strides == columns.copy.strides == (0,)
    builder.slice(thread, Kind.OP, "f", 3, 1, bytes=7)
    assert builder.finish(Meta("test")).slices.bytes.tolist() == [-1, 7, -1]


def test_an_unknown_column_is_a_bug_of_the_importer():
    with pytest.raises(TypeError, match="no column"):
        TraceBuilder().add("slices", colour=1)


def test_a_trace_of_nothing_is_a_trace():
    trace = TraceBuilder().finish(META)
    assert len(trace.slices) == 0
    assert trace.rows(Kind.OP, role=Role.STREAM).tolist() == []


def test_slices_from_columns_are_those_added_one_by_one():
    by_row, by_column = TraceBuilder(), TraceBuilder()
    for builder in (by_row, by_column):
        builder.track(Role.HOST_THREAD, "main")
        builder.intern_all(["a", "b"])
    by_row.slice(0, Kind.OP, "a", 4, 2)
    by_row.slice(0, Kind.INPUT, "b", 1, 2, bytes=9)
    by_column.slices_from(
        {
            "track": [0, 0], "kind": [Kind.OP, Kind.INPUT], "name": [1, 2],
            "start_ns": [4, 1], "dur_ns": [2, 2], "bytes": [NULL, 9],
        }
    )  # fmt: skip
    one, other = by_row.finish(META), by_column.finish(META)
    for name, values in vars(one.slices).items():
        assert values.tolist() == getattr(other.slices, name).tolist(), name


def test_rows_and_columns_stay_in_the_order_they_came_in():
    builder = TraceBuilder()
    track = builder.track(Role.HOST_THREAD, "main")
    first = builder.slice(track, Kind.OP, "a", 0, 9)
    builder.slices_from(
        {
            "track": np.zeros(2, dtype=np.int32), "kind": np.full(2, Kind.OP, dtype=np.int8),
            "name": np.full(2, builder.intern("b"), dtype=np.int32),
            "start_ns": np.asarray([1, 2]), "dur_ns": np.asarray([1, 1]),
        }
    )  # fmt: skip
    last = builder.slice(track, Kind.OP, "c", 5, 1)
    assert (first, last) == (0, 3)
    builder.add("flows", source=first, target=last, kind=int(FlowKind.DATA))
    trace = builder.finish(META)
    assert [trace.string(n) for n in trace.slices.name] == ["a", "b", "b", "c"]
    assert trace.slices.correlation.tolist() == [NULL] * 4
    assert (trace.flows.source.tolist(), trace.flows.target.tolist()) == ([0], [3])


@FEW
@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 8)), max_size=30), st.data())
def test_parents_come_before_their_children_and_flows_follow(spans, data):
    builder = TraceBuilder()
    track = builder.track(Role.HOST_THREAD, "main")
    rows = [builder.slice(track, Kind.OP, str(i), *span) for i, span in enumerate(spans)]
    flows = (
        data.draw(st.lists(st.tuples(st.sampled_from(rows), st.sampled_from(rows)), max_size=8))
        if rows
        else []
    )
    for source, target in flows:
        builder.add("flows", source=source, target=target, kind=int(FlowKind.DATA))

    trace = builder.finish(META)

    order = list(zip(trace.slices.start_ns.tolist(), (-trace.slices.dur_ns).tolist(), strict=True))
    assert order == sorted((start, -dur) for start, dur in spans)
    names = [trace.string(n) for n in trace.slices.name]
    followed = [
        (int(names[source]), int(names[target]))
        for source, target in zip(trace.flows.source, trace.flows.target, strict=True)
    ]
    assert followed == flows


def test_counters_and_marks_are_ordered_by_time():
    builder = TraceBuilder()
    for time in (5, 1, 3):
        builder.add("counters", time_ns=time, name=builder.intern("c"), value=10 * time)
        builder.add("marks", start_ns=time, dur_ns=1, profiled=0)
    trace = builder.finish(META)
    assert trace.counters.value.tolist() == [10, 30, 50]
    assert trace.marks.start_ns.tolist() == [1, 3, 5]


def test_a_negative_duration_is_refused():
    builder = TraceBuilder()
    builder.slice(builder.track(Role.HOST_THREAD, "main"), Kind.OP, "a", 5, -3)
    with pytest.raises(ValueError, match="dur_ns"):
        builder.finish(META)


@pytest.mark.parametrize("row", [-1, 1, 7])
def test_a_flow_to_a_slice_that_is_not_there_is_refused(row):
    builder = TraceBuilder()
    builder.slice(builder.track(Role.HOST_THREAD, "main"), Kind.OP, "a", 5, 3)
    builder.add("flows", source=0, target=row, kind=int(FlowKind.DATA))
    with pytest.raises(ValueError, match="flows"):
        builder.finish(META)


def test_records_that_vanish_are_noticed():
    builder = TraceBuilder()
    builder.health.events_read = 1
    with pytest.raises(ValueError, match="read 1 events, but kept 0"):
        builder.finish(META)
