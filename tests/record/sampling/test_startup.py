"""Sampling before the first step: which processes, when, and until when."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from stepwhy.record.core.registry import ATTACHED_FILE
from stepwhy.record.core.user_code import UserFiles
from stepwhy.record.sampling.processes import Processes
from stepwhy.record.sampling.startup import StartupSamplers

PID = os.getpid()
# Writes its samples when it is interrupted, as py-spy does.
FAKE = """#!{python}
import signal, sys
from pathlib import Path
given = sys.argv[1:]
with open("{folder}/calls", "a") as file:
    file.write(" ".join(given) + "\\n")
if Path("{folder}/error").exists():
    sys.exit(1)
pid, output = given[given.index("--pid") + 1], given[given.index("--output") + 1]
def end(*_):
    Path(output).write_text(f"thread ({{pid}}): MainThread;f ({folder}/train.py:1) 30\\n")
    sys.exit(0)
signal.signal(signal.SIGINT, end)
Path("{folder}/ready").touch()
signal.pause()
"""


class Setting:
    """A run with this process in it, a fake clock and a fake py-spy."""

    def __init__(self, folder):
        self.folder, self.now_s = folder, 50.0
        self.program = folder / "py-spy"
        self.program.write_text(FAKE.format(python=sys.executable, folder=folder))
        self.program.chmod(0o755)
        self.register(PID)
        files = UserFiles(str(folder))
        self.samplers = StartupSamplers(
            folder, files, self.program, Processes(), lambda: self.now_s
        )

    def register(self, *pids):
        with (self.folder / ATTACHED_FILE).open("a") as file:
            file.writelines(f"{pid}\n" for pid in pids)

    def tick(self, *stepping, after_s=0.0):
        self.now_s += after_s
        return list(self.samplers.tick({pid: self.folder / str(pid) for pid in stepping}))

    def ended(self, *stepping):
        """What was sampled of processes that have stepped, once py-spy has ended."""
        kept = []
        while not kept:
            kept = self.tick(*stepping)
        return kept

    @property
    def recordings(self):
        return [p.running for p in self.samplers._processes.values() if p.running is not None]

    @property
    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def wait(self):
        """Wait until each py-spy is at work, or has ended."""
        for recording in self.recordings:
            while recording.sampler.poll() is None and not (self.folder / "ready").exists():
                os.sched_yield()


@pytest.fixture
def setting(tmp_path):
    found = Setting(tmp_path)
    yield found
    for recording in found.recordings:
        with recording.raw, recording.errors:
            recording.sampler.kill()
            recording.sampler.wait()


def test_a_program_that_steps_soon_is_not_sampled(setting):
    setting.tick()
    setting.tick(PID, after_s=1)
    setting.tick(PID, after_s=60)
    assert setting.recordings == []


def test_samples_end_with_the_first_step(setting):
    setting.tick()
    assert setting.tick(after_s=3.5) == []
    setting.wait()
    assert setting.tick(after_s=60) == []
    ((folder, about, counts),) = setting.ended(PID)
    assert folder == setting.folder / str(PID)
    assert about["start_ns"] < about["end_ns"]
    assert {(p.role, p.line): n for p, n in counts.items()} == {("startup", "train.py(1): f"): 30}
    setting.tick(PID, after_s=60)
    assert len(setting.calls) == 1


def test_samples_end_although_stepwhy_run_blocks_signals(setting):
    setting.tick()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        setting.tick(after_s=4)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    setting.wait()
    assert len(setting.ended(PID)) == 1


def test_samples_of_a_program_that_never_steps_are_dropped(setting):
    setting.tick()
    setting.tick(after_s=4)
    setting.wait()
    assert list(setting.samplers.finish({})) == []


def test_samples_of_a_short_program_are_kept_in_the_end(setting):
    setting.tick()
    setting.tick(after_s=4)
    setting.wait()
    ((folder, *_),) = setting.samplers.finish({PID: setting.folder})
    assert folder == setting.folder


def test_a_refusal_is_tried_again_a_few_times(setting):
    (setting.folder / "error").touch()
    for _ in range(60):
        setting.tick(after_s=4)
        for recording in setting.recordings:
            recording.sampler.wait()
    assert len(setting.calls) == 6


def test_few_processes_are_sampled(setting, monkeypatch):
    monkeypatch.setattr(Processes, "start_ticks", lambda *_: 1)
    setting.register(*range(10**7, 10**7 + 9))
    (setting.folder / "error").touch()
    setting.tick()
    setting.tick(after_s=4)
    assert len(setting.recordings) == 4


def test_processes_that_have_ended_are_left_out(setting):
    setting.register(10**7)
    setting.tick()
    setting.tick(after_s=4)
    assert len(setting.recordings) == 1
