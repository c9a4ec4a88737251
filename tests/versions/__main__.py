"""Try the observers with several versions of each framework, each in an environment of its own.

    python -m tests.versions [--only FRAMEWORK[-VERSION] ...] [--python PYTHON ...]
                             [--environments FOLDER] [--names-only] [--write JSON]

For each version, this installs the framework with pip into a new environment (CPU builds of PyTorch
where their index can be reached, else what the default index has), looks up every name of
`stepwhy.record.framework_names`, and runs small trainings under `stepwhy run`. The environment is
deleted afterwards, unless it was found in FOLDER. Each result is kept as soon as it is there. Of
several PYTHONs, the first with which pip can install a version is used. Exits with 1 where a
training was not observed as expected, or a version could not be installed. With --names-only, the
trainings are not run again: what JSON holds of the same version stays.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwhy.record.framework_names import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_STEPS = 60
_LONGEST_S = 600
# What is kept of steps whose lines, or operations, are noted.
_LOOKED_AT = ("lines.json.gz", "semantic.json")


@dataclass(frozen=True)
class Program:
    """A small training.

    Args:
        name: Its file, without the ending.
        expected: Kinds of events, and other logs, that must not be empty.
        most_missing: Most of its steps that may be missing, as those before the loop is known.
        arguments: Its arguments.
    """

    name: str
    expected: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    most_missing: int = 3

    @property
    def title(self) -> str:
        """Its name and arguments."""
        return " ".join((self.name, *self.arguments))


@dataclass(frozen=True)
class Framework:
    """A framework and the versions of it that are tried.

    Args:
        versions: Versions without the patch level, of which the latest is used.
        requirements: What pip installs, with the place of the version.
        programs: The trainings.
        names: Groups of `NAMES` that are looked up.
        package: The package that has its version.
    """

    versions: tuple[str, ...]
    requirements: tuple[str, ...]
    programs: tuple[Program, ...]
    names: tuple[str, ...]
    package: str


FRAMEWORKS = {
    "torch": Framework(
        ("2.9", "2.10", "2.11", "2.12", "2.13"),
        ("torch=={}.*", "numpy"),
        (
            Program("torch_loop", ("compile", "epoch", "workers", "save", "loaders", "levels")),
            Program("torch_eager", ("gradient-walk", *_LOOKED_AT)),
        ),
        ("torch",),
        "torch",
    ),
    "jax": Framework(
        ("0.8", "0.9", "0.10", "0.11"),
        ("jax=={}.*",),
        (Program("jax_loop", ("compile", "reasons"), most_missing=4),),
        ("jax",),
        "jax",
    ),
    "tensorflow": Framework(
        ("2.16", "2.17", "2.18", "2.19", "2.20", "2.21"),
        ("tensorflow-cpu=={}.*", "tf-keras=={}.*", "setuptools"),
        (
            Program("tf_session", ("levels", "session")),
            Program("tf_function", ("trace", "reasons", "levels"), most_missing=4),
            Program("keras_fit", ("evaluation", "batch"), most_missing=4),
            Program("keras_fit", ("evaluation",), ("--legacy",), most_missing=4),
        ),
        ("tensorflow", "keras"),
        "tensorflow-cpu",
    ),
}
"""The frameworks by name. `docs/reference/framework-versions.md` lists their versions."""


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="FRAMEWORK[-VERSION]")
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--environments", type=Path)
    parser.add_argument("--names-only", action="store_true")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    passed = True
    for name, version in _chosen(asked.only):
        before = _kept(asked.write, name, version) if asked.names_only else None
        row = _try(name, version, asked.python, asked.environments, before)
        if row is None:
            print(f"{name} {version}  pip cannot install it: name another --python", flush=True)
            passed = False
            continue
        for program in row["programs"]:
            print(f"{name} {row['version']}  {program['name']}: {_outcome(program)}", flush=True)
            passed &= not program["missing"]
        absent = [each["name"] for each in row["names"] if each["present"] is False]
        print(f"{name} {row['version']}  names missing: {', '.join(absent) or 'none'}", flush=True)
        if asked.write:
            _keep(asked.write, row)
    return int(not passed)


def _chosen(only: list[str]) -> Iterator[tuple[str, str]]:
    for name, framework in FRAMEWORKS.items():
        for version in framework.versions:
            if not only or name in only or f"{name}-{version}" in only:
                yield name, version


def _outcome(program: Mapping[str, Any]) -> str:
    seen = f"{program['steps']} of {_STEPS} steps, {program['windows']} windows"
    return f"{seen}, {program['verdict']}; missing: {', '.join(program['missing']) or 'nothing'}"


def _try(
    name: str,
    version: str,
    pythons: list[str],
    environments: Path | None,
    before: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Try one version of a framework, in an environment that is deleted if it was made here.

    Args:
        name: The framework.
        version: The version.
        pythons: Interpreters that may make the environment.
        environments: Folder of environments that are there.
        before: An earlier result, whose trainings are not run again.

    Returns:
        The result; None if no Python can have that version.
    """
    framework = FRAMEWORKS[name]
    known = environments / f"{name}-{version}" if environments else None
    if known is not None and known.is_dir():
        return _tried(name, framework, version, known, before)
    for python in pythons:
        with tempfile.TemporaryDirectory(prefix="stepwhy-versions-") as folder:
            environment = Path(folder) / "environment"
            try:
                _install(environment, python, framework, version)
            except subprocess.CalledProcessError:
                continue
            return _tried(name, framework, version, environment, before)
    return None


