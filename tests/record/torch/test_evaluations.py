"""Evaluations by trainers of PyTorch under observation, without these trainers."""

from __future__ import annotations

import functools
import inspect
import pickle
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from stepwhy.record.core.process import lifetime
from stepwhy.record.torch import evaluations
from stepwhy.record.torch.evaluations import (
    log_of,
    observe_lightning,
    observe_modes,
    observe_trainer,
)


class Recorder:
    """Stands for the recorder of the observer."""

    alive = True

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.messages: list[str] = []
        self.is_broken = False

    def event(self, kind: str, *, name: str, source: str, **_: int) -> None:
        if self.is_broken:
            raise OSError
        self.events.append((kind, name, source.rpartition(": ")[2]))

    def message(self, _level: str, slug: str, _text: str) -> None:
        self.messages.append(slug)


class Trainer:
    """Stands for the class of transformers."""

    def evaluate(self, eval_dataset: Any = None, metric_key_prefix: str = "eval") -> Any:
        """Evaluate."""
        if isinstance(eval_dataset, dict):
            return [
                self.evaluate(each, metric_key_prefix=key) for key, each in eval_dataset.items()
            ]
        if eval_dataset == "fail":
            raise KeyError(eval_dataset)
        return eval_dataset, metric_key_prefix

    def predict(self, test_dataset: Any) -> Any:
        return test_dataset


def _no_grad(run: Any) -> Any:
    @functools.wraps(run)
    def without(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, *args, **kwargs)

    return without


class Loop:
    """Stands for `_EvaluationLoop` of Lightning."""

    def __init__(self, **trainer: bool) -> None:
        self.trainer = SimpleNamespace(**trainer)

    @_no_grad
    def run(self) -> list[int]:
        return [1]


_ORIGINALS = {name: vars(Trainer)[name] for name in ("evaluate", "predict")} | {
    "run": vars(Loop)["run"]
}


@pytest.fixture
def observer(monkeypatch):
    """The observer of a process whose main thread trains; the stand-ins are observed."""
    made = SimpleNamespace(steps=SimpleNamespace(driver=threading.get_ident()), recorder=Recorder())
    monkeypatch.setattr(evaluations, "observer_of", lambda _: made)
    monkeypatch.setattr(lifetime, "on_begin", lambda _: None)
    log_of.cache_clear()
    for name, original in _ORIGINALS.items():
        monkeypatch.setattr(Loop if name == "run" else Trainer, name, original)
    observe_trainer(SimpleNamespace(Trainer=Trainer), "/runs/1")
    observe_lightning(SimpleNamespace(_EvaluationLoop=Loop), "/runs/1")
    yield made
    log_of.cache_clear()


def seen(observer):
    return observer.recorder.events


def test_calls_are_logged_with_the_line_of_the_program(observer):
    assert Trainer().evaluate(3, "test") == (3, "test")
    assert Trainer().predict(4) == 4
    here = "test_calls_are_logged_with_the_line_of_the_program"
    assert seen(observer) == [
        ("evaluation", "Trainer.evaluate", here),
        ("evaluation", "Trainer.predict", here),
    ]


def test_the_loop_of_lightning_is_logged_but_not_its_check_before_the_training(observer):
    assert Loop(sanity_checking=True).run() == Loop(sanity_checking=False).run() == [1]
    assert Loop().run() == [1]  # another version
    assert [event[1] for event in seen(observer)] == ["validation loop"] * 2


def test_a_call_for_each_of_several_data_sets_counts_once(observer):
    assert Trainer().evaluate({"a": 1, "b": 2}) == [(1, "a"), (2, "b")]
    assert len(seen(observer)) == 1


def test_subclasses_that_call_the_method_are_logged_once(observer):
    class Own(Trainer):
        def evaluate(self, *args, **kwargs):
            return super().evaluate(*args, **kwargs)

    assert Own().evaluate(1) == (1, "eval")
    assert [event[2] for event in seen(observer)] == ["evaluate"]


