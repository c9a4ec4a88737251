"""Counters of the job, sampled from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from stepwhy.capture.sampler import COUNTERS_FILE, Sampler

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@pytest.fixture
def proc(tmp_path):
    """A machine with one process (pid 7, two threads), whose child is pid 8."""
    root = tmp_path / "proc"
    for pid, tasks, children in ((7, (7, 9), "8"), (8, (8,), "")):
        for task in tasks:
            folder = root / str(pid) / "task" / str(task)
            folder.mkdir(parents=True)
            (folder / "schedstat").write_text("1000 200 5\n")
            (folder / "children").write_text(children if task == pid else "")
        # Fields 3.. of proc(5): state, then ... major faults (12th), user, system and children.
        numbers = "S 1 1 1 0 -1 0 11 0 3 0 20 10 2 1"
        (root / str(pid) / "stat").write_text(f"{pid} (a b) c) {numbers} 20 0\n")
        (root / str(pid) / "status").write_text("Name:\tx\nVmRSS:\t  100 kB\nVmSwap:\t 4 kB\n")
    (root / "stat").write_text("cpu  50 5 45 900 10 1 1 0 0 0\ncpu0 1 1 1 1\n")
    return root


def test_hand_made_proc(proc, tmp_path):
    run = tmp_path / "run"
    (run / "process-7").mkdir(parents=True)
    Sampler(run, 7, proc).sample()
    line = json.loads((run / "process-7" / COUNTERS_FILE).read_text())
    del line["time_ns"], line["cores"]
    assert line == {
        "cpu_ns": 2000,
        "run_delay_ns": 400,
        "threads": 2,
        "major_faults": 3,
        "resident_bytes": 100 * 1024,
        "swap_bytes": 4 * 1024,
        "machine_busy_ns": 102 * TICK_NS,  # all but idle (900) and iowait (10)
        "job_cpu_ns": 2 * (20 + 10 + 2 + 1) * TICK_NS,  # pid 7 and its child
    }


def test_a_process_that_is_gone_leaves_no_line(proc, tmp_path):
    run = tmp_path / "run"
    (run / "process-99").mkdir(parents=True)
    Sampler(run, 7, proc).sample()
    assert not (run / "process-99" / COUNTERS_FILE).exists()


def test_without_proc_nothing_is_written(tmp_path):
    run = tmp_path / "run"
    (run / "process-7").mkdir(parents=True)
    Sampler(run, 7, tmp_path / "no-proc").sample()
    assert not (run / "process-7" / COUNTERS_FILE).exists()


def test_a_full_or_vanished_directory_is_no_error(proc, tmp_path):
    Sampler(tmp_path / "vanished", 7, proc).sample()


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="needs /proc")  # noqa: PTH110
def test_cpu_time_of_a_real_process(tmp_path):
    run = tmp_path / "run"
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint(1, flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"1\n"
        (run / f"process-{child.pid}").mkdir(parents=True)
        Sampler(run, child.pid).sample()
        child.communicate(b"\n")
    line = json.loads((run / f"process-{child.pid}" / COUNTERS_FILE).read_text())
    assert 200_000_000 <= line["cpu_ns"] < 2_000_000_000
    assert line["resident_bytes"] > 1_000_000
