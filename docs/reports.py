"""Record what stepwhy reports of real runs, for the pages of the diagnoses.

    stepwhy lab grade --out LAB
    python docs/reports.py LAB [TRACES ...]

For each diagnosis, the report is of the faulty program of the lab whose fault it is. Without one,
it is of another program of the lab or of a recorded trace in which the pattern costs about a third
of the step. TRACES are folders of recorded traces, in which a table of a Markdown file names the
source of each (`owner/repository : path`). The texts are written to docs/reports, one file per
diagnosis; those of diagnoses that no run or trace shows are left as they are. `docs/generate.py`
puts them on the pages.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.result import current_id

if TYPE_CHECKING:
    from collections.abc import Iterator

REPORTS = Path(__file__).resolve().parent / "reports"
_SOURCE = re.compile(
    r"^\| *(?P<file>[^| ]+) .*\| (?P<repository>[\w.-]+/[\w.-]+) : (?P<path>[^ |]+)"
)
_FEWEST_RANKS = 2
# A finding's title may take three lines.
_TITLE = re.compile(r"\d+  .*?(\n.*?){0,2}\((?P<id>[a-z-]+)\)(\n|$)")


class Shown(NamedTuple):
    """A finding of a run or trace.

    Attributes:
        expected: Whether the program was written to show it.
        alone: Whether no other finding explains it.
        in_lab: Whether it is a program of the lab.
        typical: Minus the distance of its share of the step from a third, because extremes are
            special cases.
        of: What was explained, as a sentence names it.
        path: Where that is.
    """

    expected: bool
    alone: bool
    in_lab: bool
    typical: float
    of: str
    path: str


def lab_runs(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """What to call each faulty program, the diagnosis that it shows, and where its first run is."""
    grade = json.loads((folder / "grade.json").read_text(encoding="utf-8"))
    for pair in grade["pairs"]:
        runs = sorted((folder / pair["name"] / "faulty").iterdir())
        yield f"the faulty program of `lab/{pair['name']}`", current_id(pair["diagnosis"]), runs[0]


def traces(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """What to call each recorded trace of known source, no diagnosis, and where the trace is.

    The ranks of one run are a folder of their own.
    """
    for table in sorted(folder.glob("*.md")):
        folders: Counter[Path] = Counter()
        for source in filter(None, map(_SOURCE.match, table.read_text("utf-8").splitlines())):
            path = next(folder.glob(f"**/{source['file']}"), None)
            if path is None or source["path"] == "derived":
                continue
            yield f"`{source['path']}` of `{source['repository']}`", "", path
            folders[path.parent] += "/" in source["file"]
            if folders[path.parent] == _FEWEST_RANKS:
                of = f"all ranks of `{source['path'].partition('!')[0]}`"
                yield f"{of} of `{source['repository']}`", "", path.parent


def findings(named: tuple[str, str, Path]) -> list[tuple[str, Shown]]:
    """The findings of a run or trace by their ids."""
    of, expected, path = named
    done = _explain(path, "--json")
    if not done:
        return []
    result = json.loads(done)
    wall_ns = max(result["breakdown"]["wall_ns"], 1)
    return [
        (
            finding["id"],
            Shown(
                finding["id"] == expected,
                not finding["explained_by"],
                bool(expected),
                -abs((finding["cost_ns_per_step"] or 0) / wall_ns - 1 / 3),
                of,
                str(path),
            ),
        )
        for finding in result["findings"]
        if finding["verdict"] == "found"
    ]


def report(name: str, shown: Shown) -> str:
    """The verdict and one finding, as the terminal shows them, below a line that names the run."""
    lines = _explain(Path(shown.path), "--all").splitlines()
    bars = next((i for i, line in enumerate(lines) if line.startswith("Where the ")), 0)
    start = next(i for i in range(len(lines)) if _id_of("\n".join(lines[i : i + 3])) == name)
    rest = lines[start + 1 :]
    end = next((i for i, line in enumerate(rest) if line and not line.startswith(" ")), len(rest))
    parts = ["\n".join(lines[:bars]), "\n".join([lines[start], *rest[:end]])]
    return f"{shown.of}\n\n" + "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _id_of(title: str) -> str:
    """The id of the finding whose title the lines begin with; '' if they begin with none."""
    found = _TITLE.match(title)
    return found["id"] if found else ""


def _explain(path: Path, option: str) -> str:
    command = [sys.executable, "-m", "stepwhy", "explain", option, str(path)]
    return subprocess.run(command, check=False, capture_output=True, encoding="utf-8").stdout  # noqa: S603


def main() -> None:
    """Explain all runs and traces, and write one text for each diagnosis."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lab", type=Path, help="what `stepwhy lab grade --out` has written")
    parser.add_argument("traces", type=Path, nargs="*")
    options = parser.parse_args()
    named = [*lab_runs(options.lab), *chain.from_iterable(map(traces, options.traces))]
    best: dict[str, Shown] = {}
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(findings, named):
            for name, shown in found:
                best[name] = max(best.get(name, shown), shown)
    REPORTS.mkdir(exist_ok=True)
    for name, shown in sorted(best.items()):
        (REPORTS / f"{name}.txt").write_text(report(name, shown), encoding="utf-8")
        print(f"{name}: {shown.of}")


if __name__ == "__main__":
    main()
