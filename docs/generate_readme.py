"""What the READMEs of both languages have in common: the report that they show, and their figures.

Each is between a mark such as `<!-- report -->` and the next `<!-- end -->`.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import generate_accuracy
import generate_lab

from stepwhy.base.units import format_ns
from stepwhy.cli.lab_world import stored_world

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ROOT = Path(__file__).resolve().parent.parent
REPORT = _ROOT / "docs/images/report.txt"
"""The report that is shown, which `docs/pictures.py` writes together with its picture."""
PAIR = "torch/python_metrics"
"""The pair whose measured gain is shown."""
PASSAGES = _ROOT / "docs/readme.toml"
"""The text of all other passages, by the file that they are in."""
NAMES = ("README.md", "README.zh-CN.md")


def renewed(name: str) -> str:
    """The text of a README with its passages as they should be.

    Args:
        name: Its file name.

    Raises:
        LookupError: A passage has no marks.
    """
    text = (_ROOT / name).read_text(encoding="utf-8")
    for mark, passage in passages(name).items():
        head, begin, rest = text.partition(f"<!-- {mark} -->\n")
        _, end, tail = rest.partition("<!-- end -->")
        if not begin or not end:
            raise LookupError(f"{name} has no passage {mark!r}")
        text = f"{head}{begin}{passage}{end}{tail}"
    return text


def passages(name: str) -> dict[str, str]:
    """What is between the marks of a README, by mark.

    Args:
        name: Its file name.
    """
    report = f"```console\n$ stepwhy explain trace.json.gz\n{REPORT.read_text('utf-8')}```\n"
    templates = tomllib.loads(PASSAGES.read_text(encoding="utf-8"))[name]
    known = figures()
    return {"report": report, **{mark: t.format_map(known) for mark, t in templates.items()}}


def figures() -> dict[str, str]:
    """All numbers of the passages, as text with their units."""
    return {**_measured(), **_pairs(), **_world()}


def _measured() -> dict[str, str]:
    """What was predicted and measured for one pair."""
    kept = next(result for result in generate_lab.results() if result["name"] == PAIR)
    times = {
        "predicted_low": kept["predicted_low_ns"],
        "predicted_high": kept["predicted_high_ns"],
        "gain": kept["measured_ns"],
        "gain_low": kept["measured_low_ns"],
        "gain_high": kept["measured_high_ns"],
        # The step of the reports, which holds what some steps do, as the gain does.
        "step": sum(kept["comparison"]["a"]["breakdown"].values()),
    }
    spelled = {key: format_ns(ns).replace(".0 ms", " ms") for key, ns in times.items()}
    return {**spelled, "repeats": str(kept["faulty_runs"])}


def _pairs() -> dict[str, str]:
    """Totals of the pairs, and how far off the predictions were."""
    pairs = json.loads((_ROOT / "lab/accuracy.json").read_text(encoding="utf-8"))["pairs"]
    keys = ("found_first", "faulty_runs", "false_alarms", "fixed_runs")
    totals = {key: str(sum(pair[key] for pair in pairs)) for key in keys}
    page = "\n".join(generate_accuracy.parts(_rows))
    removal = re.search(r"work that disappears \| \d+ of (\d+) \| ([\d.]+ %)", page)
    if removal is None:
        raise LookupError("the page on accuracy has no row for work that disappears")
    programs = [path for path in (_ROOT / "lab").rglob("pair.toml") if "gpu" not in path.parts]
    return totals | {
        "pairs": str(len(pairs)),
        "programs": str(len(programs)),
        "fixes": removal[1],
        "error": removal[2],
    }


def _rows(_head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The rows of a table without its head."""
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _world() -> dict[str, str]:
    """How many slow programs of the locked half had their cause among the first findings."""
    graded = stored_world(generate_lab.WORLD_GRADES)
    slow = [p for p in graded if p.half == "locked" and p.found is not None]
    places = [program.place for program in slow]
    second = sum(place in {1, 2} for place in places)
    return {"slow": str(len(slow)), "first": str(places.count(1)), "second": str(second)}
