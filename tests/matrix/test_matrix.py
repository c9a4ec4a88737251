"""Real small programs, each run without and with `stepwhy run`.

Standard output and the exit code must be the same; only the last digits of numbers may differ. Of
standard error, two kinds of lines are left out: those of the frameworks' C++ loggers, which hold
the time and the process, and Python's warning of a semaphore that is no longer there. Everything
else must be the same, but for the message that the catalogue names.

Counts are exact. The log holds as many lines as the catalogue says, light steps included; what is
explained counts the steps that the log shows, less those that a profiler watched.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.forks import IMPORTED, Forks, printed, streams_to
from tests.matrix.catalogue import PROGRAMS, Program

from stepwhy.cli import cli
from stepwhy.result.contradictions import contradictions
from stepwhy.result.result import CATEGORIES, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = pytest.mark.framework

_FOLDER = Path(__file__).parent / "programs"
# Of abseil, glog and torchrun: severity, month and day, time, process.
_LOGGED = re.compile(r"^[IWEF]\d{4} .*\n|^WARNING: All log messages before absl.*\n", re.MULTILINE)
# When workers end, Python's resource tracker may hear that a semaphore was made and not that it was
# removed; it warns of a leak, and then that there is nothing to remove. Only both together are left
# out: a semaphore that leaked is still there.
# Source: CPython, Lib/multiprocessing/resource_tracker.py, `main`.
_TRACKER = r"^\S+resource_tracker\.py:\d+: UserWarning: .*"
_SEMAPHORE_GONE = re.compile(
    rf"{_TRACKER} leaked semaphore .*\n.*\n(?:{_TRACKER}\[Errno 2\].*\n.*\n)+", re.MULTILINE
)
# Math libraries may sum in another order from one run to the next, so the last digits of a loss may
# differ even without stepwhy. A training that stepwhy changed would soon differ in the first ones.
# Source: Intel oneMKL, "Obtaining Numerically Reproducible Results".
_DECIMAL = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")
_ROUNDING = 1e-5
_LIMIT_S = 300
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that has ended: what a person saw of it."""

    output: str
    errors: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A program run alone and under observation."""

    program: Program
    alone: Ended
    observed: Ended
    run_dir: Path

    @property
    def processes(self) -> list[Path]:
        return sorted(self.run_dir.glob("process-*"))


def command(program: Program) -> list[str]:
    return [sys.executable, *program.words.split()]


def observed_command(program: Program, run_dir: Path) -> list[str]:
    """As a person types it: a script, or -- and a command."""
    is_script = not program.words.startswith("-")
    run = [sys.executable, "-m", "stepwhy", "run", "--quiet", "--out", str(run_dir)]
    return [*run, *(program.words.split() if is_script else ["--", *command(program)])]


def variables_of(program: Program, scratch: Path) -> dict[str, str]:
    """Environment variables of a program, with a new folder for its temporary files."""
    scratch.mkdir()
    return _QUIET | {"TMPDIR": str(scratch)} | program.environment


def ended(run: subprocess.CompletedProcess[str]) -> Ended:
    errors = _SEMAPHORE_GONE.sub("", _LOGGED.sub("", run.stderr))
    return Ended(run.stdout, errors, run.returncode)


def train(words: Sequence[str], program: Program, scratch: Path) -> Ended:
    run = subprocess.run(
        words,
        cwd=_FOLDER,
        env=os.environ | variables_of(program, scratch),
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
    )
    return ended(run)


def train_alone(program: Program, scratch: Path, forks: Callable[[str], Forks]) -> Ended:
    """Run a program without stepwhy, in a fork that finds its framework imported."""
    framework = framework_of(program)
    if not framework:
        return train(command(program), program, scratch)
    environment = os.environ | variables_of(program, scratch)
    return ended(forks(framework).run(program.words.split(), scratch, _FOLDER, environment))


def train_observed(
    program: Program, scratch: Path, run_dir: Path, forks: Callable[[str], Forks]
) -> Ended:
    """Run a program under observation."""
    if not program.forked:
        return train(observed_command(program, run_dir), program, scratch)
    variables, words = variables_of(program, scratch), program.words.split()
    with streams_to(scratch) as streams:
        fork = forks(framework_of(program))
        launched = fork.launch(words, run_dir, streams, _FOLDER, variables)
    output, errors = printed(scratch)
    errors += "".join(f"stepwhy: {message}\n" for message in launched.messages)
    return ended(subprocess.CompletedProcess(words, launched.exit_code, output, errors))


def framework_of(program: Program) -> str:
    """The process of `forks` that has imported nothing but what a program needs; '' for none."""
    packages = {
        name: {module.partition(".")[0] for module in modules} for name, modules in IMPORTED.items()
    }
    return next((name for name, imported in packages.items() if imported <= {*program.needs}), "")


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: program.name)
def pair(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    forks: Callable[[str], Forks],
) -> Pair:
    """Both runs of a program, one after the other: each of them fills the cores."""
    program: Program = request.param
    missing = [name for name in program.needs if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    for _ in range(program.attempts):
        folder = tmp_path_factory.mktemp(program.name)
        run_dir = folder / "run"
        alone = train_alone(program, folder / "alone", forks)
        observed = train_observed(program, folder / "observed", run_dir, forks)
        if alone.exit_code == observed.exit_code == program.exit_code:
            break
    return Pair(program, alone, observed, run_dir)


def assert_same_output(observed: str, alone: str) -> None:
    """Require the same text, with decimal numbers that are the same but for rounding."""
    assert _DECIMAL.sub("#", observed) == _DECIMAL.sub("#", alone)
    numbers = [float(number) for number in _DECIMAL.findall(alone)]
    assert [float(number) for number in _DECIMAL.findall(observed)] == pytest.approx(
        numbers, rel=_ROUNDING, abs=1e-7
    )


def all_lines_of(process: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (process / "steps.jsonl").read_text().splitlines()]


def lines_of(process: Path) -> list[dict[str, Any]]:
    """The lines of a step log, without the one that says when the device had finished."""
    return [line for line in all_lines_of(process) if line["kind"] != "drained"]


def ended_by_the_device(process: Path) -> int:
    """1 if the wait for the device after the last call ends its step, else 0."""
    return sum(line["kind"] == "drained" for line in all_lines_of(process))


def steps_of(lines: Sequence[dict[str, Any]]) -> list[bool]:
    """Of each step that a log shows, whether a profiler watched it."""
    told = [bool(line["profiled"]) for line in lines if line["kind"] == "step"]
    return told or [any(line["profiled"] for line in step) for step in periods(lines)]


def periods(lines: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    """From each call that marks a step to before the next; the first profiled one marks one."""
    anchor = next(line["signature"] for line in lines if line["profiled"])
    starts = [i for i, line in enumerate(lines) if line["signature"] == anchor]
    return (lines[first:after] for first, after in pairwise(starts))


def explained(path: Path) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["explain", str(path), "--json"])
    assert result.exit_code == 0, result.output
    explanation: dict[str, Any] = json.loads(result.stdout)
    return explanation


def test_only_rounding_is_overlooked() -> None:
    assert_same_output("10 2.2494351863861084\n", "10 2.2494354248046875\n")
    for observed in ("10 2.2495\n", "11 2.2494354248046875\n", "10 2.2494354248046875 nan\n"):
        with pytest.raises(AssertionError):
            assert_same_output(observed, "10 2.2494354248046875\n")


def test_the_training_is_as_without(pair: Pair) -> None:
    assert pair.alone.exit_code == pair.program.exit_code
    assert pair.alone.output or pair.alone.errors
    errors = pair.observed.errors.splitlines()
    if pair.program.says:
        assert errors.pop().startswith(f"stepwhy: {pair.program.says}")
    assert errors == pair.alone.errors.splitlines()
    assert_same_output(pair.observed.output, pair.alone.output)
    assert pair.observed.exit_code == pair.alone.exit_code


def test_the_log_holds_every_step(pair: Pair) -> None:
    assert len(pair.processes) == pair.program.processes
    for process in pair.processes:
        lines = lines_of(process)
        kinds = Counter(line["kind"] for line in lines)
        assert kinds.keys() == pair.program.log.keys()
        assert kinds >= Counter(pair.program.log)
        assert kinds.total() <= sum(pair.program.log.values()) + pair.program.spare
        assert len(steps_of(lines)) == pair.program.steps
        assert all(line["start_ns"] <= line["end_ns"] for line in lines)


def test_steps_are_traced_where_that_is_promised(pair: Pair) -> None:
    for process in pair.processes if pair.program.windows else ():
        windows = list((process / "windows").iterdir())
        assert windows
        assert all((window / "window.json").is_file() for window in windows)


def test_each_process_is_explained(pair: Pair) -> None:
    assert len(pair.processes) == pair.program.processes
    for process in pair.processes:
        result, profiled = explained(process), sum(steps_of(lines_of(process)))
        steps, breakdown = result["steps"], result["breakdown"]
        assert steps["source"] == "hook"
        count = pair.program.steps + ended_by_the_device(process)
        assert steps["count"] == count - profiled == len(steps["durations_ns"])
        assert_closed(breakdown["categories"], breakdown["wall_ns"])
        for device in result["devices"]:
            assert_closed(device["breakdown"], breakdown["wall_ns"])
        if pair.program.windows:
            assert profiled
            assert result["devices"]
            assert breakdown["categories"]["compute"] > 0


def test_the_run_is_explained(pair: Pair) -> None:
    result = explained(pair.run_dir)
    assert result["run"]["framework"] == pair.program.framework
    assert result["run"]["ranks"] == pair.program.processes
    assert result["verdict"]["sentence"]
    assert result["verdict"]["bound_by"]
    assert_closed(result["breakdown"]["categories"], result["breakdown"]["wall_ns"])
    assert result["breakdown"]["wall_ns"] > 0
    assert contradictions(msgspec.convert(result, Result)) == []


def assert_closed(categories: dict[str, int], wall_ns: int) -> None:
    """Every nanosecond has a category."""
    assert set(categories) == set(CATEGORIES)
    assert min(categories.values()) >= 0
    assert sum(categories.values()) == wall_ns
