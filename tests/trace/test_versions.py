"""Files of older schema versions read like files of today.

`version_1.stepwhy` and `version_1.trace.json` were written by the last stepwhy of that version.
"""

import json
from pathlib import Path

import pytest

from stepwhy.base.errors import CorruptInputError
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.trace import NULL
from stepwhy.trace.schema import COLUMNS, SCHEMA_VERSION, TABLES
from stepwhy.trace.versions import column_name, table_name

HERE = Path(__file__).parent


@pytest.fixture(params=["version_1.stepwhy", "version_1.trace.json"])
def first(request):
    return read_trace(Source((HERE / request.param).read_bytes(), request.param))[0]


def texts(trace, column):
    return [trace.string(index) for index in column.tolist()]


def test_renamed_columns_keep_their_values(first):
    values = first.session_values
    assert (values.slice.tolist(), values.fed.tolist(), values.bytes.tolist()) == ([0], [1], [8])
    assert texts(first, values.python_type) == ["list of float"]
    assert texts(first, values.graph_type) == ["float32"]
    assert texts(first, first.stages.consumer) == ["", "Prefetch[5]"]
    assert texts(first, first.samples.package) == ["numpy"]
    assert texts(first, first.executions.runtime_op) == ["_MklMatMul"]
    assert texts(first, first.nodes.colocated_with) == ["net/w"]


def test_other_columns_keep_theirs(first):
    assert texts(first, first.slices.name) == ["session.run", "MatMul", "gemm"]
    assert first.slices.dur_ns.tolist() == [9_000, 500, 3_000]
    assert first.marks.light.tolist() == [2]
    assert texts(first, first.nodes.outer) == ["/cpu:0"]
    assert first.allocations.block.tolist() == [NULL]
    newer = {"visits", "waits", "collectives", "operands", "line_times", "rewrites"}
    newer |= {"step_ops", "index_inputs", "discards", "instruction_scopes", "table_updates"}
    newer |= {"collective_calls", "positions", "argument_uses"}
    assert {table for table in TABLES if not len(first.table(table))} == newer


def test_names_of_today_are_those_of_the_schema():
    assert [table_name(c.table, SCHEMA_VERSION) for c in COLUMNS] == [c.table for c in COLUMNS]
    names = [column_name(c.table, c.name, SCHEMA_VERSION) for c in COLUMNS]
    assert names == [c.name for c in COLUMNS]


def test_names_of_a_version_that_never_was_are_unknown():
    with pytest.raises(KeyError):
        table_name("slices", 0)


def test_an_export_of_a_version_that_never_was_is_damaged():
    written = json.loads((HERE / "version_1.trace.json").read_bytes())
    written["stepwhy"]["version"] = 0
    with pytest.raises(CorruptInputError):
        read_trace(Source(json.dumps(written).encode(), "zero"))
