"""Commands that need a package which is not installed say how to get it."""

import sys

import pytest

from stepwhy.errors import MissingPackageError
from stepwhy.export import WRITERS
from stepwhy.optional import needs_extra
from stepwhy.trace import Meta, TraceBuilder
from stepwhy.trace.store import load


@pytest.fixture
def no_pyarrow(monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_pyarrow")
@pytest.mark.parametrize("form", ["parquet", "stepwhy"])
def test_writing_tables_names_the_extra_and_writes_nothing(form, tmp_path):
    trace, out = TraceBuilder().finish(Meta("test")), tmp_path / "out"
    with pytest.raises(MissingPackageError, match=r"pip install 'stepwhy\[parquet\]'"):
        WRITERS[form][1](trace, out)
    assert not out.exists()


@pytest.mark.usefixtures("no_pyarrow")
def test_reading_a_stored_trace_names_the_extra():
    with pytest.raises(MissingPackageError, match="Stored traces need the package 'pyarrow"):
        load(b"PK\x03\x04", "run.stepwhy")


def test_other_errors_pass_unchanged():
    with pytest.raises(KeyError), needs_extra("parquet", "Tables"):
        raise KeyError
