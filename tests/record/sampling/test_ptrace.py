"""Only the sampler may read the memory of an observed process."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from stepwhy.record import SAMPLER_VARIABLE
from stepwhy.record.launcher import run_directory
from stepwhy.record.sampling import ptrace
from stepwhy.record.sampling.stacks import find_py_spy


@pytest.fixture
def named(monkeypatch):
    """Process ids that were named to the kernel, in order."""
    pids = []

    def prctl(option, pid, *rest):
        assert (option, rest) == (0x59616D61, (0, 0, 0))
        pids.append(pid.value)
        return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(prctl=prctl))
    ptrace._prctl.cache_clear()
    yield pids
    ptrace._prctl.cache_clear()


@pytest.mark.parametrize(("text", "scope"), [("1\n", 1), ("0\n", 0), ("", 0), (None, 0)])
def test_scope_of_the_kernel(tmp_path, text, scope):
    path = tmp_path / "ptrace_scope"
    if text is not None:
        path.write_text(text)
    assert ptrace.scope(path) == scope


def test_the_sampler_of_the_run_is_named(named, monkeypatch):
    monkeypatch.setenv(SAMPLER_VARIABLE, "4242")
    ptrace.allow_sampler()
    assert named == [4242]


@pytest.mark.parametrize("value", [None, "", "nobody"])
def test_no_process_is_named_without_a_sampler(named, monkeypatch, value):
    monkeypatch.delenv(SAMPLER_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(SAMPLER_VARIABLE, value)
    ptrace.allow_sampler()
    assert named == []


def test_a_system_without_such_a_call_is_no_error(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    ptrace._prctl.cache_clear()
    ptrace.allow_reading(1)
    assert ptrace._prctl() is None
    ptrace._prctl.cache_clear()


@pytest.mark.parametrize(("scope", "is_named"), [(0, False), (1, True), (2, False), (3, False)])
def test_environment_names_the_sampler_only_if_needed(tmp_path, monkeypatch, scope, is_named):
    monkeypatch.delenv(SAMPLER_VARIABLE, raising=False)
    monkeypatch.setattr(ptrace, "scope", lambda: scope)
    environment = run_directory.environment(tmp_path, 4242)
    assert (environment.get(SAMPLER_VARIABLE) == "4242") == is_named
    assert SAMPLER_VARIABLE not in run_directory.environment(tmp_path)


FORKS = """
import ctypes, json, os, types
named = []
ctypes.CDLL = lambda _: types.SimpleNamespace(prctl=lambda _, pid, *rest: named.append(pid.value))
from stepwhy.record.sampling import ptrace
ptrace.allow_sampler(), ptrace.allow_sampler()
named.clear()
ctypes.CDLL = None  # nothing is loaded in a fork
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, json.dumps(named).encode())
    os._exit(0)
os.wait()
print(os.read(read, 99).decode())
"""


def test_a_fork_names_it_again_once():
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        env={**os.environ, SAMPLER_VARIABLE: "4242"},
        capture_output=True,
        check=True,
        timeout=240,
    )
    assert json.loads(done.stdout) == [4242]


OBSERVED = """
from stepwhy.record.sampling import ptrace
ptrace.allow_sampler()
print("ready", flush=True)
input()
"""


@pytest.mark.skipif(
    ptrace.scope() != ptrace.ANCESTORS_ONLY or os.geteuid() == 0,
    reason="the kernel does not restrict this user to descendants",
)
@pytest.mark.parametrize("looker", [0, os.getpid()], ids=["nobody", "this process"])
def test_named_process_may_read_the_memory(looker):
    with subprocess.Popen(
        [sys.executable, "-c", OBSERVED],
        env={**os.environ, SAMPLER_VARIABLE: str(looker)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout.readline() == b"ready\n"
        seen = subprocess.run(
            [find_py_spy(), "dump", "--nonblocking", "--pid", str(child.pid)],
            capture_output=True,
            check=False,
            timeout=240,
        )
        child.communicate(b"\n")
    assert (seen.returncode == 0) == bool(looker)
