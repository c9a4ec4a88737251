"""A wait for a child process that saves counts as a save; other waits, and polls, do not."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import time
from multiprocessing import popen_fork
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.forks import fork

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.watchers import child_waits, saving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Work = Callable[[], object]

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    """A saving call of an observed process that has logged a step."""
    for name in child_waits._WAITS:
        monkeypatch.setattr(os, name, getattr(os, name))
    monkeypatch.setattr(popen_fork.Popen, "wait", popen_fork.Popen.wait)
    # On a busy machine, a child takes long to start, and its parent to wait for it.
    monkeypatch.setattr(saving, "_LEAST_SAVING", 0.0)
    monkeypatch.setattr(saving, "_SHORTEST_NS", 0)
    module: Any = SimpleNamespace(__name__="torch.serialization", save=lambda: time.sleep(0.001))
    saving.observe_saving(module, str(tmp_path))
    child_waits.observe_waits(str(tmp_path))
    child_waits.observe_joins(popen_fork, str(tmp_path))
    Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer").steps(
        ['{"kind":"step","start_ns":1,"end_ns":2}']
    )
    return module.save


def events(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / f"process-{os.getpid()}" / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    "wait",
    [
        lambda child: os.waitpid(child, 0),
        lambda _: os.wait(),
        lambda child: os.wait4(child, 0),
        lambda child: os.waitid(os.P_PID, child, os.WEXITED),
    ],
)
def test_a_wait_for_a_child_that_saves(tmp_path: Path, save: Work, wait: Any) -> None:
    started_ns = time.perf_counter_ns()
    assert wait(fork(save, save))
    waited_ns = time.perf_counter_ns() - started_ns
    (event,) = events(tmp_path)
    assert (event["kind"], event["name"]) == ("save", "torch.save in a child process")
    assert "test_child_waits.py" in event["source"]
    assert 0 < event["end_ns"] - event["start_ns"] <= waited_ns


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_process_that_is_joined(tmp_path: Path, save: Work, timeout: float | None) -> None:
    process = multiprocessing.get_context("fork").Process(target=save)
    process.start()
    process.join(timeout)
    (event,) = events(tmp_path)
    assert (process.exitcode, event["name"]) == (0, "torch.save in a child process")


@pytest.mark.usefixtures("save")
def test_a_child_that_saves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "_MOST_WAITS", 2)
    for _ in range(3):
        os.waitpid(fork(lambda: time.sleep(0.001)), 0)
    assert [event["kind"] for event in events(tmp_path)] == ["child", "child"]


def test_a_child_that_mostly_does_something_else(
    tmp_path: Path, save: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_LEAST_SAVING", 1.0)
    os.waitpid(fork(lambda: time.sleep(0.001), save), 0)
    assert [event["kind"] for event in events(tmp_path)] == ["child"]


def test_a_child_that_has_already_ended(
    tmp_path: Path, save: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_SHORTEST_NS", 60 * 10**9)  # short even on a busy machine
    ended, running = os.pipe()
    child = fork(save)
    os.close(running)
    assert os.read(ended, 1) == b""
    assert os.waitpid(child, 0) == (child, 0)
    assert events(tmp_path) == []


@pytest.mark.parametrize(("shortest_ns", "kind"), [(60 * 10**9, "polled-save"), (0, "save")])
def test_a_child_that_is_polled(
    tmp_path: Path, save: Work, monkeypatch: pytest.MonkeyPatch, shortest_ns: int, kind: str
) -> None:
    """Between its polls, the program may train."""
    monkeypatch.setattr(saving, "_SHORTEST_NS", shortest_ns)
    read, write = os.pipe()
    ended, running = os.pipe()  # the child closes its end when it ends
    child = fork(lambda: os.read(read, 1), save)
    os.close(running)
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    os.write(write, b"!")
    assert os.read(ended, 1) == b""
    assert events(tmp_path) == []
    os.waitpid(child, 0)
    assert [event["kind"] for event in events(tmp_path)] == [kind]


@pytest.mark.usefixtures("save")
def test_a_wait_that_fails_or_finds_no_child(tmp_path: Path) -> None:
    with pytest.raises(ChildProcessError):
        os.waitpid(os.getpid(), 0)
    read, write = os.pipe()
    child = fork(lambda: os.read(read, 1))
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    os.write(write, b"!")
    assert os.waitpid(child, 0) == (child, 0)
    assert [event["kind"] for event in events(tmp_path)] == ["child"]


@pytest.mark.usefixtures("save")
def test_functions_of_os_stay_no_methods_and_pickle() -> None:
    class Children:
        wait = os.waitpid

    child = fork()
    assert Children().wait(child, 0) == (child, 0)
    assert pickle.loads(pickle.dumps(os.waitpid)) is os.waitpid  # noqa: S301 - pickled here


def test_a_child_waits_for_its_own_children(tmp_path: Path, save: Work) -> None:
    """What a child of a child saves is no event of the first process."""
    os.waitpid(fork(lambda: os.waitpid(fork(save), 0)), 0)
    assert [event["kind"] for event in events(tmp_path)] == ["child"]
