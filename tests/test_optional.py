"""Commands that need a package which is not installed say how to get it."""

import json
import sys
from importlib import metadata

import pytest

from stepwhy.base.errors import MissingPackageError
from stepwhy.base.optional import install_command, needs_extra
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
    with pytest.raises(MissingPackageError, match=r"pip install .*\[parquet\]"):
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
    with pytest.raises(MissingPackageError, match=rf"pip install .*\[{extra}\]"):
        work(tmp_path)
    assert not any(tmp_path.iterdir())


def test_other_errors_pass_unchanged():
    with pytest.raises(KeyError), needs_extra("parquet", "Tables"):
        raise KeyError


class Installed:
    """What importlib.metadata knows about an installed stepwhy."""

    def __init__(self, origin):
        self.origin = origin

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.origin and json.dumps(self.origin)


@pytest.fixture
def installed_from(monkeypatch, tmp_path):
    """Sets where stepwhy seems to come from, in an environment whose pip is on the PATH."""
    for name in ("python", "pip"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return lambda origin: monkeypatch.setattr(metadata, "distribution", lambda _: Installed(origin))


def test_an_extra_is_installed_from_the_clone(installed_from, tmp_path):
    clone = tmp_path / "my clone"
    clone.mkdir()
    installed_from({"url": clone.as_uri(), "dir_info": {}})
    assert install_command("sql") == f"pip install '{clone}[sql]'"
    installed_from({"url": clone.as_uri(), "dir_info": {"editable": True}})
    assert install_command("sql") == f"pip install -e '{clone}[sql]'"


def test_an_extra_is_installed_from_the_wheel_as_long_as_it_is_there(installed_from, tmp_path):
    wheel = tmp_path / "stepwhy-1.0-py3-none-any.whl"
    wheel.touch()
    installed_from({"url": wheel.as_uri(), "archive_info": {}})
    assert install_command("sql") == f"pip install '{wheel}[sql]'"
    wheel.unlink()
    assert install_command("sql") == "pip install 'stepwhy[sql]'"


def test_an_extra_is_installed_from_the_same_commit(installed_from):
    vcs = {"vcs": "git", "commit_id": "0f9e"}
    installed_from({"url": "https://example.org/a.git", "vcs_info": vcs})
    address = "git+https://example.org/a.git@0f9e"
    assert install_command("sql") == f"pip install 'stepwhy[sql] @ {address}'"


@pytest.mark.parametrize("origin", [None, {}])
def test_an_extra_of_an_index_is_installed_by_its_name(origin, installed_from):
    installed_from(origin)
    assert install_command("sql") == "pip install 'stepwhy[sql]'"


def test_the_pip_of_another_environment_is_not_named(installed_from, monkeypatch, tmp_path):
    installed_from(None)
    monkeypatch.setenv("PATH", str(tmp_path.parent))
    assert install_command("sql") == f"{tmp_path}/python -m pip install 'stepwhy[sql]'"
