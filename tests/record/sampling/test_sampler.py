"""Counters of the job, sampled from outside."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading

import pytest

from stepwhy.record.sampling import sampler as sampler_module
from stepwhy.record.sampling.cpu_budget import CpuBudget
from stepwhy.record.sampling.nvml import Gpus
from stepwhy.record.sampling.processes import Processes
from stepwhy.record.sampling.sampler import COUNTERS_FILE, Sampler

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
        numbers = "S 1 1 1 0 -1 0 11 0 3 0 20 10 2 1 20 0 2 0 5000"
        # Then field 23 to 41, the wait for a disk (42nd) and the rest.
        rest = " ".join(["0"] * 19 + ["6"] + ["0"] * 10)
        (root / str(pid) / "stat").write_text(f"{pid} (a b) c) {numbers} {rest}\n")
        (root / str(pid) / "io").write_text("rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\n")
        (root / str(pid) / "status").write_text("Name:\tx\nVmRSS:\t  100 kB\nVmSwap:\t 4 kB\n")
    (root / "stat").write_text("cpu  50 5 45 900 10 1 1 0 0 0\ncpu0 1 1 1 1\n")
    (root / "pressure").mkdir()
    (root / "pressure" / "io").write_text(
        "some avg10=1.70 avg60=0.44 avg300=0.17 total=900\n"
        "full avg10=1.70 avg60=0.44 avg300=0.15 total=800\n"
    )
    (root / "pressure" / "memory").write_text("some total=50\nfull avg10=0.1 total=30\n")
    (root / "vmstat").write_text("pgpgin 9\npswpin 5\npswpout 8\n")
    (root / "meminfo").write_text("MemTotal:  2048 kB\nMemFree:  1 kB\n")
    (root / "sys" / "kernel").mkdir(parents=True)
    (root / "sys" / "kernel" / "task_delayacct").write_text("1\n")
    return root


def lines(folder):
    return [json.loads(line) for line in (folder / COUNTERS_FILE).read_text().splitlines()]


@pytest.fixture
def folder(tmp_path):
    """The folder of the observed process 7."""
    folder = tmp_path / "run" / "process-7"
    folder.mkdir(parents=True)
    return folder


def test_artificial_proc(proc, folder):
    Sampler(folder.parent, 7, proc).sample()
    (line,) = lines(folder)
    del line["time_ns"], line["cores"]
    assert line == {
        "cpu_ns": 2000,
        "run_delay_ns": 400,
        "main_ran_ns": 1200,
        "threads": 2,
        "user_ns": 20 * TICK_NS,
        "system_ns": 10 * TICK_NS,
        "children_cpu_ns": (2 + 1 + 20 + 10 + 2 + 1) * TICK_NS,  # ended ones, and pid 8
        "minor_faults": 11,
        "major_faults": 3,
        "resident_bytes": 100 * 1024,
        "swap_bytes": 4 * 1024,
        "disk_read_bytes": 4096,
        "disk_written_bytes": 8192,
        "disk_wait_ns": 6 * TICK_NS,
        "machine_busy_ns": 102 * TICK_NS,  # all but idle (900) and iowait (10)
        "machine_disk_stall_ns": 800_000,
        "machine_memory_stall_ns": 30_000,
        "machine_swapped_in_bytes": 5 * os.sysconf("SC_PAGE_SIZE"),
        "machine_memory_bytes": 2048 * 1024,
        "job_cpu_ns": 2 * (20 + 10 + 2 + 1) * TICK_NS,  # pid 7 and its child
        "observer_cpu_ns": 0,
    }


def test_waits_of_the_main_thread_are_counted(proc, folder):
    sampler = Sampler(folder.parent, 7, proc)
    sampler.sample()
    stat = proc / "7" / "stat"
    text = stat.read_text()
    for state in "SDDR":
        stat.write_text(text.replace(") S ", f") {state} "))
        sampler.sample_waits()
    stat.write_text(text)
    sampler.sample()
    first, second = lines(folder)
    assert "disk_waits" not in first
    assert (second["disk_waits"], second["other_waits"]) == (2, 1)


def test_observer_does_not_count_as_another_program(proc, folder, monkeypatch):
    """The launcher started the job, and a sampler."""
    for pid, children in ((5, "7 6"), (6, "")):
        task = proc / str(pid) / "task" / str(pid)
        task.mkdir(parents=True)
        (task / "children").write_text(children)
        (proc / str(pid) / "stat").write_text(f"{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 3 1 0 {pid}\n")
    monkeypatch.setattr(os, "getpid", lambda: 5)
    Sampler(folder.parent, 7, proc).sample()
    (line,) = lines(folder)
    assert line["job_cpu_ns"] == 66 * TICK_NS
    assert line["observer_cpu_ns"] == (3 + 1 + 5 + 3 + 1 + 6) * TICK_NS


def set_disk_wait(proc, ticks):
    stat = proc / "7" / "stat"
    before, _, fields = stat.read_text().rpartition(")")
    words = fields.split()
    words[39] = str(ticks)
    stat.write_text(f"{before}) {' '.join(words)}\n")


@pytest.mark.parametrize(
    ("accounting", "ticks", "waited"),
    [("1\n", 0, 0), ("0\n", 6, None), ("0\n", 0, None), (None, 0, None), (None, 6, 6 * TICK_NS)],
)
def test_a_zero_that_is_not_counted_is_not_written(proc, folder, accounting, ticks, waited):
    """Without delay accounting it is always 0, and old kernels do not say whether it is on."""
    switch = proc / "sys" / "kernel" / "task_delayacct"
    switch.unlink() if accounting is None else switch.write_text(accounting)
    set_disk_wait(proc, ticks)
    Sampler(folder.parent, 7, proc).sample()
    assert lines(folder)[0].get("disk_wait_ns") == waited


def test_values_without_permission_are_absent(proc, folder):
    (proc / "7" / "io").unlink()
    for name in ("pressure/io", "pressure/memory", "vmstat", "meminfo"):
        (proc / name).unlink()
    Sampler(folder.parent, 7, proc).sample()
    written = lines(folder)[0].keys()
    assert not written & {"disk_read_bytes", "disk_written_bytes"}
    assert {key for key in written if key.startswith("machine_")} == {"machine_busy_ns"}
    assert {"cpu_ns", "machine_busy_ns"} <= written


def test_a_process_that_is_gone_leaves_no_line(proc, tmp_path):
    run = tmp_path / "run"
    (run / "process-99").mkdir(parents=True)
    Sampler(run, 7, proc).sample()
    assert not (run / "process-99" / COUNTERS_FILE).exists()


def test_without_proc_nothing_is_written(folder, tmp_path):
    Sampler(folder.parent, 7, tmp_path / "no-proc").sample()
    assert not (folder / COUNTERS_FILE).exists()


def test_a_vanished_directory_is_no_error(proc, tmp_path):
    Sampler(tmp_path / "vanished", 7, proc).sample()


def test_reused_process_id_is_not_sampled(proc, folder):
    sampler = Sampler(folder.parent, 7, proc)
    sampler.sample()
    stat = proc / "7" / "stat"
    stat.write_text(stat.read_text().replace(" 5000 ", " 6000 "))  # when it began
    sampler.sample()
    assert len(lines(folder)) == 1


def test_a_process_that_replaced_itself_has_its_newest_folder_sampled(proc, folder):
    newest = folder.with_name("process-7.2")
    newest.mkdir()
    Sampler(folder.parent, 7, proc).sample()
    assert [p.name for p in folder.parent.glob("*/" + COUNTERS_FILE)] == [COUNTERS_FILE]
    assert len(lines(newest)) == 1


def test_one_folder_that_cannot_be_written_does_not_stop_the_others(proc, folder, monkeypatch):
    other = folder.with_name("process-8")
    other.mkdir()
    (folder.with_name("process-notes")).mkdir()

    def append(path, text):
        if path.parent == folder:
            raise OSError(errno.ENOSPC, "No space left on device")
        recorder_append(path, text)

    recorder_append = sampler_module.append_lines
    monkeypatch.setattr(sampler_module, "append_lines", append)
    Sampler(folder.parent, 7, proc).sample()
    assert not (folder / COUNTERS_FILE).exists()
    assert len(lines(other)) == 1


def test_a_process_that_ends_while_it_is_sampled(proc, folder, monkeypatch):
    other = folder.with_name("process-8")
    other.mkdir()
    whole = Processes.threads

    def ends(self, pid):
        threads = whole(self, pid)
        (proc / "7" / "stat").unlink(missing_ok=True)
        return threads

    monkeypatch.setattr(Processes, "threads", ends)
    Sampler(folder.parent, 8, proc).sample()
    assert len(lines(other)) == 1


def test_gpus_of_a_process_are_in_its_line(proc, folder):
    class Fake:
        def sample(self, pids, processes):
            assert isinstance(processes, Processes)
            return {pid: [{"index": 0, "utilisation_percent": 50}] for pid in pids}

    Sampler(folder.parent, 7, proc, gpus=Fake()).sample()
    assert lines(folder)[0]["gpus"] == [{"index": 0, "utilisation_percent": 50}]


class Counting:
    """Stack samplers that only count their calls."""

    def __init__(self):
        self.looks = self.finished = 0
        self.looked = threading.Event()

    def tick(self):
        self.looks += 1
        self.looked.set()

    def finish(self):
        self.finished += 1


def test_the_thread_samples_until_it_is_left(proc, folder, monkeypatch):
    monkeypatch.setattr(sampler_module, "_TICK_S", 0.001)
    monkeypatch.setattr(sampler_module, "_SHORTEST_S", 0.0)
    stacks = Counting()
    before = set(threading.enumerate())
    with Sampler(folder.parent, 7, proc, stacks, Gpus.none()):
        (thread,) = set(threading.enumerate()) - before
        assert stacks.looked.wait(30)
    assert len(lines(folder)) >= 1
    assert stacks.finished == 1
    thread.join(30)  # `Sampler` waits for it for only a second
    assert not thread.is_alive()


def test_expensive_sampling_is_rare(proc, folder, monkeypatch):
    """By a fake clock: so much CPU time per minute, however long each sample takes."""
    clock = {"now_s": 0.0, "cpu_s": 0.0}
    sampler = Sampler(folder.parent, 7, proc, gpus=Gpus.none())

    def wait(seconds):
        clock["now_s"] += seconds
        return clock["now_s"] > 60

    def work():
        clock["cpu_s"] += 0.004

    monkeypatch.setattr(sampler_module.time, "monotonic", lambda: clock["now_s"])
    monkeypatch.setattr(sampler_module.time, "thread_time", lambda: clock["cpu_s"])
    monkeypatch.setattr(sampler._stopped, "wait", wait)
    monkeypatch.setattr(sampler, "sample", work)
    monkeypatch.setattr(sampler, "sample_waits", work)
    sampler._loop()
    assert 0.14 < clock["cpu_s"] < 0.18


def test_a_budget_says_when_more_may_be_spent():
    budget = CpuBudget(share=0.01, start_s=0.5)
    assert budget.due_s(0.5) == 0
    budget.spent_s = 0.5
    assert (budget.due_s(), budget.due_s(0.2)) == (0, pytest.approx(20))
    budget.spent_s = 1.5
    assert budget.due_s(0.2) == pytest.approx(120)


def test_sampling_many_threads_reads_little(tmp_path, monkeypatch):
    """A few small files of each thread, and some of the process and the machine."""
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(200)]
    for thread in threads:
        thread.start()
    (tmp_path / f"process-{os.getpid()}").mkdir()
    sampler = Sampler(tmp_path, os.getpid())
    reads, read = [], sampler._processes.read
    monkeypatch.setattr(sampler._processes, "read", lambda name: reads.append(name) or read(name))
    sampler.sample()
    count = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - of other tests, too
    stop.set()
    for thread in threads:
        thread.join()
    assert len(threads) < len(reads) <= 4 * count + 40


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
