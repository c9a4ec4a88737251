"""Slices that come some at a time."""

import numpy as np

from stepwhy.read.shared.slice_columns import SliceColumns
from stepwhy.trace import NULL, Kind, Meta, Role, TraceBuilder


def test_columns_that_some_slices_lack_are_null_there():
    builder = TraceBuilder()
    track = builder.track(Role.STREAM, "x")
    name = builder.intern("y")
    slices = SliceColumns()
    shared = {"track": track, "name": name, "kind": int(Kind.KERNEL), "dur_ns": 1}
    slices.add({"start_ns": np.array([1, 2]), **shared, "source": NULL})
    slices.add({"start_ns": np.array([3]), **shared, "bytes": np.array([4096])})
    slices.add({"start_ns": np.array([4]), **shared, "kind": int(Kind.MEMSET)})
    assert len(slices) == 4
    slices.add_to(builder)
    assert len(slices) == 0
    table = builder.finish(Meta("test")).slices
    assert table.start_ns.tolist() == [1, 2, 3, 4]
    assert table.dur_ns.tolist() == [1, 1, 1, 1]
    assert table.bytes.tolist() == [NULL, NULL, 4096, NULL]
    assert table.kind.tolist() == [Kind.KERNEL] * 3 + [Kind.MEMSET]
    assert table.source.strides == (0,)


def test_what_slices_hold_can_be_changed_and_asked_for():
    slices = SliceColumns()
    assert slices.distinct("kind") == set()
    slices.add({"start_ns": np.arange(4), "dur_ns": 1})
    assert slices.distinct("kind") == {0}
    slices.put("kind", np.array([1, 3]), int(Kind.STEP))
    slices.put("track", np.array([1, 3]), np.array([7, 8]))
    slices.put("kind", np.array([3]), int(Kind.OP))
    slices.add({"start_ns": np.array([4]), "kind": np.array([Kind.SYNC])})
    assert slices.distinct("kind") == {0, Kind.STEP, Kind.OP, Kind.SYNC}
    assert slices.distinct("track") == {0, 7, 8}


def test_a_column_may_come_after_many_slices(monkeypatch):
    monkeypatch.setattr("stepwhy.base.columns.chunks.CHUNK", 4)
    slices = SliceColumns()
    slices.add({"start_ns": np.arange(9)})
    slices.add({"start_ns": np.array([9]), "bytes": np.array([512])})
    builder = TraceBuilder()
    builder.track(Role.STREAM, "x")
    builder.intern("y")
    slices.add_to(builder)
    table = builder.finish(Meta("test")).slices
    assert table.bytes.tolist() == [NULL] * 9 + [512]


def test_no_slices_are_no_rows():
    builder = TraceBuilder()
    SliceColumns().add_to(builder)
    assert len(builder.finish(Meta("test")).slices) == 0
