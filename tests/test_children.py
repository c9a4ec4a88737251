"""Processes that stepwhy starts for itself run nothing that lies in the current folder."""

import ast
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import stepwhy
from stepwhy.base import children
from stepwhy.base.columns import compiled

# One worker reads the code for all tests.
pytestmark = pytest.mark.xdist_group("sources")
SOURCES = Path(stepwhy.__file__).parent
PACKAGES = str(SOURCES.parent)

# Names of functions that start a process, wherever they are imported from.
STARTS = {
    *("Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
    *("system", "popen", "posix_spawn", "posix_spawnp", "fork", "forkpty", "startfile"),
    *("create_subprocess_exec", "create_subprocess_shell", "ProcessPoolExecutor"),
    *(f"{kind}{way}" for kind in ("exec", "spawn") for way in ("l", "le", "lp", "lpe")),
    *(f"{kind}{way}" for kind in ("exec", "spawn") for way in ("v", "ve", "vp", "vpe")),
}
MODULES = {"subprocess", "os", "pty", "asyncio", "concurrent"}
# What the user asked for: the training command, the interpreter that it would start, and what a
# test measures, in the environment of that test. A fork starts no program.
OF_THE_USER = {
    ("record/launcher/launch.py", "subprocess.Popen"),
    ("record/launcher/proxy.py", "os.execvpe"),
    ("record/launcher/group_signals.py", "os.fork"),
    ("record/checks/interpreter.py", "subprocess.Popen"),
    ("testing/checks.py", "subprocess.run"),
}
OWN = {("base/children.py", "subprocess.Popen"), ("base/children.py", "subprocess.run")}
# `sys.executable` in a command that the user asked for; to find what is installed beside it; and
# isolated (`-I`), to start that.
INTERPRETER = {
    *(
        "record/launcher/command.py",
        "record/checks/target.py",
        "record/sampling/py_spy.py",
        "base/children.py",
        "base/optional.py",
    ),
    *(
        "cli/lab_pairs.py",
        "cli/lab_world.py",
        "cli/trial_runs.py",
        "base/columns/compile.py",
        "base/columns/compiled.py",
    ),
    *("testing/checks.py", "testing/plugin.py"),
}


@cache
def nodes():
    """Places and nodes of the syntax trees of all modules."""
    return [
        (path.relative_to(SOURCES).as_posix(), node)
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute)
    ]


def imported_starts(node):
    """Names in 'from subprocess import ...' that start a process."""
    if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] not in MODULES:
        return set()
    return {f"{node.module}.{alias.name}" for alias in node.names if alias.name in STARTS}


def called_start(node):
    """Such a function as an attribute: 'subprocess.run'."""
    if not isinstance(node, ast.Attribute) or node.attr not in STARTS:
        return set()
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    return {f"{owner}.{node.attr}"} if owner in MODULES else set()


def test_only_one_module_starts_processes_of_our_own():
    found = {
        (path, name)
        for path, node in nodes()
        for name in imported_starts(node) | called_start(node)
    }
    # Annotations name the class of a process that somebody else started.
    annotated = {
        "apps/agents/child.py",
        "record/launcher/child.py",
        "record/sampling/helper.py",
        "record/sampling/periods.py",
        "record/sampling/py_spy.py",
    }
    assert {one for one in found if one[0] not in annotated} == OF_THE_USER | OWN


@pytest.mark.parametrize(
    "path",
    [
        "apps/agents/child.py",
        "record/launcher/child.py",
        "record/sampling/helper.py",
        "record/sampling/periods.py",
        "record/sampling/py_spy.py",
    ],
)
def test_where_a_process_is_only_named_none_is_started(path):
    calls = [
        n for n in ast.walk(ast.parse((SOURCES / path).read_bytes())) if isinstance(n, ast.Call)
    ]
    assert not any(called_start(call.func) for call in calls)


def test_there_is_no_other_way_to_another_process():
    ways = {"multiprocessing", "pty", "pexpect", "webbrowser", "concurrent.futures.process"}
    found = {(path, name) for path, node in nodes() for name in imported(node)}
    # To observe the processes that a training starts.
    assert {one for one in found if one[1] in ways} == {
        ("record/core/process/workers.py", "multiprocessing")
    }


def imported(node):
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    return {node.module} if isinstance(node, ast.ImportFrom) else set()


def test_modules_that_start_processes_keep_their_names():
    """The tests above go by them."""
    renamed = {
        alias.name
        for _, node in nodes()
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname
    }
    assert not renamed & MODULES


