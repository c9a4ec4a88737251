"""What cannot be observed with a version of a framework, as the run tells it."""

from __future__ import annotations

import json
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from stepwhy.record import RUN_DIR_VARIABLE, attach
from stepwhy.record.core import import_hooks, registry
from stepwhy.record.core.process import losses
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.launcher.no_steps import why_no_step

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(losses, "texts", [])
    monkeypatch.setattr(attach, "_instrumented", set())
    monkeypatch.setattr(attach, "_first_run_dir", "")
    monkeypatch.setattr(import_hooks, "_pending", {})
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setenv(RUN_DIR_VARIABLE, str(tmp_path))
    (tmp_path / registry.ATTACHED_FILE).touch()


def instrument(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instrument a version of `torch.optim.optimizer` that lacks the name that is wrapped."""
    target = ModuleType("stepwhy.record.for_a_test")

    def observe(module: ModuleType, run_dir: str) -> None:
        del run_dir
        module.Optimizer.profile_hook_step()

    target.observe = observe  # type: ignore[attr-defined]
    framework = ModuleType("torch.optim.optimizer")
    framework.Optimizer = type("Optimizer", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, target.__name__, target)
    monkeypatch.setitem(sys.modules, framework.__name__, framework)
    monkeypatch.setattr(attach, "INSTRUMENTATION", {framework.__name__: "for_a_test:observe"})
    attach.observe()


EXPECTED = (
    "steps of PyTorch optimizers cannot be observed: this version of the framework has no "
    "'profile_hook_step'"
)


def messages(tmp_path: Path) -> list[str]:
    path = tmp_path / f"process-{os.getpid()}" / "messages.jsonl"
    return [json.loads(line)["text"] for line in path.read_text().splitlines()]


def test_a_missing_name_is_told_with_the_first_steps_and_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    instrument(monkeypatch)
    recorder = Recorder(str(tmp_path), "pytorch", "3.0", "torch-optimizer")
    for _ in range(2):
        recorder.steps(['{"kind":"step","start_ns":1,"end_ns":2}'])
    assert messages(tmp_path) == [EXPECTED]


def test_a_name_that_is_missed_later_is_told_too(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path), "pytorch", "3.0", "torch-optimizer")
    recorder.steps(['{"kind":"step","start_ns":1,"end_ns":2}'])
    assert not losses.attempt("epochs", lambda: 1 // 0)
    recorder.steps(['{"kind":"step","start_ns":2,"end_ns":3}'])
    assert messages(tmp_path) == [
        "epochs cannot be observed: an internal failure (ZeroDivisionError)"
    ]


def test_a_run_without_steps_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    instrument(monkeypatch)
    assert EXPECTED in why_no_step(0, registry.reports(tmp_path), attached=True)


def test_the_text_has_no_path() -> None:
    def fail() -> None:
        raise ImportError("cannot import name 'x' from 'm' (/home/me/m.py)", name="m", path="/home")

    losses.attempt("steps", fail)
    assert "/home" not in losses.texts[0]
