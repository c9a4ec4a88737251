"""Reading of `/proc`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stepwhy.record.sampling.processes import Processes, observed


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")  # noqa: PTH110
def test_the_tree_of_a_real_job():
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True); input(); child.communicate(b'\\n')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as job:
        child = int(job.stdout.readline())
        processes = Processes()
        found = processes.descendants(job.pid)
        began = processes.start_ticks(job.pid), processes.start_ticks(child)
        job.communicate(b"\n")
    assert found == [job.pid, child]
    assert began[0] <= began[1]
    assert processes.start_ticks(job.pid) is None


def test_missing_files_read_as_empty(tmp_path):
    processes = Processes(tmp_path)
    assert (processes.read("7/stat"), processes.stat(7), processes.threads(7)) == (b"", [], [])
    assert list(processes.links("7/fd")) == []
    assert processes.descendants(7) == [7]


def test_an_answer_of_several_pages_is_read_to_its_end(tmp_path):
    text = b"".join(b"%d " % pid for pid in range(10_000, 15_000))
    (tmp_path / "children").write_bytes(text)
    assert Processes(tmp_path).read("children") == text


def test_a_name_with_parentheses_does_not_shift_the_fields(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (python) R 3) S 1 2 3\n")
    assert Processes(tmp_path).stat(7) == [b"S", b"1", b"2", b"3"]


@pytest.mark.parametrize(("state", "began"), [("S", 5000), ("D", 5000), ("Z", None)])
def test_zombie_process_has_ended(tmp_path, state, began):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (x) {state} {'0 ' * 18}5000 0 0\n")
    assert Processes(tmp_path).start_ticks(7) == began


def test_folders_of_observed_processes(tmp_path):
    for name in ("process-7", "process-7.2", "process-7.10", "process-12", "process-x", "windows"):
        (tmp_path / name).mkdir()
    (tmp_path / "process-99").write_text("a file")
    assert {pid: folder.name for pid, folder in observed(tmp_path).items()} == {
        7: "process-7.10",
        12: "process-12",
    }
