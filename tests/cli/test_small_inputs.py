"""Small files that take too much time or memory are stopped."""

import contextlib
import importlib
import signal

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli, small_inputs
from tests.kineto_samples import sample


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(sample("2024 fractional"))
    return path


@pytest.fixture
def endless(monkeypatch):
    """Reading never ends, in Python code that suppresses exceptions."""

    def read(*_args, **_options):
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    monkeypatch.setattr(importlib.import_module("stepwhy.engine.opening"), "open_one", read)


def run(*arguments):
    return CliRunner().invoke(cli, [str(a) for a in arguments])


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("command", ["ops", "export"])
def test_command_is_stopped_after_some_time(command, trace, monkeypatch):
    monkeypatch.setattr(small_inputs, "_MOST_CPU_S", 0.2)
    done = run(command, trace)
    assert done.exit_code == 3
    assert "trace.json is a small file, but explaining it took more than 0.2 s" in done.stderr
    assert "[too-large]" in done.stderr


def test_command_is_stopped_if_it_uses_much_memory(trace, monkeypatch):
    monkeypatch.setattr(small_inputs, "_MOST_BYTES", 1)
    peaks = iter(range(10, 10_000))
    monkeypatch.setattr(small_inputs, "_peak_bytes", lambda: next(peaks))
    monkeypatch.setattr(small_inputs, "_CHECK_INTERVAL_S", 0.001)
    monkeypatch.setattr(small_inputs, "_CLEAN_UP_S", 0.02)
    done = run("explain", trace, "--json")
    assert done.exit_code == 3
    assert "of memory" in done.stderr


@pytest.mark.parametrize("lifted", ["large file", "variable"])
def test_other_inputs_are_not_limited(lifted, trace, monkeypatch):
    monkeypatch.setattr(small_inputs, "_MOST_CPU_S", 0)
    monkeypatch.setattr(small_inputs, "_CHECK_INTERVAL_S", 0.001)
    if lifted == "large file":
        monkeypatch.setattr(small_inputs, "_SMALL_BYTES", 1)
    else:
        monkeypatch.setenv("STEPWHY_ANY_SIZE", "1")
    assert run("explain", trace, "--json").exit_code == 0


def test_timer_is_removed_afterwards(trace):
    before = signal.getsignal(signal.SIGPROF)
    assert run("explain", trace, "--json").exit_code == 0
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    assert signal.getsignal(signal.SIGPROF) == before


@pytest.mark.parametrize(
    "name", ["x" * 5000, "nul\0byte", "missing.json", "s3://bucket/trace.json"]
)
def test_other_names_are_left_to_the_command(name):
    assert not small_inputs._are_small((name,))
