"""The counts of runs, as files: each run with what it ran, and the sums over all of them.

    python fuzz/counts.py RUN.json... --json ALL.json     # add up runs that were made apart

A run is known by its seed, format and first input; the same inputs are not counted twice.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepwhy
from stepwhy.base.columns import compiled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuzz.tally import Tally

    Document = dict[str, Any]

_SCHEMA = "stepwhy.fuzz/2"
_LIBRARIES = ("msgspec", "numpy", "protobuf", "pyarrow")


def run_of(tallies: dict[str, Tally], seed: int, first: int) -> Document:
    """One run: its counts by format, and the versions of what read the inputs.

    Args:
        tallies: By format.
        seed: Of the run.
        first: Number of each format's first input.
    """
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seed": seed,
        "first": first,
        "recorded_traces_as_seeds": bool(os.environ.get("STEPWHY_TRACES")),
        "compiled_kernels": compiled.load("stepwhy.base.columns.kernels.rows") is not None,
        "versions": _versions(),
        "inputs": sum(t.inputs for t in tallies.values()),
        "failed": sum(t.failed.total() for t in tallies.values()),
        "formats": {name: tally.as_json() for name, tally in tallies.items()},
    }


def _versions() -> dict[str, str | None]:
    libraries = {name: version(name) for name in _LIBRARIES}
    own = {"stepwhy": stepwhy.__version__, "commit": _commit(), "python": platform.python_version()}
    return own | libraries | {"sqlite": sqlite3.sqlite_version}


def _commit() -> str | None:
    """The commit of the code that reads, with '+' where that was changed since; None: unknown."""
    folder = Path(stepwhy.__file__).parent
    try:
        asked = ["git", "-C", str(folder), "describe", "--always", "--abbrev=12", "--dirty=+"]
        told = subprocess.run(asked, check=True, capture_output=True, text=True)  # noqa: S603 - ours
        return told.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def add_up(runs: Iterable[Document]) -> Document:
    """Runs and their sums.

    Raises:
        ValueError: Two runs have inputs in common.
    """
    runs = list(runs)
    begun = Counter((r["seed"], name, r["first"]) for r in runs for name in r["formats"])
    again = [key for key, times in begun.items() if times > 1]
    if again:
        raise ValueError(f"counted twice (seed, format, first input): {again}")
    inputs: Counter[str] = Counter()
    for run in runs:
        inputs.update({name: counts["inputs"] for name, counts in run["formats"].items()})
    return {
        "schema": _SCHEMA,
        "inputs": inputs.total(),
        "failed": sum(run["failed"] for run in runs),
        "inputs_by_format": dict(sorted(inputs.items())),
        "runs": runs,
    }


def write(runs: Iterable[Document], path: Path) -> None:
    """Write runs and their sums; the file is whole at any time."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(add_up(runs), indent=1) + "\n")
    part.replace(path)


def read(path: Path) -> list[Document]:
    """The runs in a file."""
    runs: list[Document] = json.loads(path.read_text())["runs"]
    return runs


def main() -> None:
    """Add up what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="files of other runs")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="write sums here")
    given = parser.parse_args()
    write([run for path in given.runs for run in read(path)], given.json)


if __name__ == "__main__":
    main()
