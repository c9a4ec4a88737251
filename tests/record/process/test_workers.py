"""Worker processes log their steps, for all ways to start and end them.

The training logs its steps itself, as the observer of a framework would, and so few that they are
only written at its end.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stepwhy.record import launch
from stepwhy.record.core.process import lifetime, workers

if TYPE_CHECKING:
    from pathlib import Path

_STEPS = 40

# The framework does not import multiprocessing, so this import comes after the hooks.
_PROGRAM = """
import os, sys

def train(_=0):
    from stepwhy.record.core.clock import now_ns
    for _ in range({steps}):
        recorder.step(f'{{{{"kind":"step","start_ns":{{now_ns()}},"end_ns":{{now_ns()}}}}}}')

from stepwhy.record.core.recorder import Recorder
recorder = Recorder(os.environ["STEPWHY_RUN_DIR"], "pytorch", "2.0", "torch-optimizer")

if __name__ == "__main__":
"""

_WAYS = {
    "process": """
    import multiprocessing
    worker = multiprocessing.get_context("{method}").Process(target=train)
    worker.start()
    worker.join()
""",
    "subclass": """
    import multiprocessing
    class Worker(multiprocessing.get_context("{method}").Process):
        def run(self):
            train()
    worker = Worker()
    worker.start()
    worker.join()
""",
    "pool": """
    from multiprocessing import get_context
    with get_context("{method}").Pool(1) as pool:
        pool.map(train, [0])
""",
    "executor": """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    with ProcessPoolExecutor(1, mp_context=get_context("{method}")) as executor:
        list(executor.map(train, [0]))
""",
    "exit": """
    child = os.fork()
    if not child:
        train()
        os._exit(0)
    os.waitpid(child, 0)
""",
    "alone": """
    train()
    os._exit(0)
""",
}
_EVERYWHERE = [(w, m) for w in ("process", "pool", "executor") for m in ("spawn", "forkserver")]


def logged(tmp_path: Path, body: str) -> list[int]:
    """The number of steps in the log of each process of a program that ends well."""
    script = tmp_path / "train.py"
    script.write_text(_PROGRAM.format(steps=_STEPS) + body)
    ended = launch([sys.executable, str(script)], tmp_path / "run")
    assert ended.exit_code == 0
    logs = (tmp_path / "run").glob("process-*/steps.jsonl")
    return [len(log.read_text().splitlines()) for log in logs]


@pytest.mark.parametrize(("way", "method"), [*((w, "fork") for w in _WAYS), *_EVERYWHERE])
def test_all_steps_of_a_worker_are_logged(tmp_path: Path, way: str, method: str) -> None:
    assert logged(tmp_path, _WAYS[way].format(method=method)) == [_STEPS]


_TORCH = """
import torch

def train(_):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(31):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.multiprocessing.start_processes(train, nprocs=2, start_method="{method}")
"""


@pytest.mark.framework
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_torch_log_all_their_steps(tmp_path: Path, method: str) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(_TORCH.format(method=method))
    assert launch([sys.executable, str(script)], tmp_path / "run").exit_code == 0
    logs = list((tmp_path / "run").glob("process-*/steps.jsonl"))
    # The first step has no known start.
    assert [len(log.read_text().splitlines()) for log in logs] == [30, 30]


def test_os_exit_works_if_the_observer_fails() -> None:
    code = """
import os
from stepwhy.record.core.process import lifetime

def fail():
    raise KeyboardInterrupt

lifetime.on_flush(fail)
os._exit(7)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=240).returncode == 7


def test_os_exit_can_be_the_target_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetime, "_flushes", [])
    monkeypatch.setattr(os, "_exit", os._exit)
    lifetime.on_flush(lambda: None)
    assert pickle.loads(pickle.dumps(os._exit)) is os._exit  # noqa: S301 - our own bytes


def test_thread_pools_write_nothing_before_results(monkeypatch: pytest.MonkeyPatch) -> None:
    from multiprocessing import pool

    flushed: list[int] = []
    monkeypatch.setattr(lifetime, "_flushes", [lambda: flushed.append(1)])
    monkeypatch.setattr(pool, "worker", pool.worker)
    workers.observe_pools(pool, "")
    with pool.ThreadPool(1) as threads:
        assert threads.map(abs, [-1, -2]) == [1, 2]
    assert flushed == []
