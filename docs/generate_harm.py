"""The page of how `stepwhy run` treats foreign training programs, from the kept results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results" / "harm.json"

INTRODUCTION = """\
Training programs that were not written for stepwhy, each run alone and under `stepwhy run` by
`scripts/harm FOLDER`. *Same* means: the program printed the same, left the same files, no further
process, and ended with the same exit code (which is given if it is not 0, and negative for a
signal). Under a signal, or with a standard stream that is closed, full or broken, the program alone
meets the same condition. What differs between two runs alone, such as times, is not compared.
Signals are sent in the middle of the work, when only the exit code and the processes can be
compared. Steps are those seen of those made, per process.

Under a signal, spawned loader workers of PyTorch (`workers.py spawn`) may stay, with and without
stepwhy: a worker whose parent is killed while the worker starts never notices.
`python -m tests.harm.orphans` shows it without stepwhy: two workers and multiprocessing's resource
tracker stay. So a program of which fewer processes stayed alone is tried alone up to four times
more, until as many stay.
"""


def load() -> dict[str, Any]:
    """The kept results."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def head(found: dict[str, Any]) -> tuple[str, ...]:
    """The first line of the table: conditions in the order in which they were tried."""
    return ("program", *dict.fromkeys(row["condition"] for row in found["rows"]), "steps")


def rows(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """A line of the table for each program."""
    cells = {(row["program"], row["condition"]): row for row in found["rows"]}
    conditions = head(found)[1:-1]
    return [
        (
            f"`{name}`",
            *(_cell(cells.get((name, condition))) for condition in conditions),
            _steps(cells.get((name, "undisturbed"))),
        )
        for name in dict.fromkeys(row["program"] for row in found["rows"])
    ]


def versions(found: dict[str, Any]) -> str:
    """When and with what this was tried."""
    names = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    dates = sorted({row["date"] for row in found["rows"]})
    period = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    commits = ", ".join(sorted({f"`{row['commit']}`" for row in found["rows"] if "commit" in row}))
    return (
        f"\nTried on {period} with {found['cores']} cores: {names}; stepwhy as of {commits}. "
        "The date and the commit of each cell are in `benchmarks/results/harm.json`.\n"
    )


def _cell(row: dict[str, Any] | None) -> str:
    if row is None or "not_tried" in row:
        return "not tried"
    code = row.get("exit_code")
    return ("same" if row["passed"] else "**different**") + (f" ({code})" if code else "")


def _steps(row: dict[str, Any] | None) -> str:
    if row is None or "steps" not in row:
        return "unknown"
    pairs = zip(row["steps"], row["expected_steps"], strict=False)
    return ", ".join(f"{seen} of {made}" for seen, made in pairs) or "none"
