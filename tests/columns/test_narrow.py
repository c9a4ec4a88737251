"""Columns are stored in the narrowest type that holds their values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.columns.narrow import narrowed
from stepwhy.trace import Kind, Meta, Role, TraceBuilder
from stepwhy.trace.integrity import check
from stepwhy.trace.schema import NARROW_COLUMNS

WIDE = np.int64


@pytest.mark.parametrize(
    ("highest", "width"), [(63, 1), (64, 2), (2**14 - 1, 2), (2**14, 4), (2**30 - 1, 4), (2**30, 8)]
)
def test_narrowest_type_holds_sums_of_two_values(highest, width):
    assert narrowed(np.array([-1, highest], dtype=WIDE)).itemsize == width
    assert narrowed(np.array([-highest - 1, 0], dtype=WIDE)).itemsize == width


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70), max_size=5))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_narrowing_changes_no_value(numbers):
    values = np.array(numbers, dtype=WIDE)
    assert narrowed(values).tolist() == numbers


def test_narrow_and_constant_columns_are_returned_unchanged():
    narrow, repeated = np.array([5], dtype=np.int8), np.broadcast_to(np.int32(-1), 9)
    assert narrowed(narrow) is narrow
    assert narrowed(repeated) is repeated


def built(**columns):
    builder = TraceBuilder()
    thread = builder.track(Role.HOST_THREAD, "a", thread=1)
    rows = {"start_ns": [5, 1], "dur_ns": [1, 1], "kind": [Kind.OP] * 2, "name": [0, 0]}
    builder.slices_from({"track": [thread] * 2, **rows, **columns})
    builder.health.events_read = builder.health.events_kept = 2
    return builder.finish(Meta("test"))


def test_only_listed_columns_become_narrow():
    assert {"track", "name", "scope", "source", "correlation", "sequence"} == NARROW_COLUMNS
    slices = built(correlation=[7, 2**33], sequence=[1, 2], scope=[0, -1], bytes=[3, 4]).slices
    widths = {name: column.itemsize for name, column in vars(slices).items()}
    assert (widths["correlation"], widths["sequence"], widths["scope"]) == (8, 1, 1)
    assert slices.track.strides == slices.source.strides == (0,)  # one number, repeated
    assert slices.bytes.itemsize == slices.start_ns.itemsize == slices.dur_ns.itemsize == 8
    assert (slices.correlation.tolist(), slices.sequence.tolist()) == ([2**33, 7], [2, 1])


def test_narrow_columns_are_not_copied():
    slices = built(correlation=np.array([7, 8], dtype=np.int16)).slices
    assert slices.correlation.tolist() == [8, 7]


def test_builder_rejects_wider_types_and_other_kinds():
    for wrong in (np.int16, np.uint8, np.float32):
        trace = built()
        trace.slices.kind = trace.slices.kind.astype(wrong)
        with pytest.raises(ValueError, match=r"slices.kind"):
            check(trace)
