"""Calls of Keras' `evaluate` and `predict` under observation, without Keras."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.keras import evaluations
from stepwhy.record.keras.evaluations import log_of, observe_evaluations
from stepwhy.record.steps.loop import Loop
from stepwhy.record.steps.step_window import NoWindow

if TYPE_CHECKING:
    from pathlib import Path


class Model:
    """Stands for Keras' class."""

    def compile(self, optimizer: str) -> str:
        return optimizer

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    def predict(self, inputs: Any) -> Any:
        if inputs == "fail":
            raise KeyError(inputs)
        return inputs


_METHODS = ("compile", "evaluate", "predict")


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop(Recorder(str(tmp_path), "pytorch", "2.0", "keras-fit"), NoWindow())
    monkeypatch.setattr(evaluations, "loop_of", lambda _: made)
    return made


def observed_model(tmp_path: Path) -> Any:
    trainer = type("Trainer", (), {name: vars(Model)[name] for name in _METHODS})
    kind = type("Model", (trainer,), {})
    observe_evaluations(SimpleNamespace(Model=kind), str(tmp_path))  # type: ignore[arg-type]
    return kind()


def events_of(loop: Loop, tmp_path: Path) -> list[dict[str, Any]]:
    loop.recorder.step(loop.line('"step"', 1, 2, ""))
    loop.recorder.close()
    log = tmp_path / f"process-{os.getpid()}" / "events.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_calls_are_logged_with_their_batches(loop: Loop, tmp_path: Path) -> None:
    model = observed_model(tmp_path)
    assert model.predict(3) == 3  # before the first step
    loop.lines = 1
    log_of(str(tmp_path)).batch_ended(None, 6)
    assert model.evaluate(1, _use_cached_eval_dataset=True) == (
        (1,),
        {"_use_cached_eval_dataset": True},
    )
    assert model.predict(4) == 4
    events = events_of(loop, tmp_path)
    assert [event["name"] for event in events] == ["validation", "predict"]
    assert {event["source"].rpartition(": ")[2] for event in events} == {
        "test_calls_are_logged_with_their_batches"
    }
    assert "count" not in events[0]  # batches of an earlier call


def test_a_call_that_raises_is_not_logged(loop: Loop, tmp_path: Path) -> None:
    model, loop.lines = observed_model(tmp_path), 1
    with pytest.raises(KeyError):
        model.predict("fail")
    assert events_of(loop, tmp_path) == []


def test_calls_are_logged_up_to_a_limit(loop: Loop, tmp_path: Path) -> None:
    model, loop.lines = observed_model(tmp_path), 1
    for i in range(450):
        model.predict(i)
    assert len(events_of(loop, tmp_path)) == 400


def test_failure_of_the_observer_does_not_affect_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> Loop:
        raise ImportError

    monkeypatch.setattr(evaluations, "loop_of", fail)
    assert observed_model(tmp_path).predict(5) == 5


def test_methods_stay_those_of_the_class_that_defines_them(tmp_path: Path) -> None:
    kind = type(observed_model(tmp_path))
    assert not set(_METHODS) & set(vars(kind))
    assert all(getattr(kind, name) is not vars(Model)[name] for name in _METHODS)


def test_a_batch_may_have_no_number(tmp_path: Path) -> None:
    log_of(str(tmp_path)).batch_ended(None, None)
