"""Show that `stepwhy run` does training programs no harm.

    python -m tests.harm FOLDER [--only NAME ...] [--condition NAME ...] [--python PYTHON]
                                [--jobs N] [--write JSON [--missing]]

Each program of FOLDER runs twice alone and then under `stepwhy run`, undisturbed and in several
conditions: signals in the middle of the work, standard streams closed, full and broken, a full disk
and a read-only folder for the run directory. A signal or stream that would change what the program
does is tried without stepwhy, too. Its output, its exit code, the files it leaves, the
processes it leaves and, undisturbed, the number of its steps must be as without stepwhy. Exits with
1 where one is not. PYTHON needs stepwhy and what the programs import.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from tests.harm.catalogue import programs
from tests.harm.execution import (
    CONDITIONS,
    NotPossibleError,
    Reference,
    execute,
    run_dir_on,
    steps_seen,
)

if TYPE_CHECKING:
    from tests.harm.catalogue import Program
    from tests.harm.execution import Condition, Ended

# A signal is sent after this share of the CPU time that the program takes alone.
_MIDDLE = 0.6
# How often a program runs alone, at most, until as many of its processes stay as under stepwhy.
_MOST_TRIES_ALONE = 5
# With one thread, sums are made in the same order each time, and several programs run side by side.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
_UNDISTURBED = CONDITIONS[0]
_ROOT = Path(__file__).resolve().parents[2]
_VERSIONS = """
import importlib.metadata as m, json, platform
found = {d.metadata["Name"].lower().replace("_", "-"): d.version for d in m.distributions()}
names = ("stepwhy", "torch", "transformers", "accelerate", "lightning", "flax", "optax", "jax",
         "tensorflow-cpu", "tensorflow", "keras", "numpy")
print(json.dumps({"python": platform.python_version(),
                  **{n: found[n] for n in names if n in found}}))
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """Where and with what programs run."""

    folder: Path
    python: str
    scratch: Path

    def words(self, program: Program) -> list[str]:
        """The command that starts a program."""
        script = [str(self.folder / program.script), *program.arguments]
        ranks = str(program.ranks)
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]
        return [self.python, *(start if program.ranks else []), *script]

    def observed(self, program: Program, run_dir: Path) -> list[str]:
        """The same under `stepwhy run`."""
        stepwhy = [self.python, "-m", "stepwhy", "run", "--out", str(run_dir), "--"]
        return [*stepwhy, *self.words(program)]


class Subject:
    """A program, and what it does alone, which is found out once.

    Args:
        trial: Where it runs.
        program: The program.
    """

    def __init__(self, trial: Trial, program: Program) -> None:
        self._trial = trial
        self._folder = trial.scratch / "".join(c if c.isalnum() else "-" for c in program.name)
        self._environment = {**_ENVIRONMENT, **program.environment}
        self._lock = Lock()
        self._reference: Reference | None = None
        self.program = program

    def _run(self, words: list[str], name: str, condition: Condition) -> Ended:
        share = _MIDDLE if condition.number else 0
        after_s = share * self._reference.first.cpu_s if self._reference else 0
        return execute(words, self._folder / name, condition, self._environment, after_s)

    def reference(self) -> Reference:
        """Two runs alone."""
        with self._lock:
            if self._reference is None:
                words = self._trial.words(self.program)
                both = [self._run(words, f"alone-{n}", _UNDISTURBED) for n in range(2)]
                self._reference = Reference(*both)
            return self._reference

    def row(self, condition: Condition) -> dict[str, Any]:
        """What the program does in a condition under `stepwhy run`, beside what it does alone."""
        about = {"program": self.program.name, "condition": condition.name}
        reference = self.reference()
        name = condition.name.replace(" ", "-")
        if condition.affects_program:
            alone = self._run(self._trial.words(self.program), f"{name}-alone", condition)
            reference = replace(reference, first=alone)
        expected = reference.first
        try:
            with run_dir_on(condition.disk, self._folder / f"{name}-run") as run_dir:
                words = self._trial.observed(self.program, run_dir)
                ended = self._run(words, name, condition)
                seen = steps_seen(run_dir)
        except NotPossibleError as error:
            return {**about, "not_tried": str(error)}
        if condition.number and not (expected.is_signalled and ended.is_signalled):
            return {**about, "not_tried": "the program ended before the signal"}
        tries = 1
        if condition.number:
            reference, tries = self._like(ended, reference, condition, f"{name}-alone")
        more = {"tries_alone": tries} if tries > 1 else {}
        return {**about, **more, **_row(self.program, condition, reference, ended, seen)}

    def _like(
        self, ended: Ended, reference: Reference, condition: Condition, name: str
    ) -> tuple[Reference, int]:
        """Try the program alone again until as many processes stay, if they do.

        Which processes outlive a signal may depend on what each did when it came. PyTorch's
        spawned workers stay when their parent ends before they have started.

        Returns:
            The run alone that leaves most processes, and how many runs were made.
        """
        tries = 1
        while ended.left > reference.first.left and tries < _MOST_TRIES_ALONE:
            again = self._run(self._trial.words(self.program), name, condition)
            tries += 1
            if again.is_signalled and again.left > reference.first.left:
                reference = replace(reference, first=again)
        return reference, tries


