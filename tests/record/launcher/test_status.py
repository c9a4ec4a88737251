"""The title of the terminal while a training runs."""

from __future__ import annotations

import io
import json

import pytest

from stepwhy.record.launcher import status
from stepwhy.record.launcher.status import Status, summary

MS = 1_000_000


def write(run, lines, pid=7):
    folder = run / f"process-{pid}"
    folder.mkdir(parents=True)
    (folder / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def step(i, wait=None):
    start = 10**18 + i * 80 * MS
    return {"kind": "step", "start_ns": start, "end_ns": start + 80 * MS, "input_wait_ns": wait}


def test_nothing_before_the_first_step(tmp_path):
    assert summary(tmp_path) == ""


def test_step_time_and_share_of_input(tmp_path):
    write(tmp_path, [step(i, 20 * MS) for i in range(300)])
    assert summary(tmp_path) == "step 300 · 80.0 ms · 25 % input"


def test_unknown_input_wait_is_not_shown_as_zero(tmp_path):
    write(tmp_path, [step(i) for i in range(10)])
    assert summary(tmp_path) == "step 10 · 80.0 ms"


def test_the_steps_of_full_files_count(tmp_path):
    lines = [step(n) for n in range(10, 20)]
    write(tmp_path, lines)
    folder = tmp_path / "process-7"
    (folder / "steps.jsonl").rename(folder / "steps-000000001000.jsonl")
    (folder / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[:5]))
    assert summary(tmp_path).startswith("step 1015 ")


def test_torn_line_is_skipped(tmp_path):
    write(tmp_path, [step(i) for i in range(3)])
    with (tmp_path / "process-7" / "steps.jsonl").open("a") as log:
        log.write('{"kind": "st')
    assert summary(tmp_path).endswith("80.0 ms")


@pytest.mark.parametrize(
    "hostile",
    [
        {"start_ns": "\x1b]0;x", "end_ns": "\x1b]0;y"},
        {"start_ns": 0, "end_ns": 10**400},
        {"start_ns": -(10**400), "end_ns": 5},
        {"start_ns": 1.5, "end_ns": float("inf")},
        {"start_ns": 0, "end_ns": 80 * MS, "input_wait_ns": 10**400},
        ["start_ns", "end_ns"],
    ],
)
def test_log_content_only_changes_numbers_in_the_title(tmp_path, hostile):
    write(tmp_path, [step(i) for i in range(3)] + [hostile])
    assert summary(tmp_path).startswith("step ")
    assert summary(tmp_path).endswith("80.0 ms")


def test_the_title_is_escaped(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "_INTERVAL_S", 0.01)
    monkeypatch.setattr(status, "summary", lambda _: "step\x07\x1b]52;c;x\x9c\u202e")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    shown = status.threading.Event()
    terminal.flush = shown.set
    with Status(tmp_path, terminal):
        assert shown.wait(5)
    title = "\x1b]0;stepwhy: step\\x07\\x1b]52;c;x\\x9c\\u202e\x07"
    assert terminal.getvalue().startswith(f"\x1b[22;0t{title}")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_title_is_kept_and_restored(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "_INTERVAL_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    write(tmp_path, [step(i) for i in range(3)])
    terminal = Terminal()
    shown = status.threading.Event()
    terminal.flush = shown.set
    with Status(tmp_path, terminal):
        assert shown.wait(5)
    text = terminal.getvalue()
    assert text.startswith("\x1b[22;0t\x1b]0;stepwhy: step 3 · 80.0 ms\x07")
    assert text.endswith("\x1b[23;0t")


@pytest.mark.parametrize("terminal", [io.StringIO(), Terminal()])
def test_nothing_is_written_to_a_pipe_or_a_dumb_terminal(tmp_path, monkeypatch, terminal):
    monkeypatch.setattr(status, "_INTERVAL_S", 0.001)
    monkeypatch.setenv("TERM", "dumb")
    write(tmp_path, [step(0)])
    with Status(tmp_path, terminal) as running:
        assert not running._thread.is_alive()
    assert terminal.getvalue() == ""