def test_no_other_module_names_the_interpreter():
    found = {
        path
        for path, node in nodes()
        if isinstance(node, ast.Attribute) and node.attr == "executable"
    }
    assert found == INTERPRETER


def test_programs_are_looked_up_by_one_function():
    found = {
        path
        for path, node in nodes()
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "shutil.which"
    }
    # The second looks for what the user's command starts, as the system will.
    assert found == {"base/children.py", "record/checks/target.py"}


# --- the environment ---


@pytest.fixture
def environment(monkeypatch):
    """The environment of a child when these variables are set, and no others."""

    def made(**variables):
        monkeypatch.setattr(os, "environ", variables)
        return children.environment()

    return made


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH"])
@pytest.mark.parametrize("value", ["", ".", ":", "::.:", "lib", "./lib:../lib", "~/lib", "$ORIGIN"])
def test_relative_entries_of_search_paths_are_left_out(environment, name, value):
    assert environment(**{name: value}).get(name) is None
    assert environment(**{name: f"/a:{value}:/b"})[name] == "/a:/b"


@pytest.mark.parametrize(
    "name", ["HOME", "TMPDIR", "XDG_CACHE_HOME", "PYTHONHOME", "PYTHONPYCACHEPREFIX"]
)
def test_relative_folders_are_left_out(environment, name):
    assert name not in environment(**{name: "here"})
    assert environment(**{name: "/there"})[name] == "/there"


def test_preloaded_libraries_are_absolute_or_searched_for(environment):
    given = "./a.so libjemalloc.so:/usr/lib/b.so here/c.so"
    assert environment(LD_PRELOAD=given)["LD_PRELOAD"] == "libjemalloc.so /usr/lib/b.so"


def test_a_child_gets_what_it_needs_and_nothing_else(environment):
    needed = {
        "HOME": "/home/a",
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "STEPWHY_CACHE": "/cache",
        "STEPWHY_NATIVE": "1",
        "TERM": "xterm",
        "PYTHONNOUSERSITE": "1",
    }
    others = {
        "AWS_SECRET_ACCESS_KEY": "x",
        "BASH_ENV": "./rc",
        "NUMBA_CACHE_DIR": "here",
        "PYTHONSTARTUP": "here.py",
        "PYTHONWARNINGS": "error::here.Warning",
        "PYTHONBREAKPOINT": "here.stop",
        "GCC_EXEC_PREFIX": "./",
        "LD_AUDIT": "./here.so",
        "STEPWHY_RUN_DIR": "/run",
        "STEPWHY_SAMPLER": "1",
    }
    found = environment(**needed, **others)
    found.pop("PYTHONPATH", None)
    assert found == needed


def test_a_child_finds_this_stepwhy(environment, monkeypatch):
    monkeypatch.setattr(children, "_is_installed", lambda: False)
    assert environment(PYTHONPATH=".:/theirs")["PYTHONPATH"] == PACKAGES
    assert environment()["PYTHONPATH"] == PACKAGES


def test_the_python_path_is_passed_on_only_where_stepwhy_needs_it(
    environment, monkeypatch, tmp_path
):
    old, needed = tmp_path / "old", tmp_path / "needed"
    for name in ("old/click", "old/platform", "needed/msgspec", "needed/platform"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
    monkeypatch.setattr(children, "_is_installed", lambda: True)
    path = f"{old}:.::{needed}:{needed}"
    assert "PYTHONPATH" not in environment(PYTHONPATH=path)
    monkeypatch.setattr(sys, "path", [str(old), str(needed)])
    monkeypatch.setattr(children, "_NEEDED", ("msgspec",))
    assert environment(PYTHONPATH=path)["PYTHONPATH"] == str(needed)


def test_a_folder_of_installed_packages_does_not_hide_the_standard_library(monkeypatch):
    monkeypatch.setattr("site.getsitepackages", lambda: [PACKAGES])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert "PYTHONPATH" not in children.environment()


def test_an_unknown_interpreter_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "executable", None)
    with pytest.raises(OSError, match="interpreter is unknown"):
        children.module_command("stepwhy")


