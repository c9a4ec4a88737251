"""`stepwhy lab`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from stepwhy import output
from stepwhy.cli.bench import busy_option, json_option, out_option
from stepwhy.text import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.cli.lab_pairs import Pair
    from stepwhy.findings import LabResult

RESULT_FILE = "lab.json"
GRADE_FILE = "grade.json"


@click.group()
def lab() -> None:
    """Small training programs, each with a planted problem and a fixed twin."""


@lab.command("list")
def list_pairs() -> None:
    """List the pairs, each with the diagnosis of its planted problem."""
    from rich.table import Table

    from stepwhy.cli.lab_pairs import pairs
    from stepwhy.report.console import Console

    table = Table(
        "pair", "planted", "what it is about", box=None, pad_edge=False, padding=(0, 3, 0, 0)
    )
    for pair in pairs():
        table.add_row(*map(one_line, (pair.name, pair.diagnosis, pair.title)))
    Console().print(table)


@lab.command("run")
@click.argument("name")
@click.option("--size", default="small", show_default=True, help="Size of the programs.")
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Number of valid pairs of runs.",
)
@click.option(
    "--record",
    is_flag=True,
    help="Also store the result in the lab's folder of results.",
)
@out_option
@busy_option
@json_option
@click.pass_context
def run_pair(
    ctx: click.Context,
    name: str,
    size: str,
    repeats: int,
    out: Path | None,
    *,
    record: bool,
    allow_busy: bool,
    as_json: bool,
) -> None:
    """Run both programs of a pair alternately, and show the predicted and the measured gain.

    Exits with 0 if the planted problem was the first finding in the faulty program and was not
    found in its twin, with 1 if not, and with 7 if the machine was too busy for a verdict.
    """
    from stepwhy.cli.lab_pairs import find, lab_folder
    from stepwhy.cli.measuring import save_result
    from stepwhy.report.terminal.lab import render_lab

    pair = find(name)
    result, folder = _run(pair, size, repeats, out, allow_busy=allow_busy)
    text = save_result(folder / RESULT_FILE, result)
    if record:
        results = lab_folder() / "results"
        results.mkdir(exist_ok=True)
        save_result(results / f"{pair.name.replace('/', '-')}.json", result)
    if as_json:
        output.document(text)
    else:
        render_lab(result)
        output.line(f"Runs: {folder}")
    ctx.exit({True: 0, False: 1, None: 7}[result.passed])


@lab.command("grade")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--size", default="small", show_default=True, help="Size of the programs.")
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of runs of each program.",
)
@click.option("--record", is_flag=True, help="Also store the grades in the lab's folder.")
@out_option
@json_option
@click.pass_context
def grade(
    ctx: click.Context,
    names: tuple[str, ...],
    size: str,
    repeats: int,
    out: Path | None,
    *,
    record: bool,
    as_json: bool,
) -> None:
    """Run the pairs, or all, and show what was found, and what was found by mistake.

    Unlike 'stepwhy lab run', this measures no gain. With --record, grades of other pairs that are
    stored in the lab stay. Exits with 0 if every planted problem was the first finding and no twin
    had it, with 1 if not.
    """
    from stepwhy.bench import graded
    from stepwhy.cli.lab_grades import grades, stored
    from stepwhy.cli.lab_pairs import find, lab_folder, pairs
    from stepwhy.cli.measuring import run_folder, run_progress, save_result
    from stepwhy.report.grade import is_passed
    from stepwhy.report.terminal.grade import render_grade

    chosen = [find(name) for name in names] or pairs()
    folder = run_folder(out, "lab-grade")
    place = lab_folder() / GRADE_FILE
    done = []
    with run_progress() as progress:
        for pair in grades(chosen, size, repeats, folder, progress):
            done.append(pair)
            text = save_result(folder / GRADE_FILE, graded(done))
            if record:
                save_result(place, graded([*stored(place), pair]))
    if as_json:
        output.document(text)
    else:
        render_grade(graded(done))
        output.line(f"Runs: {folder}")
    ctx.exit(0 if all(map(is_passed, done)) else 1)


def _run(
    pair: Pair, size: str, repeats: int, out: Path | None, *, allow_busy: bool
) -> tuple[LabResult, Path]:
    """Run the programs; returns the result and the folder of the runs."""
    from stepwhy.bench import judge_pair, measure_pairs
    from stepwhy.cli.lab_pairs import programs_of
    from stepwhy.cli.measuring import run_folder, run_progress

    folder = run_folder(out, f"lab-{pair.name.replace('/', '-')}")
    sides = programs_of(pair, size, folder)
    day = datetime.now().astimezone().date()
    with run_progress() as progress:
        faulty, fixed = measure_pairs(sides, repeats, allow_busy=allow_busy, progress=progress)
    about = (pair.name, pair.title, pair.diagnosis)
    return judge_pair(*about, faulty, fixed, requested=repeats, day=day), folder
