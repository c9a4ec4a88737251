"""Parquet tables as columns."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepwhy.base.errors import CorruptInputError, TooLargeError
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.parquet import has_columns, parse_table


def source(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return Source(file.getvalue(), "table.parquet")


TABLE = source(rank=pa.array([1, None, 3], pa.int16()), name=["b", None, "a"], time=[0.5, 1, None])


def test_a_table_is_recognised_by_its_column_names():
    assert has_columns(TABLE, ("rank", "time"))
    assert not has_columns(TABLE, ("rank", "stage"))
    assert not has_columns(Source(b"PAR1", "file"), ("rank",))
    assert not has_columns(Source(TABLE.data[:-9], "file"), ("rank",))


def test_missing_values_are_null():
    table = parse_table(TABLE, ("rank", "name", "time"))
    assert len(table) == 3
    assert table.integers("rank").tolist() == [1, -1, 3]
    codes, names = table.texts("name")
    assert [names[code] if code >= 0 else None for code in codes] == ["b", None, "a"]
    assert table.numbers("time")[:2].tolist() == [0.5, 1]
    assert np.isnan(table.numbers("time")[2])


def test_damage_is_a_typed_error():
    with pytest.raises(CorruptInputError, match="no int64 values"):
        parse_table(TABLE, ("name",)).integers("name")
    with pytest.raises(CorruptInputError, match="holds no string"):
        parse_table(TABLE, ("name",)).texts("stage")
    data = bytearray(TABLE.data)
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    with pytest.raises(CorruptInputError, match="damaged Parquet table"):
        parse_table(Source(bytes(data), "table.parquet"), ("name",))


def test_more_rows_than_bytes_are_refused():
    same = source(rank=np.zeros(1_000_000, dtype=np.int64))
    with pytest.raises(TooLargeError, match="1,000,000 rows"):
        parse_table(same, ("rank",))
