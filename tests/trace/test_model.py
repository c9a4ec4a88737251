"""Looking things up in a trace, and the schema itself."""

import numpy as np

from stepwhy.trace import NULL, Kind, Meta, Role, TraceBuilder
from stepwhy.trace.kinds import BUSY_KINDS
from stepwhy.trace.model import empty_columns
from stepwhy.trace.schema import COLUMNS, TABLES, columns_of


def build():
    builder = TraceBuilder()
    host = builder.track(Role.HOST_THREAD, "main")
    stream = builder.track(Role.STREAM, "stream 7", device=builder.device("GPU:0", 1))
    builder.slice(host, Kind.OP, "a", 0, 9)
    builder.slice(stream, Kind.KERNEL, "k", 1, 3)
    builder.slice(host, Kind.KERNEL, "k", 2, 3)
    return builder.finish(Meta("test"))


def test_rows_by_kind_and_role():
    trace = build()
    assert trace.rows(Kind.KERNEL).tolist() == [1, 2]
    assert trace.rows(Kind.KERNEL, Kind.OP).tolist() == [0, 1, 2]
    assert trace.rows(Kind.KERNEL, role=Role.STREAM).tolist() == [1]
    assert trace.rows(Kind.SYNC).tolist() == []


def test_strings_where():
    trace = build()
    found = trace.strings_where(["k", "a", "absent"])
    assert {trace.string(i) for i in found} == {"a", "k"}


def test_matches_asks_once_per_text():
    trace, asked = build(), []
    column = np.array([*trace.strings_where(["k", "a"]), NULL, *trace.strings_where(["k"])])
    found = trace.matches(column, lambda text: asked.append(text) or text == "k")
    assert found.tolist() == [trace.string(index) == "k" for index in column]
    assert sorted(asked) == ["", "a", "k"]


def test_ends():
    assert build().end_ns.tolist() == [9, 4, 5]
    assert build().last_end_ns == 9
    trace = build()
    for row in range(len(trace.slices)):
        only = np.arange(len(trace.slices)) == row
        assert trace.last_end_of(only) == trace.end_ns[row]
    assert trace.last_end_of(np.zeros(len(trace.slices), dtype=bool)) is None


def test_an_empty_table_has_every_column():
    for table in TABLES:
        columns = empty_columns(table)
        assert len(columns) == 0
        assert list(vars(columns)) == [c.name for c in columns_of(table)]


def test_every_column_belongs_to_a_table_and_says_what_it_is():
    assert {c.table for c in COLUMNS} == set(TABLES)
    assert len({(c.table, c.name) for c in COLUMNS}) == len(COLUMNS)
    assert all(c.help.endswith(".") for c in COLUMNS)


def test_only_kinds_of_a_device_keep_it_busy():
    assert min(BUSY_KINDS) == Kind.KERNEL
