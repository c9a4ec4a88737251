"""`stepwhy lab`."""

from __future__ import annotations

import sys
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


def _run(
    pair: Pair, size: str, repeats: int, out: Path | None, *, allow_busy: bool
) -> tuple[LabResult, Path]:
    """Run the programs; returns the result and the folder of the runs."""
    from stepwhy.bench import judge_pair, measure_pairs
    from stepwhy.capture.launcher.command import default_run_dir
    from stepwhy.cli.measuring import new_folder, run_progress
    from stepwhy.cli.programs import program

    if size not in pair.sizes:
        raise click.BadParameter(f"{pair.name} has the sizes {', '.join(pair.sizes)}")
    now = datetime.now().astimezone()
    folder = new_folder(out or default_run_dir([f"lab-{pair.name.replace('/', '-')}"], now))
    sides = [
        program(label, _command(pair, words, size), folder / label, folder)
        for label, words in (("faulty", pair.faulty), ("fixed", pair.fixed))
    ]
    with run_progress() as progress:
        faulty, fixed = measure_pairs(sides, repeats, allow_busy=allow_busy, progress=progress)
    about = (pair.name, pair.title, pair.diagnosis)
    return judge_pair(*about, faulty, fixed, requested=repeats, day=now.date()), folder


def _command(pair: Pair, words: tuple[str, ...], size: str) -> list[str]:
    return [sys.executable, str(pair.folder / words[0]), *words[1:], *pair.sizes[size]]
