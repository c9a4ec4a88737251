"""The command `stepwhy placement`."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from stepwhy.engine.explain import read_placement
from tests.answers.test_placement import DRAWING, placement
from tests.engine.test_explain import kineto

FIXED = DRAWING.replace("| Conv3D     | GPU:0 | CPU:0", "| Conv3D | GPU:0 | GPU:0")


@pytest.fixture(autouse=True)
def runs(monkeypatch):
    tables = {"faulty": placement(), "fixed": placement(FIXED)}
    monkeypatch.setattr(
        sys.modules["stepwhy.engine.explain"],
        "read_placement",
        lambda name, progress, **options: (
            tables.get(name) or read_placement(name, progress, **options)
        ),
    )


def invoke(*args):
    return CliRunner().invoke(cli, ["placement", *map(str, args)])


def test_default_output_lists_scopes_and_misplaced_operations():
    outcome = invoke("faulty")
    assert outcome.exit_code == 0
    assert "5 of 6 operations ran on 2 devices, 2 not on the requested" in outcome.stdout
    assert "requested GPU:0, ran on CPU:0: 1 (not on the requested device)" in outcome.stdout
    assert "net/Conv3D  2 copies, 2.00 MiB  a.py(5)" in outcome.stdout
    assert "weights" not in outcome.stdout


def test_filter_lists_every_matching_operation():
    stdout = invoke("faulty", "--device", "CPU:0").stdout
    assert all(name in stdout for name in ("net/Conv3D", "net/in/Relu", "weights"))
    assert "net/MatMul" not in stdout
    assert "No operation matches." in invoke("faulty", "--scope", "none").stdout


def test_two_runs_list_what_differs():
    stdout = invoke("faulty", "fixed").stdout
    assert "1 differ, 5 are the same" in stdout
    assert "CPU:0 -> GPU:0: 1" in stdout
    assert "net/MatMul" not in stdout


def test_json_has_every_operation():
    result = json.loads(invoke("faulty", "--json").stdout)
    assert result["schema"] == "stepwhy.placement/1"
    assert len(result["placement"]["ops"]) == 6
    assert result["difference"] is None
    changed = json.loads(invoke("faulty", "fixed", "--json").stdout)
    assert [c["name"] for c in changed["difference"]["changes"]] == ["net/Conv3D"]


def test_three_runs_are_wrong_usage():
    assert invoke("faulty", "fixed", "fixed").exit_code == 2


def test_a_trace_without_placement_is_one_line(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(kineto())
    outcome = invoke(path)
    assert outcome.exit_code == 3
    assert "[no-placement]" in outcome.stderr
