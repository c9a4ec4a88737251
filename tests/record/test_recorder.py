"""The run directory that the observer writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.forks import fork

from stepwhy.base.regular_files import open_regular
from stepwhy.record.core.recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path

LINE = '{"kind":"step","start_ns":1,"end_ns":2,"profiled":0,"input_wait_ns":null}'


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")


def process_dir(run_dir: Path) -> Path:
    return run_dir / f"process-{os.getpid()}"


def test_nothing_is_written_before_the_first_step(recorder: Recorder, tmp_path: Path) -> None:
    recorder.close()
    assert list(tmp_path.iterdir()) == []


def test_the_first_step_opens_the_process_directory(recorder: Recorder, tmp_path: Path) -> None:
    recorder.step(LINE)
    about = json.loads((process_dir(tmp_path) / "process.json").read_text())
    assert about["schema"] == "stepwhy.process/1"
    assert (about["pid"], about["framework"], about["rank"]) == (os.getpid(), "pytorch", None)
    assert (process_dir(tmp_path) / "steps.jsonl").read_text() == LINE + "\n"


def test_rank_and_world_size_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer").step(LINE)
    about = json.loads((process_dir(tmp_path) / "process.json").read_text())
    assert (about["rank"], about["world_size"]) == (1, 4)


def test_every_step_is_in_the_log_after_close(recorder: Recorder, tmp_path: Path) -> None:
    for _ in range(200):
        recorder.step(LINE)
    recorder.close()
    assert (process_dir(tmp_path) / "steps.jsonl").read_text() == (LINE + "\n") * 200


def test_window_appears_complete_or_not_at_all(recorder: Recorder, tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_bytes(b"x")
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011  the disk's own error has no message here
        recorder.window({"kind": "k"}, fail)
    windows = process_dir(tmp_path) / "windows"
    assert list(windows.iterdir()) == []
    first = recorder.window(
        {"kind": "k", "step": 7}, lambda d: (d / "f").write_bytes(b"x") and None
    )
    assert first == windows / "000"
    assert sorted(p.name for p in first.iterdir()) == ["f", "window.json"]
    assert json.loads((first / "window.json").read_text()) == {
        "schema": "stepwhy.window/1",
        "kind": "k",
        "step": 7,
    }


def test_files_that_windows_share_are_masked_once(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked: list[str] = []
    monkeypatch.setattr(
        "stepwhy.record.core.process.folder.mask_file",
        lambda file: masked.append(f"{file.parent.name}/{file.name}"),
    )
    first = recorder.window({}, lambda d: (d / "graph.pb").write_bytes(b"x") and None)
    recorder.window({}, lambda d: (d / "graph.pb").hardlink_to(first / "graph.pb"))
    recorder.window({}, lambda d: (d / "graph.pb").write_bytes(b"y") and None)
    assert masked == [".000/graph.pb", ".002/graph.pb"]


def test_window_leaves_free_disk_space(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.step(LINE)
    recorder.step(LINE)
    monkeypatch.setattr("stepwhy.record.core.process.folder._LEAST_SPACE", 1 << 62)
    with pytest.raises(OSError, match="free on the disk") as caught:
        recorder.window({"kind": "k"}, lambda d: (d / "f").write_bytes(b"x") and None)
    recorder.window_failed(caught.value)
    assert list((process_dir(tmp_path) / "windows").iterdir()) == []
    assert (process_dir(tmp_path) / "steps.jsonl").read_text() == (LINE + "\n") * 2
    assert "MiB are free" in (process_dir(tmp_path) / "messages.jsonl").read_text()


def test_a_failure_leaves_one_message_and_ends_the_observation(
    recorder: Recorder, tmp_path: Path
) -> None:
    recorder.step(LINE)
    recorder.guard(lambda: json.loads("{"))
    recorder.guard(lambda: json.loads("{"))
    assert recorder.alive is False
    (message,) = (process_dir(tmp_path) / "messages.jsonl").read_text().splitlines()
    assert json.loads(message)["slug"] == "observer-stopped"
    assert "JSONDecodeError in decoder.raw_decode" in message


def test_vanished_run_directory_is_not_recreated(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "gone"), "pytorch", "2.0", "torch-optimizer")
    recorder.step(LINE)
    assert recorder.alive is False
    assert not (tmp_path / "gone").exists()


def test_stopped_recorder_keeps_no_lines(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "gone"), "pytorch", "2.0", "torch-optimizer")
    for n in range(5000):
        recorder.step(LINE)
        recorder.event("trace", name="f", start_ns=n, end_ns=n)
        recorder.level("dataloader", "loader", n)
    assert len(recorder._lines) < 512
    assert recorder._events == recorder._levels == []


def test_a_failure_of_the_disk_is_named(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.step(LINE)

    def full_for_steps(path: Path, *how: int) -> int:
        return open_regular("/dev/full" if path.name == "steps.jsonl" else path, *how)

    monkeypatch.setattr("stepwhy.base.regular_files._check", lambda _: None)
    monkeypatch.setattr("stepwhy.record.core.process.folder.open_regular", full_for_steps)
    recorder.step(LINE)
    recorder.close()
    assert recorder.alive is False
    (message,) = (process_dir(tmp_path) / "messages.jsonl").read_text().splitlines()
    assert "could not be written (No space left on device)" in json.loads(message)["text"]


def test_end_of_the_observation_is_recorded(recorder: Recorder, tmp_path: Path) -> None:
    recorder.step(LINE)
    about = process_dir(tmp_path) / "process.json"
    assert json.loads(about.read_text())["ended_ns"] is None
    recorder.close()
    assert json.loads(about.read_text())["ended_ns"] > 0


def test_first_three_messages_of_a_kind_are_kept(recorder: Recorder, tmp_path: Path) -> None:
    for n in range(10):
        recorder.message("warning", "again", f"{n}")
    recorder.message("info", "other", "x")
    log = (process_dir(tmp_path) / "messages.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in log] == ["0", "1", "2", "x"]


def test_clock_change_is_recorded_with_the_window(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_back = time.time_ns() - 3_600_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: set_back)
    path = recorder.window({"kind": "k"}, lambda _: None)
    about = json.loads((path / "window.json").read_text())
    assert about["clock_set_ns"] == pytest.approx(-3_600_000_000_000, rel=0.01)


def test_a_fork_does_not_write_its_parents_steps(recorder: Recorder, tmp_path: Path) -> None:
    recorder.step(LINE)
    recorder.step(LINE)  # pending
    os.waitpid(fork(recorder.close), 0)
    recorder.close()
    assert [p.name for p in tmp_path.iterdir()] == [process_dir(tmp_path).name]
    assert (process_dir(tmp_path) / "steps.jsonl").read_text() == (LINE + "\n") * 2


_KILLED = """
import os, signal, sys
from stepwhy.record.core.recorder import Recorder
from tests.forks import fork
recorder = Recorder(sys.argv[1], "pytorch", "2.0", "torch-optimizer")
for i in range(1200):
    recorder.step('{"kind":"step","i":%d}' % i)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False, timeout=240)
    assert done.returncode == -signal.SIGKILL
    (log,) = tmp_path.glob("process-*/steps.jsonl")
    steps = [json.loads(line)["i"] for line in log.read_text().splitlines()]
    assert steps == list(range(len(steps)))
    assert len(steps) >= 1 + 2 * 512


