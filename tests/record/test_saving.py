"""Calls that save checkpoints are logged, once each, and do what they always did."""

from __future__ import annotations

import copy
import importlib
import json
import os
import pickle
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stepwhy.record import attach
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.watchers import saving

if TYPE_CHECKING:
    from collections.abc import Callable


def _slow(*_: Any, **__: Any) -> str:
    time.sleep(0.001)  # long enough to be logged
    return "saved"


@pytest.fixture
def logged(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """Opens the process directory, as the first step does; returns the events in it."""
    recorder = Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")

    def events() -> list[dict[str, Any]]:
        recorder.steps(['{"kind":"step","start_ns":1,"end_ns":2}'])
        saving.log_of(str(tmp_path))._recorder.write_events()
        path = tmp_path / f"process-{os.getpid()}" / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return events


def _module(**content: Any) -> Any:
    return SimpleNamespace(__name__="torch.serialization", **content)


def test_a_call_is_an_event_with_its_line(tmp_path: Path, logged: Any) -> None:
    module = _module(save=_slow)
    saving.observe_saving(module, str(tmp_path))
    assert module.save({}, "model.pt") == "saved"
    (event,) = logged()
    assert (event["kind"], event["name"]) == ("save", "torch.save")
    assert "test_saving.py" in event["source"]
    assert event["end_ns"] - event["start_ns"] >= 1_000_000


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore what saves without a framework, which is wrapped with any."""
    monkeypatch.setattr(pickle, "dump", pickle.dump)
    for name in ("save", "savez", "savez_compressed"):
        monkeypatch.setattr(np, name, getattr(np, name))


def test_pickle_and_numpy_are_logged_with_any_framework(tmp_path: Path) -> None:
    original = pickle.dump
    saving.observe_saving(_module(save=_slow), str(tmp_path))
    assert isinstance(pickle.dump, saving.Builtin)
    assert pickle.dump is not original
    once = pickle.dump, np.save, np.savez
    saving.observe_saving(_module(save=_slow), str(tmp_path))
    assert once == (pickle.dump, np.save, np.savez)


def test_only_the_outermost_call_counts(tmp_path: Path, logged: Any) -> None:
    inner = _module(save=_slow)
    saving.observe_saving(inner, str(tmp_path))
    outer = SimpleNamespace(
        __name__="keras.src.saving.saving_api", save_model=lambda: inner.save({})
    )
    saving.observe_saving(outer, str(tmp_path))  # type: ignore[arg-type]
    outer.save_model()
    assert [event["name"] for event in logged()] == ["Model.save"]


class ModelCheckpoint:
    """As that of a framework, in a file of its own."""

    def __init__(self, path: str, save: Callable[..., Any]) -> None:
        self.path, self.save = path, save


SAVES = "def on_batch_end(self):\n    self.save(self.path)\n"


def test_the_line_is_that_of_the_callback_which_saves(
    tmp_path: Path, logged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, library = _module(save=_slow), SimpleNamespace(ModelCheckpoint=ModelCheckpoint)
    saving.observe_saving(module, str(tmp_path))
    monkeypatch.setattr(ModelCheckpoint, "__init__", ModelCheckpoint.__init__)
    saving.observe_keepers(library, str(tmp_path))  # type: ignore[arg-type]
    monkeypatch.setattr(saving, "_files", {"<library>"})
    methods: dict[str, Any] = {}
    exec(compile(SAVES, "<library>", "exec"), methods)  # noqa: S102 - in another file
    callback = ModelCheckpoint("model.keras", module.save)
    methods["on_batch_end"](callback)
    made, saved = logged()
    assert (made["kind"], made["name"]) == ("made", "ModelCheckpoint")
    assert made["reason"] == "ModelCheckpoint('model.keras', module.save)"
    assert saved["source"] == made["source"]
    number = int(made["source"].partition("(")[2].partition(")")[0])
    assert Path(__file__).read_text().splitlines()[number - 1].startswith("    callback = ")


def test_a_call_that_fails_is_over(tmp_path: Path, logged: Any) -> None:
    def fail() -> None:
        _slow()
        raise OSError("disk full")

    module = _module(save=fail)
    saving.observe_saving(module, str(tmp_path))
    for _ in range(2):
        with pytest.raises(OSError, match="disk full"):
            module.save()
    assert len(logged()) == 2


def test_another_thread_blocks_no_step(tmp_path: Path, logged: Any) -> None:
    module = _module(save=_slow)
    saving.observe_saving(module, str(tmp_path))
    thread = threading.Thread(target=module.save)
    thread.start()
    thread.join()
    assert logged() == []


def test_short_calls_are_left_out(
    tmp_path: Path, logged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_SHORTEST_NS", 60 * 10**9)  # short even on a busy machine
    module = _module(save=lambda: None)
    saving.observe_saving(module, str(tmp_path))
    module.save()
    assert logged() == []


def test_a_version_without_the_function_is_left_alone(tmp_path: Path) -> None:
    module = _module()
    saving.observe_saving(module, str(tmp_path))
    assert not hasattr(module, "save")


def test_a_program_that_only_saves_leaves_no_directory(tmp_path: Path) -> None:
    module = _module(save=_slow)
    saving.observe_saving(module, str(tmp_path))
    module.save()
    assert list(tmp_path.iterdir()) == []


def test_each_module_is_instrumented() -> None:
    hooked = {name for name, target in attach.INSTRUMENTATION.items() if "_saving" in target}
    hooked |= {"torch.serialization"}  # by the observer of PyTorch
    assert hooked - {"jax._src.dispatch"} == set(saving.SAVERS)


@pytest.mark.framework
@pytest.mark.parametrize("name", [n for n in saving.SAVERS if not n.startswith("orbax")])
def test_installed_frameworks_have_what_is_wrapped(name: str) -> None:
    pytest.importorskip(name.partition(".")[0])
    module = importlib.import_module(name)
    for saver in saving.SAVERS[name]:
        place: Any = module
        for part in saver.path.split("."):
            place = getattr(place, part)
        assert callable(place)


def test_functions_in_c_stay_no_methods_and_pickle(tmp_path: Path) -> None:
    saving.observe_plain_saving(SimpleNamespace(), str(tmp_path))  # type: ignore[arg-type]

    class Format:
        write = pickle.dump

    with (tmp_path / "state.pickle").open("wb") as file:
        Format().write({"step": 3}, file)
    with (tmp_path / "state.pickle").open("rb") as file:
        assert pickle.load(file) == {"step": 3}  # noqa: S301 - written above
    for function in (pickle.dump, np.save, np.savez, np.savez_compressed):
        assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301 - as above
        assert copy.deepcopy(function) is function
