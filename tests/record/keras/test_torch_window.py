"""Keras' `fit` on PyTorch, with a window of PyTorch's profiler."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from stepwhy.record import launch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("keras", "torch")),
        reason="keras or torch is not installed",
    ),
]

_FIT = """
import numpy as np
import keras
inputs = np.random.rand(160, 8).astype("float32")
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
for _ in range(2):
    model.fit(inputs, inputs.sum(1), batch_size=8, verbose=0)
"""


def test_fit_on_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "KERAS_BACKEND", "torch")
    (tmp_path / "train.py").write_text(_FIT)
    command = [sys.executable, "-Wignore", str(tmp_path / "train.py")]
    ended = launch(command, tmp_path / "run")
    assert (ended.exit_code, ended.messages) == (0, ())
    (log,) = ended.run_dir.glob("process-*/steps.jsonl")
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    assert [step["kind"] for step in steps] == ["step"] * 40
    assert all(step["input_wait_ns"] > 0 for step in steps if "light" not in step)
    (window,) = ended.run_dir.glob("process-*/windows/*")
    about = json.loads((window / "window.json").read_text())
    first, last = about["first_step"], about["last_step"]
    assert about["kind"] == "torch-profiler"
    assert all(step["profiled"] for step in steps[first : last + 1])
    assert (window / "trace.json.gz").is_file()
