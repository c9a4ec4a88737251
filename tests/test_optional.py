"""Commands that need a package which is not installed say how to get it."""

import sys

import pytest

from stepwhy.base.errors import MissingPackageError
from stepwhy.base.optional import needs_extra
from stepwhy.show.export import WRITERS
from stepwhy.show.export.explained import Explained
from stepwhy.show.export.tensorboard import write_tensorboard
from stepwhy.show.metrics.model import Run
from stepwhy.show.metrics.otlp import Otlp
from stepwhy.show.metrics.prometheus import text_of
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


def export_to_tensorboard(folder):
    write_tensorboard(Explained("x", None, "", "", ()), folder / "out")


@pytest.mark.parametrize(
    ("extra", "missing", "work"),
    [
        ("tensorboard", "tensorboard.summary.writer.record_writer", export_to_tensorboard),
        ("prometheus", "prometheus_client.core", lambda _: text_of(Run("x"))),
        (
            "opentelemetry",
            "opentelemetry.sdk.metrics",
            lambda _: Otlp("http://localhost:4318").prepare(),
        ),
    ],
)
def test_publishing_names_the_extra_and_writes_nothing(extra, missing, work, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingPackageError, match=rf"pip install 'stepwhy\[{extra}\]'"):
        work(tmp_path)
    assert not any(tmp_path.iterdir())


def test_other_errors_pass_unchanged():
    with pytest.raises(KeyError), needs_extra("parquet", "Tables"):
        raise KeyError
