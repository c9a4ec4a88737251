"""`stepwhy compare`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from stepwhy import output
from stepwhy.cli.bench import (
    batch_option,
    busy_option,
    json_option,
    out_option,
    repeats_option,
)
from stepwhy.cli.privacy import redact_option

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.bench import Sample
    from stepwhy.cli.programs import Source
    from stepwhy.findings import Comparison
    from stepwhy.redaction import Redactor

EXIT_SLOWER = 1
EXIT_UNDECIDED = 7


class _Share(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on
    """A percentage, '3%' or '3', as a fraction."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert the text to a fraction."""
        if isinstance(value, float):
            return value
        try:
            share = float(str(value).strip().removesuffix("%")) / 100
        except ValueError:
            share = -1.0
        if not 0 < share < 10:
            self.fail(f"{value!r} is not a percentage above 0, such as 3%", param, ctx)
        return share


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@repeats_option
@click.option(
    "--margin",
    type=_Share(),
    default="3%",
    show_default=True,
    metavar="PERCENT",
    help="Largest change that counts as the same.",
)
@click.option(
    "--fail-if-slower",
    type=_Share(),
    metavar="PERCENT",
    help="Exit with 1 if B is slower by more than this, with 7 if that is unknown.",
)
@out_option
@batch_option
@busy_option
@json_option
@redact_option
@click.pass_context
def compare(  # noqa: PLR0917 - click passes them by name
    ctx: click.Context,
    a: str,
    b: str,
    repeats: int,
    margin: float,
    fail_if_slower: float | None,
    out: Path | None,
    batch_size: int | None,
    *,
    allow_busy: bool,
    as_json: bool,
    redact: bool,
) -> None:
    """Find out whether B is faster or slower than A, and what differs.

    A and B are scripts, commands in quotes, run directories, folders of 'stepwhy bench', or traces
    of any profiler. Programs run alternately, A B B A, so that a slow machine affects both. Stored
    runs and traces are compared as they are.

    \b
    Exit codes with --fail-if-slower:
      0  B is not slower than the limit
      1  B is slower than the limit
      7  cannot tell; try more runs or a quieter machine
    """  # noqa: D301 - \b keeps click from re-wrapping
    from stepwhy.cli.programs import source
    from stepwhy.engine.privacy import redactor_of

    # A single redactor numbers a secret that is in both in the same way.
    redactor = redactor_of(redact)
    sources = (source(a, redactor), source(b, redactor))
    samples, folder = _samples(sources, repeats, out, redactor, allow_busy=allow_busy)
    result = _compare(sources, samples, margin, repeats if folder else 1, batch_size)
    _show(result, folder, as_json=as_json)
    if fail_if_slower is not None:
        ctx.exit(exit_code(result, fail_if_slower))


def _samples(
    sources: tuple[Source, Source],
    repeats: int,
    out: Path | None,
    redactor: Redactor,
    *,
    allow_busy: bool,
) -> tuple[tuple[list[Sample], list[Sample]], Path | None]:
    """The runs of both, and the folder of new runs; None if all were stored."""
    from stepwhy.bench import measure, measure_pairs
    from stepwhy.capture.launcher.command import default_run_dir
    from stepwhy.cli.measuring import new_folder, run_progress
    from stepwhy.cli.programs import program, stored_samples

    if all(s.stored for s in sources):
        samples = [stored_samples(s, redactor, allow_busy=allow_busy) for s in sources]
        return (samples[0], samples[1]), None
    folder = new_folder(out or default_run_dir(["compare"], datetime.now().astimezone()))
    programs = [
        program(s.label, s.command, folder / name, folder)
        for s, name in zip(sources, ("a", "b"), strict=True)
    ]
    with run_progress() as progress:
        if not any(s.stored for s in sources):
            return (
                measure_pairs(programs, repeats, allow_busy=allow_busy, progress=progress),
                folder,
            )
        made = [
            stored_samples(s, redactor, allow_busy=allow_busy)
            if s.stored
            else measure(p, repeats, allow_busy=allow_busy, progress=progress)
            for s, p in zip(sources, programs, strict=True)
        ]
        return (made[0], made[1]), folder


def _compare(
    sources: tuple[Source, Source],
    samples: tuple[list[Sample], list[Sample]],
    margin: float,
    requested: int,
    batch_size: int | None,
) -> Comparison:
    from msgspec.structs import replace

    from stepwhy.bench import compare as compare_runs

    labels = (sources[0].label, sources[1].label)
    result = compare_runs(
        labels, *samples, margin=margin, requested=requested, batch_size=batch_size
    )
    if not any(s.stored for s in sources) or result.pairs < 2:
        return result
    note = (
        "The runs did not alternate: a change of the machine between them looks like a "
        "difference of the programs."
    )
    return replace(result, notes=(*result.notes, note))


def _show(result: Comparison, folder: Path | None, *, as_json: bool) -> None:
    from stepwhy.cli.measuring import save_result
    from stepwhy.cli.programs import COMPARE_FILE
    from stepwhy.report.json import render

    text = save_result(folder / COMPARE_FILE, result) if folder else render(result)
    if as_json:
        output.document(text)
        return
    from stepwhy.report.terminal.measurement import render_comparison

    render_comparison(result)
    if folder:
        output.line(f"Runs: {folder}")


def exit_code(result: Comparison, allowed: float) -> int:
    """Exit code of `--fail-if-slower`.

    Args:
        result: The comparison.
        allowed: Largest slowdown that passes, such as 0.03.
    """
    if result.quiet is False or result.low is None or result.high is None:
        return EXIT_UNDECIDED
    if result.high <= allowed:
        return 0
    if result.low > 0 and result.change > allowed:
        return EXIT_SLOWER
    return 0 if result.verdict in ("same", "faster") else EXIT_UNDECIDED