def _row(
    program: Program, condition: Condition, reference: Reference, ended: Ended, seen: list[int]
) -> dict[str, Any]:
    """What a program did under stepwhy, beside what it does without."""
    expected = reference.first
    row: dict[str, Any] = {
        "exit_code": ended.code,
        "expected_exit_code": expected.code,
        "processes_left": ended.left,
        "expected_processes_left": expected.left,
        "seconds": round(ended.wall_s, 1),
        "seconds_alone": round(expected.wall_s, 1),
    }
    fine = ended.code == expected.code and ended.left <= expected.left
    if not condition.number:  # what it has done by then depends on the machine
        row["same_output"] = reference.same_output(ended)
        row["same_files"] = reference.same_files(ended)
        fine = fine and row["same_output"] and row["same_files"]
    is_whole = condition.disk == "free" and not condition.number and not expected.code
    if is_whole and program.steps is not None:
        row["expected_steps"] = [program.steps] * max(program.ranks, 1)
        row["steps"] = seen
        fine = fine and row["steps"] == row["expected_steps"]
    return {**row, "passed": fine}


def try_one(subject: Subject, condition: Condition) -> dict[str, Any]:
    """One row, printed as it comes; an error of this program is one, too."""
    try:
        row = subject.row(condition)
    except Exception:  # noqa: BLE001 - the other programs go on
        about = {"program": subject.program.name, "condition": condition.name}
        row = {**about, "error": traceback.format_exc(), "passed": False}
    state = row.get("not_tried") or ("passed" if row["passed"] else f"FAILED: {row}")
    sys.stdout.write(f"{row['program']:36} {row['condition']:16} {state}\n")
    sys.stdout.flush()
    return row


def main(arguments: list[str]) -> int:
    """Try all programs; 1 if one was harmed."""
    parser = argparse.ArgumentParser(prog="python -m tests.harm", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[""], help="programs with this in their name")
    parser.add_argument("--condition", nargs="+", choices=[one.name for one in CONDITIONS])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--jobs", type=int, default=1, help="programs at the same time")
    parser.add_argument("--write", type=Path, help="file to merge the results into")
    parser.add_argument("--missing", action="store_true", help="skip what this file holds")
    given = parser.parse_args(arguments)
    found: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="harm-") as scratch,
        ThreadPoolExecutor(given.jobs) as pool,
    ):
        trial = Trial(given.folder.resolve(), given.python, Path(scratch))
        for row in pool.map(lambda task: try_one(*task), tasks(trial, given)):
            found.append(row)
            if given.write:
                keep(given.write, given.python, row)
    tried = [row for row in found if "not_tried" not in row]
    failed = [row for row in tried if not row["passed"]]
    sys.stdout.write(
        f"{len(tried) - len(failed)} passed, {len(failed)} failed, "
        f"{len(found) - len(tried)} not tried\n"
    )
    return int(bool(failed) or not tried)


def tasks(trial: Trial, given: argparse.Namespace) -> list[tuple[Subject, Condition]]:
    """Programs, in the order of their names on the command line, and conditions to try."""
    known = programs(given.folder)
    chosen = dict.fromkeys(one.name for name in given.only for one in known if name in one.name)
    by_name = {one.name: Subject(trial, one) for one in known if one.name in chosen}
    held = {
        (row["program"], row["condition"])
        for row in (load(given.write) if given.missing and given.write else [])
        if "not_tried" not in row
    }
    return [
        (by_name[name], condition)
        for name in chosen
        for condition in CONDITIONS
        if (not given.condition or condition.name in given.condition)
        and (name, condition.name) not in held
    ]


def load(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of results; none without the file."""
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    return rows


def keep(path: Path, python: str, row: dict[str, Any]) -> None:
    """Merge a row into a file of results; the rows of other programs and conditions stay.

    A row that was not tried replaces none that was.

    Args:
        path: The file.
        python: The interpreter that ran the program.
        row: What was found.
    """
    said = subprocess.run([python, "-c", _VERSIONS], capture_output=True, check=True).stdout
    date = datetime.now(UTC).date().isoformat()
    rows = {(one["program"], one["condition"]): one for one in load(path)}
    place = row["program"], row["condition"]
    if "not_tried" not in row or "not_tried" in rows.get(place, {"not_tried": ""}):
        rows[place] = {**row, "date": date, "commit": commit()}
    order = [condition.name for condition in CONDITIONS]
    about = {"date": date, "cores": os.cpu_count(), "versions": json.loads(said)}
    ordered = sorted(rows.values(), key=lambda one: order.index(one["condition"]))
    # Renamed at the end, so that an interruption leaves a whole file.
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps({**about, "rows": ordered}, indent=1) + "\n")
    unfinished.replace(path)


def commit() -> str:
    """The last commit that changed stepwhy itself, with a `+` where there are changes since."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words, "--", "src"], cwd=_ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    return git("log", "-1", "--format=%h", "--abbrev=10") + "+" * bool(git("status", "--porcelain"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