def _install(environment: Path, python: str, framework: Framework, version: str) -> None:
    """Make an environment with one version of a framework.

    Raises:
        subprocess.CalledProcessError: It cannot be installed.
    """
    subprocess.run([python, "-m", "venv", environment], check=True)
    pip = [environment / "bin/python", "-m", "pip", "install", "-qq", "--no-compile", "--no-input"]
    wanted = [each.format(version) for each in framework.requirements]
    if framework.package == "torch":
        index = ["--index-url", _CPU_INDEX, "--retries", "0"]
        if (
            subprocess.run([*pip, *index, *wanted], check=False, capture_output=True).returncode
            == 0
        ):
            return
    subprocess.run([*pip, *wanted], check=True)


def _tried(
    name: str,
    framework: Framework,
    version: str,
    environment: Path,
    before: dict[str, Any] | None = None,
) -> dict[str, Any]:
    python = environment / "bin/python"
    exact = _version(python, framework.package)
    if before is not None and before["version"] == exact:
        return {**before, "names": [n for group in framework.names for n in _names(python, group)]}
    return {
        "framework": name,
        "series": version,
        "version": exact,
        "python": _output([python, "-c", "import platform; print(platform.python_version())"]),
        "date": datetime.now(UTC).date().isoformat(),
        "stepwhy": _output(["git", "-C", _ROOT, "rev-parse", "--short=10", "HEAD"]),
        "names": [each for group in framework.names for each in _names(python, group)],
        "programs": [_observed(python, program) for program in framework.programs],
    }


def _version(python: Path, package: str) -> str:
    return _output([python, "-c", f"import importlib.metadata as m; print(m.version('{package}'))"])


def _output(command: list[Any]) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LONGEST_S)
    return done.stdout.strip()


def _names(python: Path, group: str) -> list[dict[str, Any]]:
    """Which names of a group are there."""
    names = NAMES[group]
    rows = [[each.module, each.expression or f"m.{each.name} is not None"] for each in names]
    done = subprocess.run(
        [python, _HERE / "names.py"],
        input=json.dumps(rows),
        env=_environment(),
        check=True,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        {"module": each.module, "name": each.name, "present": present, "lost": each.lost}
        for each, present in zip(names, found, strict=True)
    ]


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "KINETO_LOG_LEVEL": "99",
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
        "KERAS_BACKEND": "tensorflow",
    }


