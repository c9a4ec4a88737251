"""Every invariant of the schema is really checked."""

import numpy as np
import pytest

from stepwhy.trace import Kind, Meta, Role, TraceBuilder
from stepwhy.trace.integrity import check
from stepwhy.trace.schema import COLUMNS, TABLES


def sound():
    """A trace with a row in each table."""
    builder = TraceBuilder()
    device = builder.device("GPU:0", 1)
    host = builder.track(Role.HOST_THREAD, "main")
    stream = builder.track(Role.STREAM, "stream 7", device=device)
    builder.slice(host, Kind.OP, "a", 0, 9)
    builder.slice(stream, Kind.KERNEL, "k", 1, 3)
    builder.add("flows", source=0, target=1, kind=0)
    builder.add("counters", time_ns=0, name=0, device=device, value=1)
    node = builder.add("nodes", name=0, op=0)
    builder.add("copies", source=node, target=node, from_device=0, to_device=0)
    builder.add("marks", start_ns=0, dur_ns=9, profiled=1)
    builder.add("samples", line=0, package=0, count=3)
    builder.add("visits", start_ns=0, end_ns=1, lines=0)
    builder.add("events", kind=0, start_ns=0, dur_ns=1, name=0)
    builder.add("levels", time_ns=0, queue=0, kind=0, value=1)
    builder.add("stages", name=0, kind=0, consumer=0)
    builder.add("executions", slice=0, runtime_op=0)
    builder.add("session_values", slice=0, fed=1, name=0, python_type=0, graph_type=0)
    builder.add("allocations", time_ns=0, pool=0, track=host, owner=0, change=1)
    builder.add("waits", time_ns=0, kind=2, slice=0, waiting=stream, awaited=stream, event=0)
    builder.add("collectives", slice=1, operation=0, group=0, ranks=2)
    builder.add("operands", slice=0, types=0, shapes=0)
    builder.add("instruction_scopes", name=0, source=0, scope=0)
    builder.add("line_times", step=0, op=0, line=0, dur_ns=1, engine=0)
    builder.add("rewrites", slice=1, copied_bytes=9, changed_bytes=1, operation=0, of_argument=1)
    builder.add("step_ops", name=0, padding=0, constant=1, line=0)
    builder.add("index_inputs", op=0, line=0, rows=2, columns=4, padded=2, at_start=0)
    builder.add("discards", slice=1, condition=0, holds=1, one_in=50)
    builder.add("table_updates", slice=1, table_bytes=90, used_bytes=1)
    builder.add("argument_uses", slice=1, program=0, arguments=0, compares_pairs=1)
    builder.add("collective_calls", group=0, sequence=1, operation=0, entered_ns=5, done=1)
    builder.add("positions", time_ns=90, since_ns=5, steps=3, usual_ns=4, lines=0)
    return builder.finish(Meta("test"))


@pytest.fixture
def trace():
    return sound()


def test_a_sound_trace_passes(trace):
    check(trace)


def spoil(trace, table, column, value):
    """Write a value into the first row of a column."""
    dtype = next(c.dtype for c in COLUMNS if (c.table, c.name) == (table, column))
    values = getattr(trace.table(table), column).astype(dtype)
    values[0] = value
    setattr(trace.table(table), column, values)


def references():
    return [c for c in COLUMNS if c.unit == "string" or c.unit.startswith("row of ")]


@pytest.mark.parametrize("value", [-2, 1000])
def test_a_reference_to_nothing_is_refused(value):
    for column in references():
        trace = sound()
        spoil(trace, column.table, column.name, value)
        with pytest.raises(ValueError, match=rf"{column.table}.{column.name}: row 0 is {value}"):
            check(trace)


def test_null_is_allowed_only_where_the_schema_says_so():
    for column in references():
        trace = sound()
        spoil(trace, column.table, column.name, -1)
        if column.null == "-1":
            check(trace)
        else:
            with pytest.raises(ValueError, match=column.name):
                check(trace)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("devices", "kind"), ("tracks", "role"), ("slices", "kind"), ("slices", "phase"),
        ("slices", "copy"), ("flows", "kind"),
    ],
)  # fmt: skip
def test_a_value_outside_its_enumeration_is_refused(trace, table, column):
    spoil(trace, table, column, 99)
    with pytest.raises(ValueError, match=f"{table}.{column}: row 0 is 99"):
        check(trace)


@pytest.mark.parametrize("table", TABLES)
def test_columns_of_different_length_are_refused(trace, table):
    columns = trace.table(table)
    last = list(vars(columns))[-1]
    setattr(columns, last, np.append(getattr(columns, last), 0).astype(np.int8))
    with pytest.raises(ValueError, match=f"{table}.{last}"):
        check(trace)


def test_slices_out_of_order_are_refused(trace):
    trace.slices.start_ns = np.asarray([1, 0])
    with pytest.raises(ValueError, match="row 1 is out of order"):
        check(trace)


def test_a_child_before_its_parent_is_refused(trace):
    trace.slices.start_ns = np.asarray([0, 0])
    trace.slices.dur_ns = np.asarray([3, 9])
    with pytest.raises(ValueError, match="row 1 is out of order"):
        check(trace)


def test_a_record_neither_kept_nor_counted_is_refused(trace):
    trace.health.events_read += 1
    with pytest.raises(ValueError, match="read 1 events, but kept 0 and counted 0"):
        check(trace)
