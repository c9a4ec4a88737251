"""The `stepwhy` command starts, and the training with it, whatever `PYTHONPATH` names."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import _stepwhy_command
from _stepwhy_command import command_of
from stepwhy.cli.run import run

ROOT = Path(__file__).parents[1]
# What pip writes for an entry point.
SCRIPT = """\
import sys
from {module} import {function}
if __name__ == '__main__':
    sys.exit({function}())
"""
BROKEN = "raise RuntimeError('of the user')\n"
# Modules of Python and packages that stepwhy needs.
NAMES = (
    *("click", "platform", "json", "random", "typing", "dataclasses", "contextlib", "pathlib"),
    *("rich", "numpy", "msgspec", "jinja2", "numba", "signal", "subprocess", "stepwhy"),
)
TRAINING = """\
import os, sys
last = os.environ.get("PYTHONPATH", "none").split(os.pathsep)[-1]
print("bootstrap" if last.endswith("bootstrap") else last)
print([os.path.basename(entry) for entry in sys.path[:2]], file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture
def script(tmp_path):
    """The script of the command."""
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["stepwhy"]
    module, _, function = entry.partition(":")
    path = tmp_path / "bin" / "stepwhy"
    path.parent.mkdir()
    path.write_text(SCRIPT.format(module=module, function=function))
    return path


def modules(folder, *names, text=BROKEN):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.py").write_text(text)
    return folder


def started(script, tmp_path, *words, path=None, cwd=None, **variables):
    environment = {**os.environ, **variables}
    environment.pop("PYTHONPATH", None)
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, script, *map(str, words)]
    return subprocess.run(
        command,
        cwd=cwd or tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.fixture
def training(tmp_path):
    path = tmp_path / "job" / "train.py"
    path.parent.mkdir()
    path.write_text(TRAINING)
    return path


def observed(tmp_path):
    return (tmp_path / "run" / "run.json").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_module_on_the_python_path_keeps_no_job_from_starting(
    script, training, tmp_path, name
):
    theirs = modules(tmp_path / "theirs", name)
    done = started(script, tmp_path, "run", "--out", "run", training, path=theirs)
    assert (done.returncode, done.stdout) == (7, f"{theirs}\n"), done.stderr
    assert "['job', 'theirs']" in done.stderr
    assert "of the user" not in done.stderr
    assert observed(tmp_path)


def test_all_of_them_together_do_not_either(script, training, tmp_path):
    theirs = modules(tmp_path / "theirs", *NAMES)
    path = f"{theirs}:{tmp_path / 'nowhere'}:{theirs}/"
    done = started(script, tmp_path, "run", "--out", "run", training, path=path)
    assert (done.returncode, done.stdout) == (7, f"{theirs}/\n"), done.stderr
    assert observed(tmp_path)


@pytest.mark.parametrize("folder", ["job", "cwd"])
def test_nor_do_those_beside_the_script_or_in_the_current_folder(
    script, training, tmp_path, folder
):
    theirs = modules(tmp_path / folder, *NAMES)
    cwd = tmp_path if folder == "job" else theirs
    done = started(script, tmp_path, "run", "--out", tmp_path / "run", training, cwd=cwd)
    assert (done.returncode, done.stdout) == (7, "bootstrap\n"), done.stderr
    assert observed(tmp_path)


def test_other_commands_ignore_it_as_well(script, tmp_path):
    theirs = modules(tmp_path / "theirs", *NAMES)
    done = started(script, tmp_path, "explain", "nothing", path=theirs)
    assert (done.returncode, "[input-not-found]" in done.stderr) == (3, True), done.stderr


def test_a_module_that_python_loaded_before_is_not_used(script, training, tmp_path):
    """A `sitecustomize` of the user's that imports a module of the user's."""
    theirs = modules(tmp_path / "theirs", "random", "click", text="")
    (theirs / "sitecustomize.py").write_text("import random, click\n")
    done = started(script, tmp_path, "run", "--out", "run", training, path=theirs)
    assert (done.returncode, done.stdout) == (7, f"{theirs}\n"), done.stderr
    assert observed(tmp_path)


def test_a_broken_sitecustomize_is_that_of_the_job_alone(script, training, tmp_path):
    theirs = modules(tmp_path / "theirs", "sitecustomize")
    done = started(script, tmp_path, "run", "--out", "run", training, path=theirs)
    assert (done.returncode, done.stdout) == (7, f"{theirs}\n"), done.stderr
    assert observed(tmp_path)


def test_a_package_that_only_the_python_path_has_is_used(tmp_path):
    theirs = modules(tmp_path / "theirs", "only_here", "platform", text="MINE = 1\n")
    program = (
        f"import sys; sys.path.insert(0, ''); sys.path.append({str(ROOT / 'src')!r});"
        "import _stepwhy_command; _stepwhy_command.own_packages_first();"
        "import only_here, platform; print(hasattr(platform, 'MINE'), only_here.MINE)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(theirs)},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert done.stdout == "False 1\n"


@pytest.mark.parametrize("broken", ["stepwhy.cli", "stepwhy.record.launcher.proxy", "click"])
@pytest.mark.parametrize("dashes", [True, False])
def test_whatever_fails_before_the_job_the_job_runs_unobserved(tmp_path, training, broken, dashes):
    program = (
        f"import sys; sys.modules[{broken!r}] = None; sys.argv[0] = 'stepwhy';"
        "from _stepwhy_command import main; main()"
    )
    command = ["--", sys.executable, str(training)] if dashes else [str(training)]
    words = ["run", "--quiet", "--out", str(tmp_path / "run"), *command]
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stdout) == (7, "none\n"), done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("stepwhy: ")]
    assert len(said) == 1
    assert said[0].endswith("The command runs unobserved, and nothing is recorded.")
    assert not observed(tmp_path)


def test_a_failure_of_the_launcher_does_not_keep_the_job_from_starting(tmp_path, training):
    program = (
        "import sys; from stepwhy.record.launcher import launch;"
        "launch.environment = lambda *_: 1 / 0; sys.argv[0] = 'stepwhy';"
        "from _stepwhy_command import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "run", "--out", str(tmp_path / "run"), training],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 7, done.stderr
    assert "stepwhy: ZeroDivisionError" in done.stderr
    assert "runs unobserved" in done.stderr


def test_in_a_deleted_folder_the_job_runs_as_alone(script, training, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    shell = f"cd {gone}; rmdir {gone}; PYTHONPATH={tmp_path} exec {sys.executable} "
    done = subprocess.run(
        ["sh", "-c", f"{shell} {script} run {training}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 7, done.stderr
    assert "runs unobserved" in done.stderr


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["run", "t.py", "--out", "x"], [sys.executable, "t.py", "--out", "x"]),
        (["run", "--quiet", "--out", "x", "t.py"], [sys.executable, "t.py"]),
        (["run", "--out=x", "--", "sh", "-c", "--"], ["sh", "-c", "--"]),
        (["run", "--metrics-port", "1", "--odd"], [sys.executable, "--odd"]),
        (["run", "--help"], []),
        (["run", "--out"], []),
        (["run"], []),
        (["explain", "x"], []),
        ([], []),
    ],
)
def test_the_command_is_found_without_the_parser(words, command):
    assert command_of(words) == command


def test_options_are_those_of_the_parser():
    options = [option for option in run.params if option.param_type_name == "option"]
    flags = {name for option in options if option.is_flag for name in option.opts}
    values = {name for option in options if not option.is_flag for name in option.opts}
    assert flags - {"--help", "-h"} == _stepwhy_command.FLAGS
    assert values == _stepwhy_command.VALUE_OPTIONS
