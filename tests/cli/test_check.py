"""The command `stepwhy check`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from stepwhy.record import checks
from stepwhy.record.checks import Item, Report

OK = Item("attach", "ok", "observer loaded", "it can be observed", need="must")
LOOP = Item("pytorch-loops", "ok", "PyTorch 9.8", "loops are observed", need="any")
LIMITED = Item("load", "limited", "3 threads compete for 2 cores", "noisy", "Wait a little")
MISSING = Item("gpu", "missing", "no device", "nothing to see", "Pass it in")
CONFLICT = Item("other-profilers", "conflict", "Nsight Systems", "one at a time", "End it")


def invoke(*args):
    return CliRunner().invoke(cli, ["check", *map(str, args)])


@pytest.fixture
def found(monkeypatch):
    """Plants the items that checks find, and returns the list of their arguments."""

    def plant(*items):
        calls = []

        def check(command, out_dir):
            calls.append((list(command), out_dir))
            return Report(tuple(command), items)

        monkeypatch.setattr(checks, "check", check)
        return calls

    return plant


def test_each_state_has_its_group_and_next_action(found):
    found(OK, LOOP, LIMITED, MISSING)
    outcome = invoke()
    assert outcome.exit_code == 0
    assert outcome.stdout == (
        "\n"
        "■ A training can be observed here.\n"
        "\n"
        "Can be observed\n"
        "  attach         observer loaded · it can be observed\n"
        "  pytorch-loops  PyTorch 9.8 · loops are observed\n"
        "\n"
        "Limited\n"
        "  load           3 threads compete for 2 cores · noisy\n"
        "                 Wait a little\n"
        "\n"
        "Missing\n"
        "  gpu            no device · nothing to see\n"
        "                 Pass it in\n"
        "\n"
    )


def test_conflict_is_in_the_first_sentence(found):
    found(OK, LOOP, CONFLICT)
    outcome = invoke()
    assert outcome.exit_code == 0
    assert "\n■ A training can be observed here, but something is in the way.\n" in outcome.stdout
    assert "\nIn the way\n  other-profilers  Nsight Systems" in outcome.stdout


def test_unknown_state_is_not_promised(found):
    found(replace(OK, state="limited"), LOOP)
    outcome = invoke()
    assert outcome.exit_code == 0
    sentence = "\n■ Whether it can be observed is unknown until it runs.\n"
    assert sentence in outcome.stdout


def test_exit_code_1_when_no_training_could_be_observed(found):
    found(OK, replace(LOOP, state="missing", found="PyTorch not installed"), MISSING)
    outcome = invoke()
    assert outcome.exit_code == 1
    sentence = "\n■ No training can be observed here: PyTorch not installed.\n"
    assert sentence in outcome.stdout
    assert invoke("--json").exit_code == 1


def test_json_is_one_object(found):
    found(OK, LOOP, LIMITED)
    outcome = invoke("--json")
    report = json.loads(outcome.stdout)
    assert report["schema"] == "stepwhy.check/1"
    assert report["observable"] is True
    assert report["items"][2] == {
        "name": "load",
        "state": "limited",
        "found": "3 threads compete for 2 cores",
        "meaning": "noisy",
        "todo": "Wait a little",
        "need": "none",
    }


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ([], []),
        (["train.py", "--json", "-x"], [sys.executable, "train.py", "--json", "-x"]),
        (["--", "torchrun", "train.py"], ["torchrun", "train.py"]),
        (["--json", "--out", "runs", "--", "python", "-I"], ["python", "-I"]),
    ],
)
def test_command_is_parsed_as_by_run(found, arguments, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    calls = found(OK, LOOP)
    invoke(*arguments)
    assert calls[0][0] == command


# --- Without fakes ---


def run(*arguments, cwd, **environ):
    return subprocess.run(
        [sys.executable, "-m", "stepwhy", "check", *arguments],
        env={**os.environ, **environ},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_an_isolated_python_cannot_be_observed(tmp_path):
    done = run("--", sys.executable, "-I", "-c", "pass", cwd=tmp_path)
    assert done.returncode == 1
    assert "Python is started with -I (isolated)" in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_values_of_the_environment_are_not_shown(tmp_path):
    environ = {"CUDA_INJECTION64_PATH": "/secret/tool.so", "API_TOKEN": "sesame"}
    done = run(cwd=tmp_path, **environ)
    assert "CUDA_INJECTION64_PATH" in done.stdout
    assert "secret" not in done.stdout
    assert "sesame" not in done.stdout


def test_output_is_ascii_without_unicode(tmp_path):
    done = run(cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.stdout.isascii()
    assert "\n# " in done.stdout
    assert "?" not in done.stdout


def test_no_framework_is_imported(tmp_path):
    code = (
        "import sys\nfrom stepwhy.record.checks import check\ncheck()\n"
        "print({'torch', 'tensorflow', 'keras', 'jax', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert done.stdout == "set()\n"
