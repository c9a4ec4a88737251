"""Reports of processes about themselves."""

from __future__ import annotations

import json
import os

import pytest

from stepwhy.record.core import registry
from stepwhy.record.core.registry import ATTACHED_FILE, report, report_exit, reports


class SecretError(Exception):
    """An error of a program."""


def test_reports_of_a_process_are_merged(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_counts", {"optimizer_steps": lambda: 5, "calls": lambda: 0})
    monkeypatch.setattr("sys.last_type", SecretError, raising=False)
    (tmp_path / ATTACHED_FILE).touch()
    registry.register(str(tmp_path))
    report(str(tmp_path), stopped="No space left on device", steps=3)
    report_exit(str(tmp_path))
    assert reports(tmp_path) == {
        str(os.getpid()): {
            "stopped": "No space left on device",
            "steps": 3,
            "optimizer_steps": 5,
            "exception": f"{__name__}.SecretError",
        }
    }


def test_process_without_training_reports_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_counts", {"calls": lambda: 0})
    monkeypatch.delattr("sys.last_type", raising=False)
    (tmp_path / ATTACHED_FILE).touch()
    report_exit(str(tmp_path))
    assert (tmp_path / ATTACHED_FILE).read_bytes() == b""


def test_exit_report_never_raises(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_counts", {"calls": lambda: 1 // 0})
    report_exit(str(tmp_path))
    monkeypatch.setattr(registry, "_counts", {"calls": lambda: 1})
    report_exit(str(tmp_path))  # there is no file to write to
    assert reports(tmp_path) == {}


def test_torn_and_foreign_lines_are_left_out(tmp_path):
    lines = b'12\n{"pid":12,"calls":1}\n[]\n{"pid":\n\xff\n{"calls":4}\n'
    (tmp_path / ATTACHED_FILE).write_bytes(lines)
    assert reports(tmp_path) == {"12": {"calls": 1}}


def test_registered_processes_are_in_order_of_their_start(tmp_path):
    assert registry.registered(tmp_path) == []
    (tmp_path / ATTACHED_FILE).write_bytes(b'12\n{"pid":12,"calls":1}\n7\n\xff\n')
    assert registry.registered(tmp_path) == [12, 7]


@pytest.mark.parametrize(
    "text", ["", 'a "b" \\ c', "a\nb\x00\x7f", "é träin", "\U0001f600", "\ud800"]
)
def test_any_text_is_reported_as_json(tmp_path, text):
    (tmp_path / registry.ATTACHED_FILE).touch()
    registry.report(str(tmp_path), exception=text, steps=-3)
    line = (tmp_path / registry.ATTACHED_FILE).read_text()
    assert json.loads(line) == {"pid": os.getpid(), "exception": text, "steps": -3}
