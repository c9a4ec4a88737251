"""Programs with modules that are named as stepwhy's, or as those that it imports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stepwhy
from stepwhy.record.attach import OBSERVERS_NEED
from stepwhy.record.core.registry import ATTACHED_FILE

SOURCES = Path(stepwhy.__file__).parent
# Modules of Python that observers import sooner or later.
STANDARD = ("warnings", "json", "random", "platform", "typing", "types", "threading", "importlib_")
MAIN = "from _stepwhy_command import main; main()"
PROGRAM = """\
import os, sys
for name in sys.argv[1:]:
    try:
        module = __import__(name)
        print(name, os.path.relpath(module.__file__), module.__dict__.get("MINE"))
    except ImportError as error:
        print(error)
print(sorted(n for n in sys.modules if n in {"warnings", "json", "typing", "threading"}))
print(sys.path)
run_dir = os.environ.get("STEPWHY_RUN_DIR")
if run_dir:
    from stepwhy.record import attach
    def instrument():
        global Recorder
        from stepwhy.record.core.recorder import Recorder
    attach.under_own_name(instrument)
    recorder = Recorder(run_dir, "pytorch", "2.0", "torch-optimizer")
    for n in range(40):
        times = f'"start_ns":{n * 1000},"end_ns":{n * 1000 + 900}'
        recorder.step(f'{{"kind":"step",{times},"profiled":0}}')
sys.exit(7)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def write(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.py").write_text("MINE = 1\n")
    return folder


def ended(command, tmp_path, path=None):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {} if path is None else {"PYTHONPATH": str(path)}
    return subprocess.run(
        [*map(str, command)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def both(command, tmp_path, path=None):
    """The command alone and observed, which must print the same."""
    alone = ended(command, tmp_path, path)
    run = [sys.executable, "-P", "-c", MAIN, "run", "--quiet", "--out", tmp_path / "run", "--"]
    watched = ended([*run, *command], tmp_path, path)
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout), watched.stderr
    assert alone.returncode == 7
    return watched


def logged(tmp_path):
    return [log.stat().st_size > 0 for log in (tmp_path / "run").glob("process-*/steps.jsonl")]


@pytest.mark.parametrize("where", ["script", "PYTHONPATH"])
def test_a_program_imports_its_own_stepwhy_and_is_observed(program, tmp_path, where):
    folder = write(tmp_path if where == "script" else tmp_path / "theirs", "stepwhy")
    path = None if where == "script" else folder
    watched = both([sys.executable, program, "stepwhy"], tmp_path, path)
    assert watched.stdout.splitlines()[0].endswith("stepwhy.py 1")
    assert logged(tmp_path) == [True]


@pytest.mark.parametrize("start", [["-m", "train"], ["-c", PROGRAM], ["."]])
def test_however_it_is_started(tmp_path, start):
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "__main__.py").write_text(PROGRAM)
    write(tmp_path, "stepwhy")
    watched = both([sys.executable, *start, "stepwhy"], tmp_path)
    assert "stepwhy.py 1" in watched.stdout
    assert logged(tmp_path) == [True]


def test_a_package_named_stepwhy_is_not_mixed_with_ours(program, tmp_path):
    (tmp_path / "stepwhy").mkdir()
    (tmp_path / "stepwhy" / "__init__.py").write_text("MINE = 2\n")
    program.write_text(PROGRAM.replace("if run_dir", "if False"))
    watched = both([sys.executable, program, "stepwhy", "stepwhy.base.errors"], tmp_path)
    assert "stepwhy/__init__.py 2" in watched.stdout
    assert "a package of its own that is named 'stepwhy'" in watched.stderr


def test_our_own_package_is_found_in_a_job_without_it(program, tmp_path):
    both([sys.executable, program], tmp_path)
    assert logged(tmp_path) == [True]


@pytest.mark.parametrize("where", ["script", "PYTHONPATH"])
def test_a_program_imports_its_own_modules_as_alone(program, tmp_path, where):
    folder = write(tmp_path if where == "script" else tmp_path / "theirs", *STANDARD)
    path = None if where == "script" else folder
    program.write_text(PROGRAM.replace("if run_dir", "if False"))
    both([sys.executable, program, *STANDARD], tmp_path, path)


def test_an_observer_that_cannot_be_loaded_says_so_once(program, tmp_path):
    """In a copy of the package in which a module is missing."""
    program.write_text("import sys; sys.exit(7)")
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / ATTACHED_FILE).touch()
    package = tmp_path / "copy" / "stepwhy"
    bootstrap = package / "record" / "bootstrap"
    bootstrap.mkdir(parents=True)
    for name in ("__init__.py", "record/__init__.py"):
        (package / name).touch()
    for name in ("sitecustomize.py", "stepwhy_bootstrap.py"):
        (bootstrap / name).write_bytes((SOURCES / "record" / "bootstrap" / name).read_bytes())
    done = subprocess.run(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": str(bootstrap), "STEPWHY_RUN_DIR": str(run_dir)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (7, "")
    failed = (run_dir / ATTACHED_FILE).read_text()
    assert failed.endswith(',"failed":"ImportError of stepwhy.record"}\n')


def test_what_observers_import_is_loaded_with_them():
    """They cannot import more of stepwhy once the program has a module of that name."""
    loaded = {part for name in OBSERVERS_NEED for part in (name, name.rpartition(".")[0])}
    of_launcher = ("launcher", "checks", "live", "bootstrap", "sampling")
    for path in (SOURCES / "record").rglob("*.py"):
        if path.relative_to(SOURCES / "record").parts[0] in of_launcher:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stepwhy"):
                assert node.module != "stepwhy", path
                assert node.module.startswith("stepwhy.record") or node.module in loaded, path


@pytest.mark.framework
def test_a_broken_module_of_that_name_is_not_imported(tmp_path):
    """Not even by observers that are loaded with a framework."""
    pytest.importorskip("torch")
    (tmp_path / "stepwhy.py").write_text("raise RuntimeError('of the user')\n")
    path = tmp_path / "train.py"
    path.write_text(
        "import sys, torch\n"
        "model = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(30):\n"
        "    model(torch.ones(2, 4)).sum().backward()\n"
        "    optimizer.step()\n"
        "sys.exit(7)\n"
    )
    watched = both([sys.executable, path], tmp_path)
    assert "of the user" not in watched.stderr
    assert logged(tmp_path) == [True]
