"""Files that were cut off, or written one after the other: what is missing or joined is said."""

import pytest
from fuzz.formats import seeds

from stepwhy.base.errors import CorruptInputError
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace


@pytest.fixture(autouse=True)
def generated_seeds_only(monkeypatch):
    monkeypatch.delenv("STEPWHY_TRACES", raising=False)


def file_of(name):
    return next(iter(seeds(name)[0].values()))


def health_of(data, name):
    return {c.counter: c for c in read_trace(Source(data, name))[0].health.counters}


@pytest.mark.parametrize("name", ["nsys", "nvprof"])
def test_how_much_of_a_database_is_missing_is_said(name):
    data = file_of(name)
    found = health_of(data[: len(data) - 4096], name)["database-truncated"]
    assert "after 36 KiB of 40 KiB" in found.help.replace(".0", "")
    assert found.severity == "error"
    assert "database-truncated" not in health_of(data, name)


@pytest.mark.parametrize("name", ["nsys", "nvprof"])
def test_a_second_database_is_named(name):
    assert health_of(file_of(name) * 2, name)["further-trace"].severity == "error"
    assert not health_of(file_of(name) + b"text", name).keys() & {"further-trace"}


@pytest.mark.parametrize("name", ["xplane", "run_metadata", "tfprof", "tensorboard"])
def test_joined_messages_are_named(name):
    assert health_of(file_of(name) * 2, name)["joined-files"].count == 1
    assert "joined-files" not in health_of(file_of(name), name)


@pytest.mark.parametrize("name", ["store", "operation_table", "nsys_recipe"])
def test_files_with_an_index_at_the_end_are_refused_when_they_are_joined(name):
    with pytest.raises(CorruptInputError):
        read_trace(Source(file_of(name) * 2, name))


@pytest.mark.parametrize("name", ["operation_table", "nsys_recipe"])
def test_a_table_with_another_end_is_named(name):
    for data in (file_of(name)[:-9], file_of(name) + b"text"):
        with pytest.raises(CorruptInputError, match="a Parquet file whose end is missing"):
            read_trace(Source(data, name))
