"""Two towers under observation, in a cluster and in one process, with their placement."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from stepwhy.engine.explain import explain, read_placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.forks import Forks

    from stepwhy.result import Finding, Placement, Result

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]

_LAB = Path(__file__).parents[3] / "lab" / "tf1"


@pytest.fixture
def tensorflow(forks: Callable[[str], Forks]) -> Forks:
    return forks("tensorflow")


class Run(NamedTuple):
    """A program of the lab that was observed."""

    result: Result
    placement: Placement
    window: Path

    @classmethod
    def of(cls, program: str, run_dir: Path, forks: Forks, *arguments: str) -> Run:
        words = ["-Wignore", _LAB / program, "--steps", "24", *arguments]
        ended = forks.launch(words, run_dir)
        assert (ended.exit_code, ended.messages) == (0, ())
        # The servers of a cluster do not train.
        (process,) = ended.run_dir.glob("process-*")
        window = min((process / "windows").iterdir())
        return cls(explain([str(run_dir)]), read_placement(str(run_dir)), window)


def scopes(window: Path, op: str) -> tuple[str, list[tuple[str, str]]]:
    data = gzip.decompress((window / "sources.json.gz").read_bytes())
    found: dict[str, Any] = json.loads(data)["ops"][op]
    return found["requested"], [(s["device"], s["line"]) for s in found["scopes"]]


def line_of(program: str, text: str) -> str:
    path = _LAB / program
    (number,) = (i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line)
    return f"{path.name}({number})"


def assert_moved(run: Run, line: str, devices: str) -> None:
    """Require that the first finding names the layers, whatever their type, and the inner scope."""
    finding = first_of_the_steps(run.result)
    assert finding.id == "misplaced-op"
    evidence = {e.what: e.value for e in finding.evidence}
    assert evidence["responsible device scope"] == line
    assert evidence["device requested by the enclosing scope"] == devices
    assert finding.fix is not None
    assert line in finding.fix.text
    moved = [op for op in run.placement.ops if op.placed == "overruled"]
    assert evidence["operations on a different device than requested"] == len(moved)
    assert {op.line for op in moved if op.line} == {line}
    assert {op.op for op in moved} >= {"Sigmoid"}


def assert_clear(run: Run) -> None:
    """Require that nothing is said of layers that run where they were asked to."""
    verdicts = {f.id: f.verdict for f in run.result.findings}
    assert verdicts["misplaced-op"] == verdicts["uncolocated-gradients"] == "clear"
    assert verdicts["variable-traffic"] == "clear"
    assert [op.name for op in run.placement.ops if op.placed in {"overruled", "moved"}] == []


def first_of_the_steps(result: Result) -> Finding:
    """The first finding with a cost: start-up and noise depend on the machine."""
    return next(f for f in result.findings if f.verdict == "found" and f.cost_ns_per_step)


def test_layers_that_an_inner_scope_pins_to_the_parameter_host(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], tensorflow: Forks
) -> None:
    run = Run.of("towers/pinned.py", tmp_path / "run", tensorflow)
    assert "median step" in capfd.readouterr().out
    line = line_of("towers/pinned.py", "with tf.device(PARAMETER_HOST):  # whatever")
    assert_moved(run, line, "/job:worker/task:0, /job:worker/task:1")
    for i in (0, 1):
        requested, around = scopes(run.window, f"tower_{i}/model/Sigmoid")
        assert requested == "/job:ps/task:0"
        assert [device for device, _ in around] == [f"/job:worker/task:{i}", "/job:ps/task:0"]
        assert around[1][1] == line
    metadata = (run.window / "run_metadata.pb").read_bytes()
    assert b"RecvTensor" in metadata  # the full trace level reached the servers
    assert b"/job:worker/replica:0/task:1/device:CPU:0" in metadata


def test_layers_that_no_inner_scope_pins_run_on_their_towers(
    tmp_path: Path, tensorflow: Forks
) -> None:
    run = Run.of("towers/pinned.py", tmp_path / "run", tensorflow, "--released")
    assert_clear(run)
    for i in (0, 1):
        requested, around = scopes(run.window, f"tower_{i}/model/Sigmoid")
        assert requested == f"/job:worker/task:{i}"
        assert [device for device, _ in around] == [f"/job:worker/task:{i}"]


def test_towers_of_one_process_that_an_inner_scope_moves(tmp_path: Path, tensorflow: Forks) -> None:
    run = Run.of("towers_sigmoid/faulty.py", tmp_path / "run", tensorflow)
    line = line_of("towers_sigmoid/faulty.py", "with tf.device(PARAMETER_DEVICE):  #")
    assert_moved(run, line, "CPU:1, CPU:2")


def test_towers_of_one_process_that_no_inner_scope_moves(tmp_path: Path, tensorflow: Forks) -> None:
    assert_clear(Run.of("towers_sigmoid/fixed.py", tmp_path / "run", tensorflow))