def test_nothing_is_logged_before_the_first_step_and_by_other_threads(observer):
    for driver in (0, threading.get_ident() + 1):
        observer.steps.driver = driver
        Trainer().evaluate(1)
    assert seen(observer) == []


def test_calls_are_logged_up_to_a_limit(observer):
    for i in range(450):
        Trainer().predict(i)
    assert len(seen(observer)) == 400
    log_of("/runs/1").forget()
    Trainer().predict(1)
    assert len(seen(observer)) == 401


def test_errors_of_the_program_reach_it_and_the_next_call_is_logged(observer):
    with pytest.raises(KeyError):
        Trainer().evaluate("fail")
    Trainer().evaluate(1)
    assert len(seen(observer)) == 2


def test_errors_of_the_observer_do_not_reach_the_program(observer):
    observer.recorder.is_broken = True
    assert [Trainer().predict(i) for i in range(3)] == [0, 1, 2]
    assert observer.recorder.messages == ["observation-incomplete"]


def test_another_version_of_a_library_is_not_observed(monkeypatch):
    lost = []
    monkeypatch.setattr("stepwhy.record.core.process.losses.add", lambda what, _: lost.append(what))
    observe_lightning(SimpleNamespace(), "/runs/1")
    observe_trainer(SimpleNamespace(), "/runs/1")
    assert set(lost) == {"evaluations by Lightning", "evaluations by transformers"}


@pytest.mark.usefixtures("observer")
def test_the_methods_look_like_those_of_the_library():
    assert Trainer.evaluate is not _ORIGINALS["evaluate"]
    for kind, name in ((Trainer, "evaluate"), (Trainer, "predict"), (Loop, "run")):
        method, original = getattr(kind, name), _ORIGINALS[name]
        assert inspect.signature(method) == inspect.signature(original)
        assert inspect.getfullargspec(method) == inspect.getfullargspec(original)
        assert (method.__qualname__, method.__doc__) == (original.__qualname__, original.__doc__)
        assert pickle.loads(pickle.dumps(method)) is method  # noqa: S301 - our own bytes


class Module:
    """Stands for `torch.nn.Module`."""

    def __init__(self, *children: Module) -> None:
        self.children, self.training = children, True

    def train(self, mode: bool = True) -> Module:
        """Set the mode."""
        self.training = mode
        for each in self.children:
            each.train(mode)
        return self

    def eval(self) -> Module:
        return self.train(False)


@pytest.fixture
def model(observer):
    """A model of two modules, whose class is observed."""
    pytest.importorskip("torch")
    observer.steps.calls = 5

    class Observed(Module):
        eval, train = Module.eval, Module.train

    observe_modes(SimpleNamespace(Module=Observed), "/runs/1")
    return Observed(Observed())


def test_the_time_between_eval_and_train_is_logged_once(observer, model):
    assert model.eval() is model
    assert (model.training, model.children[0].training) == (False, False)
    assert model.children[0].eval() is model.children[0]  # a part of the same
    assert model.train() is model
    assert (model.training, model.children[0].training) == (True, True)
    model.train()
    here = "test_the_time_between_eval_and_train_is_logged_once"
    assert seen(observer) == [("evaluation-mode", "eval()", here)]


def test_a_model_that_trains_in_that_mode_does_not_evaluate(observer, model):
    model.eval()
    observer.steps.calls += 1
    model.train()
    assert seen(observer) == []
    model.eval()  # a frozen part, for good
    observer.steps.calls += 1
    other = type(model)()
    other.eval()
    other.train()
    assert len(seen(observer)) == 1


def test_an_evaluation_by_a_trainer_is_not_logged_twice(observer, model):
    class Own(Trainer):
        def evaluate(self, *args, **kwargs):
            return super().evaluate(*args, **kwargs)

    Own.evaluate(Own(), 1)
    assert len(seen(observer)) == 1
    log_of("/runs/1").begin()
    model.eval()
    model.train()
    assert len(seen(observer)) == 1


def test_modes_that_other_threads_set_are_not_logged(observer, model):
    observer.steps.driver = threading.get_ident() + 1
    model.eval()
    model.train()
    assert seen(observer) == []