def test_programs_are_not_found_in_the_current_folder(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "stepwhy-cc"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(program.parent)
    for path in ("", ".", ":/usr/bin", "../bin"):
        monkeypatch.setenv("PATH", path)
        assert children.find_program(program.name) is None
    monkeypatch.setenv("PATH", f".:{program.parent}")
    assert children.find_program(program.name) == str(program)


# --- what is planted in the current folder does not run ---

PLANTED = (
    *("numba", "llvmlite", "json", "tempfile", "numpy", "msgspec", "rich", "pyarrow"),
    *("sitecustomize", "usercustomize", "stepwhy", "click", "jinja2"),
)


@pytest.fixture
def hostile(tmp_path):
    """A folder of a trace, and modules and programs that leave a mark when they run."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in PLANTED:
        (folder / name).mkdir()
        mark = f"open({str(tmp_path)!r} + '/ran-{name}', 'w')\n"
        (folder / name / "__init__.py").write_text(mark)
        (folder / f"{name}.py").write_text(mark)
    for name in ("cc", "gcc", "clang", "ld", "py-spy"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{name}\nexit 1\n")
        (folder / name).chmod(0o755)
    (folder / ".numba_config.yaml").write_text("disable_jit: 1\n")
    args = {"device": 0, "stream": 7}
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": "k",
            "pid": 0,
            "tid": 7,
            "ts": n,
            "dur": 1,
            "args": args,
        }
        for n in range(50)
    ]
    trace = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}
    (folder / "trace.json").write_text(json.dumps(trace))
    return folder


def remove(folder, *names):
    for name in names:
        (folder / f"{name}.py").unlink()
        shutil.rmtree(folder / name)


def ran(folder):
    return sorted(path.name for path in folder.parent.glob("ran-*"))


def start(hostile, command, path=None, **variables):
    """Run a command in the hostile folder, which is first on `PATH`, too."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env = {**kept, "PATH": f".:{kept['PATH']}", **variables}
    env |= {} if path is None else {"PYTHONPATH": path}
    return subprocess.run(
        command,
        cwd=hostile,
        env=env,
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )


COMMANDS = {
    "explain": ["explain", "trace.json", "--json"],
    "ops": ["ops", "trace.json"],
    "export": ["export", "trace.json", "--to", "perfetto", "--out", "../exported"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("path", [None, ""])
@pytest.mark.parametrize("script", [True, False])
def test_commands_import_nothing_from_the_current_folder(hostile, command, path, script):
    words = [sys.executable, Path(sys.executable).with_name("stepwhy")]
    if not script:
        remove(hostile, "stepwhy")  # with -m, Python itself looks here first
        words = [sys.executable, "-m", "stepwhy"]
    done = start(hostile, [*words, *COMMANDS[command]], path)
    assert (done.returncode, ran(hostile)) == (0, []), done.stderr


def test_relative_entries_of_the_python_path_are_not_used_for_long(hostile):
    program = (
        "import sys; sys.path.insert(0, sys.path.pop(sys.path.index(sys.argv[1])));"
        "from stepwhy.base.children import ignore_relative_path; ignore_relative_path();"
        "assert sys.argv[1] not in sys.path; import json, numba"
    )
    remove(hostile, "sitecustomize", "usercustomize", "stepwhy")  # Python's own start
    done = start(hostile, [sys.executable, "-P", "-c", program, str(hostile)], ".")
    assert (done.returncode, ran(hostile)) == (0, []), done.stderr


PROBE = (
    "import json, llvmlite, numba, numpy, tempfile; import stepwhy.base.columns.compile; print(7)"
)


@pytest.mark.parametrize("path", [None, "", ".", f":{PACKAGES}:"])
def test_the_background_compiler_imports_nothing_from_the_current_folder(
    hostile, monkeypatch, path
):
    """With a program in the place of the compilation, which takes 20 s."""
    popen, seen = subprocess.Popen, []

    def start(command, **options):
        probe = [*command[: command.index("-m")], "-c", PROBE]
        process = popen(probe, **options | {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE})
        seen.extend((*process.communicate(), process.returncode))
        return process

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.chdir(hostile)
    compiled._start_compiler()
    output, errors, status = seen
    assert (status, ran(hostile)) == (0, []), errors
    assert output.decode().strip() == "7"


COMPILATION = "import numba; print(numba.njit('i8(i8)')(lambda x: x + 1)(6))"
COMPILER = f"""
import sys
import stepwhy.base.columns.compile as compiler
whole = compiler.children.module_command
def tiny(*words):
    command = whole(*words)
    return [*command[: command.index("-m")], "-c", {COMPILATION!r}]
compiler.children.module_command = tiny
sys.exit(compiler._main([]))
"""


def test_the_compiler_runs_nothing_of_the_current_folder(hostile):
    """With one small function in the place of all kernels, which take 20 s."""
    remove(hostile, "stepwhy", "tempfile")  # Python's own start: use -P where a stranger may write
    done = start(hostile, [sys.executable, "-c", COMPILER])
    assert (done.returncode, ran(hostile)) == (0, []), done.stderr
    assert done.stdout.strip() == "7"