def _observed(python: Path, program: Program) -> dict[str, Any]:
    """What was seen of a training."""
    with tempfile.TemporaryDirectory(prefix="stepwhy-versions-") as folder:
        run = Path(folder) / "run"
        script = _HERE / "programs" / f"{program.name}.py"
        stepwhy = [sys.executable, "-m", "stepwhy"]
        options = ["--out", run, "--quiet"]
        command = [python, script, *program.arguments]
        done = subprocess.run(
            [*stepwhy, "run", *options, "--", *command],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
        explained = subprocess.run(
            [*stepwhy, "explain", run, "--json"], capture_output=True, text=True, check=False
        )
        seen = _seen(run)
        seen["exit_code"] = done.returncode
        seen["error"] = done.stderr.strip().splitlines()[-1:] if done.returncode else []
        seen["verdict"] = _verdict(explained.stdout)
        return {"name": program.title, **seen, "missing": _missing(program, seen)}


def _verdict(text: str) -> str:
    try:
        return str(json.loads(text)["verdict"]["bound_by"])
    except (ValueError, KeyError, TypeError):
        return ""


def _seen(run: Path) -> dict[str, Any]:
    """Steps, windows, logs and messages of a run directory."""
    events = Counter(each["kind"] for each in _lines(run, "events"))
    events["reasons"] = sum(
        bool(each.get("reason")) for each in _lines(run, "events") if each["kind"] != "gc"
    )
    for log in ("levels", "loaders"):
        events[log] = sum(1 for _ in _lines(run, log))
    for name in _LOOKED_AT:
        events[name] = len(list(run.glob(f"process-*/{name}")))
    return {
        "steps": _steps(run),
        "windows": len(list(run.glob("process-*/windows/[0-9]*"))),
        "seen": {kind: count for kind, count in sorted(events.items()) if count},
        "messages": [m["text"] for m in _lines(run, "messages") if m["level"] == "warning"],
    }


def _steps(run: Path) -> int:
    """The lines of the most frequent kind of step."""
    kinds = Counter((s["kind"], s.get("signature")) for s in _lines(run, "steps"))
    return max(kinds.values(), default=0)


def _lines(run: Path, log: str) -> Iterator[dict[str, Any]]:
    for path in run.glob(f"process-*/{log}.jsonl"):
        for line in path.read_text().splitlines():
            yield json.loads(line)


def _missing(program: Program, seen: Mapping[str, Any]) -> list[str]:
    """What of a training should have been observed, and was not."""
    missing = [each for each in program.expected if each not in seen["seen"]]
    if seen["exit_code"]:
        missing.append("a clean end")
    if seen["steps"] < _STEPS - program.most_missing:
        missing.append("steps")
    if not seen["windows"]:
        missing.append("a window")
    if not seen["verdict"]:
        missing.append("a report")
    return missing + [f"message: {text}" for text in seen["messages"]]


def _kept(path: Path | None, name: str, version: str) -> dict[str, Any] | None:
    """An earlier result of a version; None if there is none."""
    rows = json.loads(path.read_text())["rows"] if path and path.exists() else []
    return next((r for r in rows if (r["framework"], r["series"]) == (name, version)), None)


def _keep(path: Path, row: dict[str, Any]) -> None:
    """Write a result, in place of an earlier one of the same version."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    order = list(_chosen([]))
    key = (row["framework"], row["series"])
    kept = [row, *(each for each in rows if (each["framework"], each["series"]) != key)]
    kept.sort(key=lambda each: order.index((each["framework"], each["series"])))
    path.write_text(json.dumps({"schema": "stepwhy.versions/1", "rows": kept}, indent=1) + "\n")


if __name__ == "__main__":
    if shutil.which("git") is None:
        sys.exit("git is needed to name the revision")
    sys.exit(main())
