"""Stack samples of real processes with known shares, and their timing."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from stepwhy.record.core.user_code import UserFiles
from stepwhy.record.sampling import periods, py_spy, stacks, target
from stepwhy.record.sampling.stack_lines import Place
from stepwhy.record.sampling.stacks import StackSamplers, find_py_spy, program_folder


@pytest.mark.parametrize(
    ("command", "folder"),
    [(["python", "{}/a/train.py", "--x"], "{}/a"), (["torchrun", "-n", "2", "{}/t.py"], "{}")],
)
def test_the_folder_of_the_program(tmp_path, command, folder):
    words = [word.format(tmp_path) for word in command]
    assert program_folder(words) == folder.format(tmp_path)


def test_environment_beside_the_script_is_not_user_code(tmp_path):
    files = UserFiles(str(tmp_path))
    library = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "numpy" / "fft.py"
    assert files.user_name(str(library)) is None
    assert files.user_name(str(tmp_path / "data" / "augment.py")) == "data/augment.py"


def test_a_script_in_an_installed_package_is_user_code(tmp_path):
    package = tmp_path / "site-packages" / "trainer"
    files = UserFiles(str(package))
    assert files.user_name(str(package / "train.py")) == "train.py"
    assert files.user_name(str(tmp_path / "site-packages" / "numpy" / "fft.py")) is None


PROGRAM = """
    import time

    def burn(seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sum(range(200))

    def rest(seconds):
        time.sleep(seconds)

    print("ready", flush=True)
    end = time.perf_counter() + 60  # killed before, also on a busy machine
    while time.perf_counter() < end:
        burn(0.004)
        rest(0.006)
"""


def may_look(pid):
    """Whether py-spy may read a process of this user."""
    done = subprocess.run(
        [find_py_spy(), "dump", "--pid", str(pid)], capture_output=True, check=False, timeout=60
    )
    return done.returncode == 0


class Clock:
    """A fake clock in seconds."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def begin(samplers, clock):
    """Start a period: the windows ended some time ago."""
    samplers.tick()
    clock.now_s += 1
    samplers.tick()


def test_shares_of_python_and_sleep_are_unbiased(tmp_path):
    """40 % of the time in Python that holds the lock, 60 % asleep: frame readers see 0 and 100."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(script)]
    run = tmp_path / "run"
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        if not may_look(child.pid):
            child.kill()
            pytest.skip("the kernel does not let one process look at another here")
        folder = run / f"process-{child.pid}"
        (folder / "windows" / "000").mkdir(parents=True)
        clock = Clock()
        samplers = StackSamplers(run, command, clock=clock)
        begin(samplers, clock)
        assert [p.name for p in folder.iterdir()] == ["windows"]  # no full paths
        samplers.finish()
        child.kill()
    found = json.loads((folder / "stacks.json").read_text())
    counts = {}
    for sample in found["stretches"][0]["samples"]:
        assert sample["role"] == "driver"
        function = sample["line"].split(": ")[-1]
        counts[function] = counts.get(function, 0) + sample["count"]
    share = counts["burn"] / sum(counts.values())
    assert 0.1 < share < 0.95  # other programs may hold up both
    assert str(tmp_path) not in json.dumps(found)
    assert sorted(p.name for p in folder.iterdir()) == ["stacks.json", "windows"]


WORKERS = """
    import multiprocessing, threading, time

    def decode(seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sum(range(200))

    def work(jobs):
        for seconds in iter(jobs.get, None):
            decode(seconds)

    def produce():
        while True:
            decode(0.002)
            time.sleep(0.01)

    if __name__ == "__main__":
        context = multiprocessing.get_context("{method}")
        jobs = context.SimpleQueue()
        worker = context.Process(target=work, args=(jobs,), daemon=True)
        worker.start()
        threading.Thread(target=produce, daemon=True).start()
        print("ready", flush=True)
        end = time.perf_counter() + 60  # killed before, also on a busy machine
        while time.perf_counter() < end:
            jobs.put(0.005)
            time.sleep(0.01)
"""


_EXPECTED = [("worker", "decode"), ("thread", "decode"), ("driver", "<module>")]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_and_feeding_threads_are_distinguished(tmp_path, method):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(WORKERS).replace("{method}", method))
    command = [sys.executable, str(script)]
    run = tmp_path / "run"
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout.readline() == b"ready\n"
        if not may_look(child.pid):
            os.killpg(child.pid, signal.SIGKILL)
            pytest.skip("the kernel does not let one process look at another here")
        folder = run / f"process-{child.pid}"
        (folder / "windows" / "000").mkdir(parents=True)
        clock = Clock()
        samplers = StackSamplers(run, command, clock=clock)
        begin(samplers, clock)
        samplers.finish()
        os.killpg(child.pid, signal.SIGKILL)  # its workers, too
    counts = {}
    for sample in json.loads((folder / "stacks.json").read_text())["stretches"][0]["samples"]:
        key = sample["role"], sample["line"].split(": ")[-1]
        counts[key] = counts.get(key, 0) + sample["count"]
    assert min(counts[key] for key in _EXPECTED) > 0
    assert ("driver", "decode") not in counts


def test_a_process_that_is_gone_leaves_no_file(tmp_path):
    folder = tmp_path / "process-999999999"
    (folder / "windows" / "000").mkdir(parents=True)
    clock = Clock()
    samplers = StackSamplers(tmp_path, ["python", "x.py"], clock=clock)
    begin(samplers, clock)
    samplers.finish()
    assert [p.name for p in folder.iterdir()] == ["windows"]


# --- When py-spy runs, and its failures ---

FAKE = """#!{python}
import json, sys
from pathlib import Path
given = sys.argv[1:]
with open("{folder}/calls", "a") as file:
    file.write(" ".join(given) + "\\n")
if Path("{folder}/error").exists():
    sys.stderr.write(Path("{folder}/error").read_text())
    sys.exit(1)
pid, output = given[given.index("--pid") + 1], given[given.index("--output") + 1]
def event(begins, name, file, line):
    at = {{"ph": "B", "ts": 0}} if begins else {{"ph": "E", "ts": 30_000_000 // {rate_hz}}}
    return at | {{"name": name, "args": {{"filename": file, "line": line}}, "tid": 1}}
frames = [(f"thread ({{pid}}): MainThread", "", 0), ("f", "{folder}/train.py", 1)]
ends = [event(False, *frame) for frame in reversed(frames)]
record = json.dumps([event(True, *frame) for frame in frames] + ends)
raw = f"thread ({{pid}}): MainThread;f ({folder}/train.py:1) 30\\n"
Path(output).write_text(raw if "raw" in given else record)
"""


class FakeSpy:
    """A replacement for py-spy that ends at once."""

    def __init__(self, folder):
        self.folder = folder
        self.program = folder / "py-spy"
        known = {"python": sys.executable, "folder": folder, "rate_hz": periods._ALONE_RATE_HZ}
        self.program.write_text(FAKE.format(**known))
        self.program.chmod(0o755)

    @property
    def calls(self):
        """The calls that count samples; of a process with children, another one follows it."""
        path = self.folder / "calls"
        calls = path.read_text().splitlines() if path.exists() else []
        return [call for call in calls if f"--rate {periods._PATH_RATE_HZ}" not in call]

    def fail(self, text):
        (self.folder / "error").write_text(text)


@pytest.fixture
def spy(tmp_path, monkeypatch):
    (tmp_path / "fake").mkdir()
    fake = FakeSpy(tmp_path / "fake")
    monkeypatch.setattr(stacks, "find_py_spy", lambda: fake.program)
    return fake


@pytest.fixture
def folder(tmp_path):
    """The folder of this process, with one window."""
    folder = tmp_path / "run" / f"process-{os.getpid()}"
    (folder / "windows" / "000").mkdir(parents=True)
    return folder


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def samplers(spy, folder, clock, monkeypatch):
    # What other tests have started runs beside them, and is not theirs.
    monkeypatch.setattr(stacks.Processes, "descendants", lambda _, pid: [pid])
    samplers = StackSamplers(folder.parent, [str(spy.folder / "train.py")], clock=clock)
    yield samplers
    samplers.finish()


@pytest.fixture
def spied(samplers, spy, clock):
    return samplers, spy, clock


def wait(samplers):
    """Wait until py-spy has ended, so that the next tick notices it."""
    for process in samplers._targets.values():
        if process.running is not None:
            for sampler in process.running.samplers:
                sampler.wait(30)
    samplers.tick()


def run_for(samplers, clock, seconds):
    for _ in range(seconds):
        clock.now_s += 1
        samplers.tick()
        wait(samplers)


def test_no_file_contains_full_paths_after_a_kill(spy, folder, clock, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(spy.folder / "temporary"))
    (spy.folder / "temporary").mkdir()
    samplers = StackSamplers(folder.parent, [str(spy.folder / "train.py")], clock=clock)
    begin(samplers, clock)
    (process,) = samplers._targets.values()
    for sampler in process.running.samplers:
        sampler.wait(30)
    assert str(spy.folder).encode() in stacks.content(process.running.path.raw)
    assert list((spy.folder / "temporary").iterdir()) == []
    assert [p.name for p in folder.iterdir()] == ["windows"]
    samplers.finish()
    assert (folder / "stacks.json").is_file()


def test_period_starts_after_the_windows(samplers, spy, folder, clock):
    for number in range(1, 5):
        samplers.tick()
        (folder / "windows" / f"{number:03d}").mkdir()
        clock.now_s += 0.1
    samplers.tick()
    assert samplers._started == 0  # a window was added less than 0.3 s ago
    clock.now_s += 0.4
    samplers.tick()
    wait(samplers)
    assert len(spy.calls) == 1


@pytest.mark.parametrize(("framework", "waits_s"), [("pytorch", 2.1), ("jax", 0.4)])
def test_steps_that_are_looked_at_after_a_window_are_left_out(
    samplers, folder, clock, framework, waits_s
):
    (folder / "process.json").write_text(json.dumps({"framework": framework}))
    samplers.tick()
    clock.now_s += waits_s - 0.2
    samplers.tick()
    assert samplers._started == 0
    clock.now_s += 0.2
    samplers.tick()
    assert samplers._started == 1


def test_they_are_over_with_the_last_file_about_them(samplers, folder, clock):
    (folder / "process.json").write_text('{"framework": "pytorch"}')
    samplers.tick()
    (folder / "semantic.json").write_text("{}")
    clock.now_s += 0.4
    samplers.tick()
    assert samplers._started == 1


@pytest.fixture
def timed(clock, monkeypatch):
    """The fake clock also tells when py-spy has begun."""
    for module in (py_spy, target):
        monkeypatch.setattr(module, "now_ns", lambda: round(1e9 * clock.now_s))
    return clock


def log(folder, *steps):
    """Log steps by their ends in s, each from the end of the previous one, and their kinds."""
    lines, start_ns = [], 0
    for end_s, profiled in steps:
        end_ns = round(1e9 * end_s)
        lines.append(f'{{"start_ns":{start_ns},"end_ns":{end_ns},"profiled":{profiled}}}\n')
        start_ns = end_ns
    (folder / "steps.jsonl").write_text("".join(lines))


def stretches(folder):
    """Start and end in s of each stretch, with the counts of its samples."""
    path = folder / "stacks.json"
    found = json.loads(path.read_text())["stretches"] if path.exists() else []
    return [
        (s["start_ns"] / 1e9, s["end_ns"] / 1e9, [sample["count"] for sample in s["samples"]])
        for s in found
    ]


def test_profiled_steps_are_left_out_until_enough_of_usual_ones_was_seen(
    samplers, spy, folder, timed
):
    log(folder, (99, 0))
    begin(samplers, timed)  # at 101 s
    run_for(samplers, timed, 4)
    assert (len(spy.calls), stretches(folder)) == (1, [])  # the step that runs may be profiled
    log(folder, (99, 0), (107, 1))
    run_for(samplers, timed, 3)
    assert (len(spy.calls), stretches(folder)) == (1, [])  # it was, and no usual one has ended
    log(folder, (99, 0), (107, 1), (120, 0))
    run_for(samplers, timed, 5)
    assert (len(spy.calls), stretches(folder)) == (2, [(109.02, 111.02, [30])])


def test_the_rest_of_a_period_is_made_up_for(samplers, spy, folder, timed):
    log(folder, (101.92, 1), (120, 0))
    begin(samplers, timed)
    run_for(samplers, timed, 5)
    assert stretches(folder) == [(102.02, 103.02, [30])]
    assert [call.split()[call.split().index("--duration") + 1] for call in spy.calls] == ["2", "1"]


def test_periods_in_profiled_steps_are_bounded_and_reported(
    samplers, spy, folder, timed, monkeypatch
):
    # Where processes start fast, the share of a core would permit the usual next period, too.
    monkeypatch.setattr(samplers, "_others_s", 0.0)
    monkeypatch.setattr(stacks, "children_cpu_s", lambda: 0.07 * len(spy.calls))
    for second in range(100, 140):
        log(folder, (second + 5, 1), (second + 5.01, 0))
        run_for(samplers, timed, 1)
    assert len(spy.calls) == 1 + target._MOST_MORE
    samplers.finish()
    assert (messages(folder), stretches(folder)) == (["stacks-of-profiled-steps"], [])


def test_a_step_that_does_not_end_is_not_waited_for_without_limit(samplers, folder, timed):
    log(folder, (99, 0))
    begin(samplers, timed)
    run_for(samplers, timed, 40)
    assert stretches(folder)[0] == (101.02, 103.02, [30])


def test_children_count_while_the_main_thread_is_profiled(spied, folder, timed, monkeypatch):
    samplers, spy, _ = spied
    monkeypatch.setattr(stacks.Processes, "descendants", lambda _, pid: [pid] * 2)
    worker = 'process 7:\\"worker\\";thread (7): MainThread;f (train.py:2) 90\\n'
    spy.program.write_text(spy.program.read_text().replace("1) 30\\n", f"1) 30\\n{worker}"))
    log(folder, (101.22, 1), (120, 0))
    begin(samplers, timed)
    wait(samplers)
    assert stretches(folder) == [(101.02, 103.02, [90]), (101.24, 103.02, [13])]


def test_without_windows_the_first_steps_are_left_out(samplers, spy, folder, clock):
    (folder / "windows" / "000").rmdir()
    run_for(samplers, clock, 8)
    assert spy.calls == []
    run_for(samplers, clock, 5)
    assert len(spy.calls) == 1


def test_without_a_framework_there_are_no_windows_to_wait_for(samplers, spy, folder, clock):
    (folder / "windows" / "000").rmdir()
    (folder / "process.json").write_text('{"framework": ""}')
    run_for(samplers, clock, 3)
    assert len(spy.calls) == 1


def test_periods_of_a_long_run_become_rarer(samplers, spy, folder, clock, monkeypatch):
    monkeypatch.setattr(samplers, "_others_s", 0.0)
    monkeypatch.setattr(stacks, "children_cpu_s", lambda: 0.07 * len(spy.calls))
    counts = []
    for minutes in (1, 9, 50):
        run_for(samplers, clock, 60 * minutes)
        counts.append(len(spy.calls))
    assert counts[0] >= 2  # not from one moment alone
    assert counts[0] < counts[1] < counts[2] <= 12
    found = json.loads((folder / "stacks.json").read_text())
    assert len(found["stretches"]) == counts[2]
    for stretch in found["stretches"]:
        assert stretch["samples"] == [
            {"role": "driver", "line": "train.py(1): f", "leaf": "", "count": 30}
        ]


@pytest.mark.parametrize(("cost_s", "times"), [(0.06, 2), (0.15, 1), (0.6, 1)])
def test_periods_are_repeated_once_the_run_is_long_enough(spied, monkeypatch, cost_s, times):
    samplers, spy, clock = spied
    monkeypatch.setattr(samplers, "_others_s", 0.0)
    monkeypatch.setattr(stacks, "children_cpu_s", lambda: cost_s * len(spy.calls))
    run_for(samplers, clock, 60)
    assert len(spy.calls) == times
    run_for(samplers, clock, round(cost_s * (times + 1) / 0.003))
    assert len(spy.calls) == times + 1
    assert cost_s * len(spy.calls) <= 0.003 * (clock.now_s - 100)


def test_new_windows_start_another_period(samplers, spy, folder, clock):
    run_for(samplers, clock, 5)
    assert len(spy.calls) == 1
    (folder / "windows" / "001").mkdir()  # the step time has changed for good
    run_for(samplers, clock, 4)
    assert len(spy.calls) == 2


def test_growing_windows_do_not_start_a_period_each(samplers, spy, folder, clock):
    run_for(samplers, clock, 5)
    for number in range(1, 9):
        (folder / "windows" / f"00{number}").mkdir()
        run_for(samplers, clock, 1)
    assert len(spy.calls) <= 3


def messages(folder):
    path = folder / "messages.jsonl"
    return [json.loads(t)["slug"] for t in path.read_text().splitlines()] if path.exists() else []


def test_refusal_is_reported_once_and_not_retried(samplers, spy, folder, clock):
    spy.fail("Permission Denied: Try running again with elevated permissions")
    run_for(samplers, clock, 200)
    assert (messages(folder), len(spy.calls)) == (["stack-access"], 1)
    assert not (folder / "stacks.json").exists()
    text = json.loads((folder / "messages.jsonl").read_text())["text"]
    assert "ptrace_scope" in text


def test_other_failure_is_reported_the_second_time(samplers, spy, folder, clock):
    spy.fail("Error: Failed to find python version from target process")
    run_for(samplers, clock, 200)
    assert (messages(folder), len(spy.calls)) == (["stacks-unreadable"], 2)


def test_missing_py_spy_is_reported_once(folder, clock, monkeypatch):
    monkeypatch.setattr(stacks, "find_py_spy", lambda: None)
    samplers = StackSamplers(folder.parent, ["train.py"], clock=clock)
    run_for(samplers, clock, 10)
    samplers.finish()
    assert messages(folder) == ["py-spy-missing"]


def test_failure_at_the_end_of_a_process_is_ignored(tmp_path, spy, clock):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        folder = tmp_path / "run" / f"process-{child.pid}"
        (folder / "windows" / "000").mkdir(parents=True)
        samplers = StackSamplers(folder.parent, ["x.py"], clock=clock)
        spy.fail("Permission Denied")
        begin(samplers, clock)
        child.communicate(b"\n")
    samplers.finish()
    assert (messages(folder), len(spy.calls)) == ([], 1)


def test_a_full_disk_loses_the_samples_and_nothing_else(samplers, folder, clock, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(stacks, "write_json", full)
    run_for(samplers, clock, 60)
    assert not (folder / "stacks.json").exists()


def test_many_ranks_are_sampled_two_at_a_time(tmp_path, spy, clock, monkeypatch):
    run = tmp_path / "run"
    for pid in range(1, 6):
        (run / f"process-{pid}" / "windows" / "000").mkdir(parents=True)
    monkeypatch.setattr(stacks.Processes, "start_ticks", lambda *_: 1)
    samplers = StackSamplers(run, ["x.py"], clock=clock)
    begin(samplers, clock)
    samplers.tick()
    assert samplers._started == 2
    for _ in range(3):
        wait(samplers)
    samplers.finish()
    assert len(spy.calls) == 5


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        (1, ("97", False)),
        (8, ("141", True)),
        (48, ("23", True)),
        (1000, ("11", False)),
    ],
)
def test_cost_is_bounded_for_any_number_of_workers(samplers, spy, monkeypatch, processes, expected):
    clock = samplers._clock
    monkeypatch.setattr(stacks.Processes, "descendants", lambda _, pid: [pid] * processes)
    begin(samplers, clock)
    wait(samplers)
    (call,) = (line.split() for line in spy.calls)
    assert (call[call.index("--rate") + 1], "--subprocesses" in call) == expected


def test_rare_lines_are_summed_so_that_shares_are_correct():
    counts = Counter({Place("driver", f"train.py({n}): f", ""): 10 + n for n in range(300)})
    kept = list(stacks._most(counts))
    assert sum(sample["count"] for sample in kept) == counts.total()
    assert kept[-1]["line"] == ""
    assert len(kept) == 201
    assert "entry" not in kept[0]
    called = stacks._most(Counter({Place("worker", "data.py(1): f", "", "DataLoader"): 3}))
    assert [sample["entry"] for sample in called] == ["DataLoader"]
