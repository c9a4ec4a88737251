"""The page of the versions of frameworks that `stepwhy run` was tried with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwhy.record.framework_names import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results" / "versions.json"
_TITLES = {"torch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow", "keras": "Keras"}

INTRODUCTION = """\
`stepwhy run` watches a training from inside, and for some of that needs names that a framework does
not promise to keep, as do some fixes of `stepwhy try`. `scripts/check-versions` installs each of
these versions into an environment of its own, looks up those names, and runs small trainings of 60
steps. *As expected* means: the steps, a traced window and all logs of that training were there,
with no message that something was lost. The first few steps may be missing, as a step lasts from
one update to the next. The windows were recorded on a CPU.

A name that is missing ends only what needs it, which is in the table of names below. The training
goes on, the other observations, too, and the notes of the report say what could not be observed.
"""
HEAD = ("framework", "program", "steps", "windows", "step bound by", "outcome", "names missing")
NAMES_HEAD = ("framework", "name", "lost without it", "missing in")


def load() -> dict[str, Any]:
    """The kept results."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A line for each training with each version."""
    for row in found["rows"]:
        absent = [f"`{n['name']}`" for n in row["names"] if not n["present"]]
        for program in row["programs"]:
            missing = "; ".join(program["missing"])
            yield (
                f"{_TITLES[row['framework']]} {row['version']}",
                f"`{program['name']}`",
                str(program["steps"]),
                str(program["windows"]),
                program["verdict"],
                f"**missing: {missing}**" if missing else "as expected",
                ", ".join(absent) or "none",
            )


def names(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A line for each name."""
    for group, declared in NAMES.items():
        for name in declared:
            absent = [
                row["version"]
                for row in found["rows"]
                for each in row["names"]
                if (each["module"], each["name"]) == (name.module, name.name)
                and not each["present"]
            ]
            place = f"`{name.module}`: `{name.name}`"
            yield _TITLES[group], place, name.lost, ", ".join(absent) or "none"


def tried(found: dict[str, Any]) -> str:
    """When and with what this was tried."""
    dates = sorted({row["date"] for row in found["rows"]})
    pythons = ", ".join(sorted({row["python"] for row in found["rows"]}))
    period = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    return f"\nTried on {period} with Python {pythons}.\n"
