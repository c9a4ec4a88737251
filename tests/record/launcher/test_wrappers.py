"""Trainings started by another program: a shell, another run, a separate environment."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from tests.record.launcher.test_crashes import (
    ended,
    explained,
    noted,
    observed,
    script,
    stepwhy_run,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_longer_of_two_trainings_is_explained(tmp_path: Path) -> None:
    path = script(tmp_path, "train(int(sys.argv[1]))")
    words = f"'{sys.executable}' '{path}' 30; '{sys.executable}' '{path}' 300"
    done = ended([*stepwhy_run(tmp_path / "run"), "--", "sh", "-c", words])
    assert (done.code, done.out, done.err) == (0, "trained 30\ntrained 300\n", "")
    result = explained(tmp_path / "run")
    assert result["steps"]["count"] == 300
    assert noted(result, "Other observed processes, to be explained separately:")


def test_a_wrapper_script_is_followed(tmp_path: Path) -> None:
    wrapper = tmp_path / "start.sh"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    path = script(tmp_path, "train(30); sys.exit(6)")
    done = ended([*stepwhy_run(tmp_path / "run"), "--", str(wrapper), str(path)])
    assert (done.code, done.out) == (6, "trained 30\n")
    assert explained(tmp_path / "run")["steps"]["count"] == 30


def test_separate_environment_is_reported(tmp_path: Path) -> None:
    path = script(tmp_path, "train(30)")
    done = ended([*stepwhy_run(tmp_path / "run"), "--", "env", "-i", sys.executable, str(path)])
    assert (done.code, done.out) == (0, "trained 30\n")
    assert "the observer was never loaded" in done.err
    assert "env -i" in done.err


def test_inner_run_has_precedence(tmp_path: Path) -> None:
    path = script(tmp_path, "train(30); sys.exit(6)")
    inner = observed(path, tmp_path / "inner")
    done = ended([*stepwhy_run(tmp_path / "outer"), "--", *inner])
    assert (done.code, done.out) == (6, "trained 30\n")
    assert explained(tmp_path / "inner")["steps"]["count"] == 30
    assert not list((tmp_path / "outer").glob("process-*"))
    assert done.err.count("failed before it trained: exit code 6") == 1


def test_own_customizations_run_as_without_stepwhy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "usercustomize.py").write_text("print('user')\n")
    (tmp_path / "sitecustomize.py").write_text("print('site')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:/nowhere")
    path = script(tmp_path, "print([p for p in sys.path if p in ('/nowhere', sys.argv[1])])")
    alone = ended([sys.executable, str(path), str(tmp_path)])
    done = ended([*observed(path, tmp_path / "run"), str(tmp_path)])
    # The interpreter of stepwhy itself prints its customizations first.
    assert done.out.endswith(alone.out)
    assert alone.out.endswith(f"['{tmp_path}', '{tmp_path}', '/nowhere']\n")


def test_a_training_that_changes_its_directory_is_logged(tmp_path: Path) -> None:
    path = script(tmp_path, "os.chdir('/'); train(30)")
    assert ended(observed(path, tmp_path / "run")).code == 0
    assert explained(tmp_path / "run")["steps"]["count"] == 30


def test_the_exit_code_survives_a_failed_explanation(tmp_path: Path) -> None:
    path = script(
        tmp_path, "train(30)\nif run_dir: os.mkdir(f'{run_dir}/report.html')\nsys.exit(6)"
    )
    command = [word for word in observed(path, tmp_path / "run") if word != "--quiet"]
    done = ended(command)
    assert (done.code, done.out) == (6, "trained 30\n")
    assert "Traceback" not in done.err
    assert "report.html" in done.err


def test_the_page_names_no_folder_above_the_run(tmp_path: Path) -> None:
    path = script(tmp_path, "train(30)")
    command = [word for word in observed(path, tmp_path / "run") if word != "--quiet"]
    assert ended(command).code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "run/process-" in page
    assert str(tmp_path) not in page
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert not any(str(tmp_path) in word for word in about["command"])
