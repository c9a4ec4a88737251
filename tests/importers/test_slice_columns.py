"""Slices that come some at a time."""

import numpy as np

from stepwhy.importers.slice_columns import SliceColumns
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
    slices.hand_over(builder)
    assert len(slices) == 0
    table = builder.finish(Meta("test")).slices
    assert table.start_ns.tolist() == [1, 2, 3, 4]
    assert table.dur_ns.tolist() == [1, 1, 1, 1]
    assert table.bytes.tolist() == [NULL, NULL, 4096, NULL]
    assert table.kind.tolist() == [Kind.KERNEL] * 3 + [Kind.MEMSET]
    assert table.source.strides == (0,)


def test_no_slices_are_no_rows():
    builder = TraceBuilder()
    SliceColumns().hand_over(builder)
    assert len(builder.finish(Meta("test")).slices) == 0
