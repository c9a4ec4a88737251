"""Folders of Parquet tables, with texts, names and nulls."""

import pyarrow.parquet as pq
import pytest
from tests.analyse.timeline import Timeline

from stepwhy.base.errors import OutputError
from stepwhy.show.export.parquet import write_parquet
from stepwhy.trace import Kind


@pytest.fixture
def trace():
    timeline = Timeline()
    timeline.add(timeline.stream(), Kind.KERNEL, 1, 3, name="gemm", bytes=0)
    timeline.add(timeline.thread(), Kind.OP, 0, 2, name="mm", scope="net/mm")
    return timeline.trace()


def test_indices_are_replaced_by_texts_names_and_nulls(trace, tmp_path):
    write_parquet(trace, tmp_path / "run.parquet")
    rows = pq.read_table(tmp_path / "run.parquet" / "slices.parquet").to_pylist()
    keys = ("row", "name", "kind", "scope", "bytes", "dur_ns")
    assert [tuple(r[k] for k in keys) for r in rows] == [
        (0, "mm", "op", "net/mm", None, 2_000_000),
        (1, "gemm", "kernel", None, 0, 2_000_000),
    ]


def test_tables_without_rows_are_not_written(trace, tmp_path):
    write_parquet(trace, tmp_path / "run.parquet")
    files = sorted(p.name for p in (tmp_path / "run.parquet").iterdir())
    assert files == ["devices.parquet", "slices.parquet", "tracks.parquet"]


def test_folder_that_is_not_empty_is_left_alone(trace, tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(OutputError, match="does not exist yet"):
        write_parquet(trace, tmp_path)
    assert (tmp_path / "mine").read_text() == "x"
