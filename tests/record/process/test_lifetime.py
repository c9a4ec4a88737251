"""Start and end of observations within one process."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stepwhy.record.core.process import lifetime
from stepwhy.record.core.recorder import Recorder

_CAPTURE = Path(lifetime.__file__).parents[2]


@pytest.fixture(autouse=True)
def own_state(monkeypatch):
    for name, value in {"_begins": [], "_ends": [], "_block": None, "_inactive": False}.items():
        monkeypatch.setattr(lifetime, name, value)
    monkeypatch.setattr(lifetime.atexit, "register", lambda _: None)
    monkeypatch.setattr(lifetime.os, "register_at_fork", lambda **_: None)


def test_a_block_begins_in_order_and_ends_in_reverse(tmp_path):
    called = []
    lifetime.on_begin(lambda: called.append("first begins"))
    lifetime.on_begin(lambda: called.append("second begins"))
    lifetime.on_end(lambda: called.append("first ends"))
    lifetime.on_end(lambda: called.append("second ends"))
    lifetime.begin(tmp_path)
    lifetime.end()
    assert called == ["first begins", "second begins", "second ends", "first ends"]


def test_failing_callback_does_not_prevent_others(tmp_path):
    called = []
    lifetime.on_end(lambda: called.append("ended"))
    lifetime.on_end(lambda: 1 // 0)
    lifetime.begin(tmp_path)
    lifetime.end()
    assert called == ["ended"]
    assert not lifetime.is_active()


def test_a_recorder_goes_from_block_to_block(tmp_path):
    runs = [tmp_path / "first", tmp_path / "second"]
    for run in runs:
        run.mkdir()
    lifetime.begin(runs[0])
    recorder = Recorder("/nowhere", "pytorch", "2", "torch-optimizer")
    recorder.step('{"at":1}')
    lifetime.end()
    assert not recorder.alive
    lifetime.begin(runs[1])
    recorder.step('{"at":2}')
    lifetime.end()
    logs = [json.loads(next(run.glob("*/steps.jsonl")).read_text())["at"] for run in runs]
    assert logs == [1, 2]


def test_recorder_created_between_blocks_is_inactive(tmp_path):
    lifetime.begin(tmp_path)
    lifetime.end()
    assert not Recorder(str(tmp_path), "pytorch", "2", "torch-optimizer").alive


def test_all_observers_register_here():
    """Hooks of `os` or `atexit` alone would miss watched blocks."""
    direct = re.compile(r"\b(os\.register_at_fork|atexit\.register)\(")
    found = {p.name for p in _CAPTURE.rglob("*.py") if direct.search(p.read_text())}
    # Permission to read memory only concerns forks, and the exit report only processes.
    assert found - {"ptrace.py", "attach.py"} == {"lifetime.py"}
