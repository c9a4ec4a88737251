"""PyTorch programs that fork: every child ends as it would without observation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forks import Forks

pytestmark = pytest.mark.framework

# Children end normally, with the destructors of native libraries, where Python allows it. One that
# hangs is killed after a minute.
_HEAD = """
import gc, os, sys, threading, time, warnings
warnings.simplefilter("ignore")
import torch
torch.manual_seed(0)
gc.freeze()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
children, STEPS = [], 120

def fork(leave=sys.exit):
    child = os.fork()
    if not child:
        torch.save(model.state_dict(), os.devnull)
        leave(7)
    children.append(child)

def step():
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()

def wait(child):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    return os.waitpid(child, 0) and "hung"
"""
# One child before the first window, one as soon as it records, and one long after it.
_LOOP = """
for i in range(STEPS):
    recording = i == 100 or torch.autograd._profiler_enabled()
    if i in (2, 110) or (recording and len(children) == 1):
        {fork}
    loss = step()
print(loss, [wait(child) for child in children])
"""
_FORKS = {
    "normally": "fork()",
    "by a pseudo-terminal": "os.fork = lambda: os.forkpty()[0]; fork()",
    "in another thread": (
        "t = threading.Thread(target=fork, args=[os._exit]); t.start(); t.join()"
    ),
    "in a backward pass": """
        handle = model.weight.register_hook(lambda gradient: (fork(), handle.remove())[0])""",
}
_IN_EACH_STEP = """
for i in range(14):
    loss = step()
    fork()
print(loss, [wait(child) for child in children])
"""
_PROCESSES = """
import multiprocessing
context = multiprocessing.get_context("fork")
for i in range(40):
    loss = step()
    if i % 5 == 0:
        process = context.Process(target=step)
        process.start()
        process.join()
        children.append(process.exitcode)
    if i == 20:
        with context.Pool(2) as pool:
            children.append(len(pool.map(abs, range(4))))
print(loss, children)
"""
_THREADS = """
def count():
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
step()
before = count()
for i in range(20):
    loss = step()
print(loss, count() - before)
"""
_LOADER = """
from torch.utils.data import DataLoader
for epoch in range(10):
    for batch in DataLoader(torch.zeros(6, 1), num_workers=2, multiprocessing_context="fork"):
        loss = step()
        children.append(len(batch))
print(loss, children)
"""

# A second one opens if the steps take twice as long later, as where other programs start.
_OPENED = {1, 2}


def observe(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    program: str,
    forks: Callable[[str], Forks],
) -> tuple[str, list[str], int]:
    """Run a program with and without observation.

    Returns:
        What it printed, the messages about it, and the number of its windows.
    """
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(program)
    alone = forks("torch").run([script], tmp_path)
    assert alone.returncode == 0, alone.stderr
    ended = forks("torch").launch([script], tmp_path / "run")
    assert (ended.exit_code, *capfd.readouterr()) == (0, alone.stdout, alone.stderr)
    windows = list(ended.run_dir.glob("process-*/windows/*/trace.json.gz"))
    return alone.stdout, ended.messages, len(windows)


@pytest.mark.parametrize("how", _FORKS)
def test_children_end_as_without_observation(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], how: str, forks: Callable[[str], Forks]
) -> None:
    program = _HEAD + _LOOP.format(fork=_FORKS[how])
    printed, messages, windows = observe(tmp_path, capfd, program, forks)
    assert printed.endswith(" [7, 7, 7]\n")
    assert windows in _OPENED
    assert messages == ()


def test_a_program_that_forks_in_each_step_is_timed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], forks: Callable[[str], Forks]
) -> None:
    printed, messages, windows = observe(tmp_path, capfd, _HEAD + _IN_EACH_STEP, forks)
    assert printed.endswith(f" {[7] * 14}\n")
    assert windows == 0
    (message,) = messages
    assert "forked its process" in message


@pytest.mark.parametrize(
    "program", [pytest.param(_PROCESSES, id="processes"), pytest.param(_LOADER, id="loader")]
)
def test_workers_that_are_forked_in_a_window_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], program: str, forks: Callable[[str], Forks]
) -> None:
    _, messages, windows = observe(tmp_path, capfd, _HEAD + program, forks)
    assert windows in _OPENED
    assert messages == ()


def test_no_thread_of_the_profiler_is_left(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], forks: Callable[[str], Forks]
) -> None:
    _, _, windows = observe(tmp_path, capfd, _HEAD + _THREADS, forks)
    assert windows in _OPENED
