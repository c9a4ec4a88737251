"""The two-tower pair of the lab under observation, with its placement."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.capture import launch
from stepwhy.engine.explain import explain, read_placement

if TYPE_CHECKING:
    from stepwhy.findings import Finding, Placement, Result

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


def line_of(program: str, text: str, name: str = "") -> str:
    lines = (_TOWERS / program).read_text().splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if text in line)
    return f"{name or program}({number})"


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


def explained(program: str, run_dir: Path, *arguments: str) -> tuple[Result, Placement]:
    """The result and the placement of a program of the lab."""
    path = _TOWERS.parent / program
    launch([sys.executable, "-Wignore", str(path), "--steps", "40", *arguments], run_dir)
    return explain([str(run_dir)]), read_placement(str(run_dir))


def first_of_the_steps(result: Result) -> Finding:
    """The first finding with a cost: start-up and noise depend on the machine."""
    return next(f for f in result.findings if f.verdict == "found" and f.cost_ns_per_step)


@pytest.mark.parametrize(
    ("program", "line", "devices"),
    [
        ("towers_sigmoid/faulty.py", "with tf.device(PARAMETER_DEVICE):  #", "CPU:1, CPU:2"),
        (
            "towers/pinned.py",
            "with tf.device(PARAMETER_HOST):  # whatever",
            "/job:worker/task:0, /job:worker/task:1",
        ),
    ],
)
def test_layers_of_any_type_that_an_inner_scope_moves_are_the_first_finding(
    program: str, line: str, devices: str, tmp_path: Path
) -> None:
    result, placement = explained(program, tmp_path / "run")
    finding = first_of_the_steps(result)
    assert finding.id == "misplaced-op"
    evidence = {e.what: e.value for e in finding.evidence}
    name = program.rpartition("/")[2]
    assert evidence["responsible device scope"] == line_of(f"../{program}", line, name)
    assert evidence["device requested by the enclosing scope"] == devices
    assert finding.fix is not None
    assert str(evidence["responsible device scope"]) in finding.fix.text
    moved = [op for op in placement.ops if op.placed == "overruled"]
    assert evidence["operations on a different device than requested"] == len(moved)
    assert {op.line for op in moved if op.line} == {evidence["responsible device scope"]}
    assert {op.op for op in moved} >= {"Sigmoid"}


@pytest.mark.parametrize(
    ("program", "arguments"),
    [("towers_sigmoid/fixed.py", ()), ("towers/pinned.py", ("--released",))],
)
def test_the_twins_of_moved_layers_are_clear(
    program: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    result, placement = explained(program, tmp_path / "run", *arguments)
    verdicts = {f.id: f.verdict for f in result.findings}
    assert verdicts["misplaced-op"] == verdicts["uncolocated-gradients"] == "clear"
    assert verdicts["variable-traffic"] == "clear"
    assert [op.name for op in placement.ops if op.placed in {"overruled", "moved"}] == []
