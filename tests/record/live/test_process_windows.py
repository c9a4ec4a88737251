"""What a process has logged and traced so far."""

import json

from stepwhy.apps.top.process_windows import Logged, Window, logged, windows

S = 10**9


def log(folder, name, first, count, step_ns=S // 10):
    lines = ({"kind": "step", "end_ns": (first + n) * step_ns} for n in range(count))
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def window(folder, number, **about):
    place = folder / "windows" / f"{number:03d}"
    place.mkdir(parents=True)
    (place / "window.json").write_text(json.dumps(about))


def test_a_process_without_a_log_has_no_lines(tmp_path):
    assert logged(tmp_path) == Logged(0, 0.0)
    assert windows(tmp_path) == []


def test_lines_are_counted_with_those_of_full_and_deleted_logs(tmp_path):
    log(tmp_path, "steps-000000000000.jsonl", 0, 10)
    log(tmp_path, "steps-000000000050.jsonl", 50, 10)
    log(tmp_path, "steps.jsonl", 60, 7)
    assert logged(tmp_path) == Logged(67, 10.0)


def test_a_line_that_is_being_written_does_not_count(tmp_path):
    log(tmp_path, "steps.jsonl", 0, 3)
    with (tmp_path / "steps.jsonl").open("a") as file:
        file.write('{"kind": "st')
    assert logged(tmp_path).lines == 3


def test_windows_are_those_that_are_complete(tmp_path):
    window(tmp_path, 0, first_step=12, last_step=15)
    window(tmp_path, 1, first_step="12")
    window(tmp_path, 2, first_step=100, last_step=103)
    (tmp_path / "windows" / ".003").mkdir()
    assert windows(tmp_path) == [Window(12, 15), Window(100, 103)]