def test_events_and_levels_are_written_with_the_steps(tmp_path):
    recorder = Recorder(str(tmp_path), "pytorch", "2.13.0", "torch-optimizer")
    recorder.event(
        "trace", name="step", start_ns=5, end_ns=9, reason="new shape", source="a.py(3): f", count=2
    )
    recorder.event("graph", name="graph", start_ns=1, end_ns=1)
    recorder.level("tf1-queue", "fifo", 7, capacity=32, reserve=4)
    recorder.level("dataloader", "loader", 0)
    recorder.step("{}")
    folder = next(tmp_path.glob("process-*"))
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert events == [
        {"kind": "trace", "start_ns": 5, "end_ns": 9, "name": "step", "reason": "new shape",
         "source": "a.py(3): f", "count": 2},
        {"kind": "graph", "start_ns": 1, "end_ns": 1, "name": "graph"},
    ]  # fmt: skip
    levels = [json.loads(line) for line in (folder / "levels.jsonl").read_text().splitlines()]
    assert levels[0].pop("time_ns") > 0
    assert levels[0] == {
        "kind": "tf1-queue", "name": "fifo", "value": 7, "capacity": 32, "reserve": 4
    }  # fmt: skip
    assert levels[1].keys() == {"kind", "time_ns", "name", "value"}


def test_events_are_bounded(tmp_path):
    recorder = Recorder(str(tmp_path), "jax", "0.10", "jax-jit")
    for n in range(3000):
        recorder.event("compile", name=f"f{n}", start_ns=n, end_ns=n)
    recorder.step("{}")
    folder = next(tmp_path.glob("process-*"))
    assert len((folder / "events.jsonl").read_text().splitlines()) == 2000
