"""The directory of a process, and logs of bounded size."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stepwhy.record.core.process.folder import (
    BoundedLog,
    ProcessFolder,
    append_bytes,
    append_lines,
    folder_of,
    process_id,
    write_json,
)
from stepwhy.record.launcher.run_directory import messages_of

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_full_log_goes_on_in_a_fresh_file(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path, "steps", file_bytes=30, kept_files=2)
    for n in range(3):
        log.append([f"line {3 * n}", f"line {3 * n + 1}", f"line {3 * n + 2}"])
    assert names(tmp_path) == [
        "steps-000000000000.jsonl",
        "steps-000000000003.jsonl",
        "steps.jsonl",
    ]
    assert (tmp_path / "steps-000000000003.jsonl").read_text() == "line 3\nline 4\nline 5\n"
    assert (tmp_path / "steps.jsonl").read_text() == "line 6\nline 7\nline 8\n"


def test_the_first_and_the_newest_files_stay(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path, "steps", file_bytes=1000, kept_files=3)
    for n in range(5000):
        log.append([f"line {n:05d}"])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 4 * 1000
    files = [path.read_text().splitlines() for path in sorted(tmp_path.iterdir())]
    assert files[0][0] == "line 00000"
    assert files[-1][-1] == "line 04999"
    assert [int(lines[0].split()[1]) for lines in files[:-1]] == [
        int(name.removeprefix("steps-").removesuffix(".jsonl")) for name in names(tmp_path)[:-1]
    ]
    assert files[1][-1] < files[2][0]


def test_a_batch_larger_than_a_file_is_written_whole(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path, "steps", file_bytes=10, kept_files=2)
    log.append(["x" * 50])
    log.append(["y" * 50])
    assert names(tmp_path) == ["steps-000000000000.jsonl", "steps.jsonl"]


def test_observers_of_a_process_share_its_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    folder.open({"framework": "pytorch"})
    folder_of(tmp_path).open({"framework": "jax"})
    assert names(tmp_path) == [f"process-{os.getpid()}"]
    assert json.loads((folder.path / "process.json").read_text())["framework"] == "pytorch"


def test_program_that_replaced_the_process_gets_its_own_folder(tmp_path: Path) -> None:
    before, after = ProcessFolder(tmp_path), ProcessFolder(tmp_path)
    before.open({})
    after.open({})
    assert names(tmp_path) == [f"process-{os.getpid()}", f"process-{os.getpid()}.2"]
    assert {process_id(path) for path in tmp_path.iterdir()} == {os.getpid()}


def test_other_names_are_not_process_folders(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        process_id(tmp_path / "process-of-mine")


def test_a_disk_without_space_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr("stepwhy.record.core.process.folder.open_regular", lambda *_: full)
    with pytest.raises(OSError, match="No space left"):
        append_bytes(tmp_path / "steps.jsonl", b"x")


_LIMITED = """
import sys
from pathlib import Path
from stepwhy.record.core.process.folder import append_bytes
try:
    append_bytes(Path(sys.argv[1]), b"x" * 100)
except OSError as error:
    print(error.strerror)
"""


def test_a_write_that_ends_half_way_is_an_error(tmp_path: Path) -> None:
    def limit() -> None:
        # Python would keep modules whose bytecode was cut off.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path / "log")],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert done.stdout == "File too large\n"


def test_a_draft_that_cannot_be_finished_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "about").mkdir()
    (tmp_path / "about" / "in the way").touch()
    with pytest.raises(OSError, match="directory"):
        write_json(tmp_path / "about", {})
    assert names(tmp_path) == ["about"]


def test_names_that_are_not_utf8_are_logged(tmp_path: Path) -> None:
    """A strict reader rejects a whole line because of one surrogate."""
    name = "caf\udce9.py"
    write_json(tmp_path / "run.json", {"command": [name]})
    append_lines(tmp_path / "events.jsonl", [json.dumps({"source": name}, ensure_ascii=False)])
    assert json.loads((tmp_path / "run.json").read_bytes()) == {"command": ["caf\ufffd.py"]}
    assert json.loads((tmp_path / "events.jsonl").read_bytes()) == {"source": "caf\ufffd.py"}


def test_a_message_with_a_line_separator_is_read(tmp_path: Path) -> None:
    (tmp_path / "process-7").mkdir()
    lines = [json.dumps({"text": "a\u2028b\x85c"}, ensure_ascii=False)]
    append_lines(tmp_path / "process-7" / "messages.jsonl", lines)
    assert messages_of(tmp_path) == ["a\u2028b\x85c"]
