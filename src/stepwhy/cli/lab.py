"""`stepwhy lab`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwhy.base import output
from stepwhy.base.text import one_line
from stepwhy.cli.bench import busy_option, json_option, out_option

if TYPE_CHECKING:
    from stepwhy.cli.lab_pairs import Pair
    from stepwhy.result import LabResult

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
    from stepwhy.show.console import Console

    table = Table(
        "pair", "planted", "what it is about", box=None, pad_edge=False, padding=(0, 3, 0, 0)
    )
    for pair in pairs(gpu=True):
        table.add_row(*map(one_line, (pair.name, pair.diagnosis or "-", pair.title)))
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
    "--record", is_flag=True, help="Also store the result in the lab's folder of results."
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
    from stepwhy.show.terminal.lab import render_lab

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
    help="Number of runs of each program.  [default: 1; with --predict, 3]",
)
@click.option("--record", is_flag=True, help="Also store the grades in the lab's folder.")
@click.option(
    "--predict",
    is_flag=True,
    help="Measure the gain of each fix and compare it with what is predicted. Store both in the "
    "lab's accuracy.json, which predictions are calibrated with.",
)
@click.option("--again", is_flag=True, help="Measure also pairs that were measured today.")
@click.option(
    "--recompute",
    is_flag=True,
    help="Run nothing: predict again from what the lab's accuracy.json holds, and store it there.",
)
@click.option(
    "--world",
    is_flag=True,
    help="Grade the programs in lab/world instead, whose authors did not know the diagnoses.",
)
@click.option(
    "--half",
    type=click.Choice(("tune", "locked")),
    help="With --world: only the programs of this half. Do not tune diagnoses with the locked one.",
)
@click.option(
    "--gpu",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Run nothing: grade what scripts/gpu-lab measured on a GPU. With --again, explain its "
    "recorded runs again.",
)
@out_option
@json_option
@click.pass_context
def grade(
    ctx: click.Context,
    names: tuple[str, ...],
    size: str,
    repeats: int | None,
    out: Path | None,
    *,
    record: bool,
    predict: bool,
    again: bool,
    recompute: bool,
    world: bool,
    half: str | None,
    gpu: Path | None,
    as_json: bool,
) -> None:
    """Run the pairs, or all, and show what was found, and what was found by mistake.

    With --record, grades of other pairs that are stored in the lab stay. Exits with 0 if every
    planted problem was the first finding and no twin had it, with 1 if not.

    With --predict, the gains of the fixes are measured and compared with the predicted ones. Each
    pair is stored when it is done, and pairs that were measured today are not run again.

    With --world, each version of a program runs once. Exits with 0 if all of them ran, else with 1.
    """
    if half and not world:
        raise click.UsageError("--half needs --world.")
    if world and (predict or recompute or gpu or repeats):
        raise click.UsageError("--world runs each program once, and measures no gain.")
    if world:
        ctx.exit(_grade_world(names, half, out, record=record, as_json=as_json))
    if gpu is not None:
        _grade_gpu(gpu, again=again, record=record, as_json=as_json)
        return
    if predict or recompute:
        _grade_predictions(
            names, size, repeats or 3, out, again=again, run=not recompute, as_json=as_json
        )
        return
    from stepwhy.cli.lab_grades import grades, stored
    from stepwhy.cli.lab_pairs import find, lab_folder, pairs
    from stepwhy.cli.measuring import run_folder, run_progress, save_result
    from stepwhy.measure import graded
    from stepwhy.show.grade import is_passed
    from stepwhy.show.terminal.grade import render_grade

    chosen = [find(name) for name in names] or pairs()
    folder = run_folder(out, "lab-grade")
    place = lab_folder() / GRADE_FILE
    done = []
    with run_progress() as progress:
        for pair in grades(chosen, size, repeats or 1, folder, progress):
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


def _grade_world(
    names: tuple[str, ...], half: str | None, out: Path | None, *, record: bool, as_json: bool
) -> int:
    """Grade programs of `lab/world`; returns the exit code."""
    from stepwhy.cli.lab_pairs import lab_folder
    from stepwhy.cli.lab_world import WORLD_GRADE_FILE, chosen_programs, stored_world, world_grades
    from stepwhy.cli.measuring import run_folder, run_progress, save_result
    from stepwhy.measure import graded_world
    from stepwhy.show.terminal.grade import render_world

    chosen = chosen_programs(names, half)
    folder = run_folder(out, "lab-world")
    place = lab_folder() / WORLD_GRADE_FILE
    done = []
    with run_progress() as progress:
        for program in world_grades(chosen, folder, progress):
            done.append(program)
            text = save_result(folder / WORLD_GRADE_FILE, graded_world(done))
            if record:
                save_result(place, graded_world([*stored_world(place), program]))
    if as_json:
        output.document(text)
    else:
        render_world(graded_world(done))
        output.line(f"Runs: {folder}")
    return 1 if any(program.error for program in done) else 0


def _grade_gpu(folder: Path, *, again: bool, record: bool, as_json: bool) -> None:
    """Show what a session on a GPU has shown."""
    from stepwhy.cli.lab_accuracy import GPU_GRADE_FILE, recompute
    from stepwhy.cli.lab_gpu import gpu_grade
    from stepwhy.cli.lab_pairs import lab_folder
    from stepwhy.cli.measuring import save_result
    from stepwhy.show.json import render
    from stepwhy.show.terminal.gpu import render_gpu

    found = gpu_grade(folder, again=again)
    if record and (found.tiny or not found.card):
        raise click.UsageError("These results do not come from a GPU, so they are not recorded.")
    if record:
        save_result(lab_folder() / GPU_GRADE_FILE, found)
        recompute()  # the package's calibration
    if as_json:
        output.document(render(found))
    else:
        render_gpu(found)


def _grade_predictions(
    names: tuple[str, ...],
    size: str,
    repeats: int,
    out: Path | None,
    *,
    again: bool,
    run: bool,
    as_json: bool,
) -> None:
    """Measure the pairs, if asked to, and show how well predictions fit."""
    from stepwhy.cli.lab_accuracy import measure_accuracy, recompute, to_measure
    from stepwhy.cli.measuring import run_folder, run_progress
    from stepwhy.show.json import render
    from stepwhy.show.terminal.accuracy import render_accuracy

    if run and (chosen := to_measure(names, again=again)):
        folder = run_folder(out, "lab-predict")
        with run_progress() as progress:
            measure_accuracy(chosen, size, repeats, folder, progress)
    found = recompute()
    if as_json:
        output.document(render(found))
    else:
        render_accuracy(found)


def _run(
    pair: Pair, size: str, repeats: int, out: Path | None, *, allow_busy: bool
) -> tuple[LabResult, Path]:
    """Run the programs; returns the result and the folder of the runs."""
    from stepwhy.cli.lab_pairs import programs_of
    from stepwhy.cli.measuring import run_folder, run_progress
    from stepwhy.measure import forecast, judge_pair, measure_pairs

    folder = run_folder(out, f"lab-{pair.name.replace('/', '-')}")
    sides = programs_of(pair, size, folder)
    day = datetime.now().astimezone().date()
    warning = forecast(repeats)
    if warning:
        output.line(f"stepwhy: {warning}")
    with run_progress() as progress:
        faulty, fixed = measure_pairs(sides, repeats, allow_busy=allow_busy, progress=progress)
    about = (pair.name, pair.title, pair.diagnosis)
    return judge_pair(*about, faulty, fixed, requested=repeats, day=day), folder
