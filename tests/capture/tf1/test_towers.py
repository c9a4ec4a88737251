"""The two-tower pair of the lab under observation, with its placement."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from stepwhy.capture import launch

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]

_TOWERS = Path(__file__).parents[3] / "lab" / "tf1" / "towers"


def observe(program: str, run_dir: Path) -> Path:
    command = [sys.executable, "-Wignore", str(_TOWERS / program), "--steps", "12"]
    ended = launch(command, run_dir)
    assert (ended.exit_code, ended.messages) == (0, ())
    # The servers of the cluster do not train.
    (process,) = ended.run_dir.glob("process-*")
    return min((process / "windows").iterdir())


def scopes(window: Path, op: str) -> tuple[str, list[tuple[str, str]]]:
    found: dict[str, Any] = json.loads((window / "sources.json").read_text())["ops"][op]
    return found["requested"], [(s["device"], s["line"]) for s in found["scopes"]]


def line_of(program: str, text: str) -> str:
    lines = (_TOWERS / program).read_text().splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if text in line)
    return f"{program}({number})"


def test_faulty_towers_run_on_the_parameter_host(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    window = observe("faulty.py", tmp_path / "run")
    assert "median step" in capfd.readouterr().out
    for i in (0, 1):
        requested, around = scopes(window, f"tower_{i}/model/Conv2D")
        assert requested == "/job:ps/task:0"
        assert [device for device, _ in around] == [f"/job:worker/task:{i}", "/job:ps/task:0"]
        assert around[1][1] == line_of("faulty.py", "with tf.device(PARAMETER_HOST):  #")
    metadata = (window / "run_metadata.pb").read_bytes()
    assert b"RecvTensor" in metadata  # the full trace level reached the servers
    assert b"/job:worker/replica:0/task:1/device:CPU:0" in metadata


def test_fixed_towers_run_on_the_requested_devices(tmp_path: Path) -> None:
    window = observe("fixed.py", tmp_path / "run")
    for i in (0, 1):
        requested, around = scopes(window, f"tower_{i}/model/Conv2D")
        assert requested == f"/job:worker/task:{i}"
        assert [device for device, _ in around] == [f"/job:worker/task:{i}"]
