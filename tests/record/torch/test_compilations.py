"""Log of compilations, from the metrics of Dynamo."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from stepwhy.record.core.observation_guard import ObservationGuard
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.torch.compilations import Compilations, instrument

if TYPE_CHECKING:
    from pathlib import Path

_MISMATCH = "tensor 'x' size mismatch at index 0. expected 4, actual 5"
_CODE = {"co_name": "loss", "co_filename": "/home/someone/train.py", "co_firstlineno": 7}


def test_a_compilation_is_an_event_with_its_reason(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")
    compilations = Compilations(recorder)
    reported: list[tuple[Any, ...]] = []
    module: Any = SimpleNamespace(record_compilation_metrics=lambda *args: reported.append(args))
    instrument(module, compilations, ObservationGuard(recorder, "torch.compile"))
    again = {"recompile_reason": f"0/0: {_MISMATCH}  # y = x @ w  # /home/someone/train.py:9\nmore"}
    for metrics in (_CODE, {**_CODE, **again}, {"is_forward": False}):
        module.record_compilation_metrics(1_000, 5_000, metrics, None, None)
    assert len(reported) == 3
    assert (compilations.fresh, compilations.take(), compilations.fresh) == (
        True,
        ',"compile_ns":12000,"compiled":{"compile loss":8000,"compile backward":4000}',
        False,
    )
    recorder.steps(['{"kind":"step","start_ns":1,"end_ns":2}'])
    text = (tmp_path / f"process-{os.getpid()}" / "events.jsonl").read_text()
    assert "someone" not in text
    events = [json.loads(line) for line in text.splitlines()]
    assert [(e["kind"], e["name"], e["count"], e.get("reason")) for e in events] == [
        ("compile", "loss", 1, None),
        ("compile", "loss", 2, _MISMATCH),
        ("compile", "compile backward", 1, None),
    ]
    assert {e["end_ns"] - e["start_ns"] for e in events} == {4000}


def test_the_limit_of_recompilations_is_an_event_of_its_own(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")
    compilations = Compilations(recorder)
    module: Any = SimpleNamespace(record_compilation_metrics=lambda *_: None)
    instrument(module, compilations, ObservationGuard(recorder, "torch.compile"))
    given_up = {"co_name": None, "recompile_reason": f"0/7: {_MISMATCH}"}
    module.record_compilation_metrics(1_000, 5_000, given_up, None, None)
    recorder.steps(['{"kind":"step","start_ns":1,"end_ns":2}'])
    event = json.loads((tmp_path / f"process-{os.getpid()}" / "events.jsonl").read_text())
    assert (event["name"], event["reason"]) == ("recompile limit", _MISMATCH)


def test_failure_affects_neither_compiler_nor_steps(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")
    reported: list[int] = []
    module: Any = SimpleNamespace(
        record_compilation_metrics=lambda *args: reported.append(len(args))
    )
    instrument(module, Compilations(recorder), ObservationGuard(recorder, "torch.compile"))
    for _ in range(2):
        module.record_compilation_metrics(1, 2, None, None, None)
    assert reported == [5, 5]
    assert recorder.alive
    (message,) = (tmp_path / f"process-{os.getpid()}" / "messages.jsonl").read_text().splitlines()
    assert json.loads(message)["slug"] == "observation-incomplete"


def test_a_function_that_dynamo_has_bound_already_is_observed(tmp_path: Path) -> None:
    """As versions before 2.11 do while they are imported."""
    recorder = Recorder(str(tmp_path), "pytorch", "2.9", "torch-optimizer")
    compilations = Compilations(recorder)
    reported: list[tuple[Any, ...]] = []

    def record(*args: Any) -> None:
        reported.append(args)

    context = SimpleNamespace(_on_exit=record)
    module: Any = SimpleNamespace(record_compilation_metrics=record, _METRICS_CONTEXT=context)
    instrument(module, compilations, ObservationGuard(recorder, "torch.compile"))
    context._on_exit(1_000, 5_000, _CODE, None, None)
    assert len(reported) == 1
    assert compilations.take() == ',"compile_ns":4000,"compiled":{"compile loss":4000}'


def test_metrics_in_another_form_reach_the_compiler_unchanged(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path), "pytorch", "3.0", "torch-optimizer")
    reported: list[dict[str, Any]] = []
    module: Any = SimpleNamespace(record_compilation_metrics=lambda **kw: reported.append(kw))
    instrument(module, Compilations(recorder), ObservationGuard(recorder, "torch.compile"))
    module.record_compilation_metrics(event="compiled")
    assert reported == [{"event": "compiled"}]
