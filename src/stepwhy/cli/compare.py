"""`stepwhy compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwhy import output
from stepwhy.cli.bench import (
    batch_option,
    budget_option,
    busy_option,
    json_option,
    out_option,
    repeats_option,
)
from stepwhy.cli.privacy import redact_option

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.bench import Trial
    from stepwhy.cli.programs import Source
    from stepwhy.findings import Comparison

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
@budget_option
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
    repeats: int | None,
    budget: float,
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
    of any profiler. Programs run alternately, A B B A, so that a slow machine affects both, until
    it is clear which is faster or that they are the same, at most three minutes (--budget). Stored
    runs and traces are compared as they are.

    \b
    Exit codes with --fail-if-slower:
      0  B is not slower than the limit
      1  B is slower than the limit
      7  cannot tell; try more runs or a quieter machine
    """  # noqa: D301 - \b keeps click from re-wrapping
    from stepwhy.cli.comparing import Plan, runs
    from stepwhy.cli.programs import source
    from stepwhy.engine.privacy import redactor_of

    # A single redactor numbers a secret that is in both in the same way.
    redactor = redactor_of(redact)
    sources = (source(a, redactor), source(b, redactor))
    plan = Plan(repeats, budget, margin, allow_busy)
    trial, folder = runs(sources, plan, out, redactor)
    requested = (repeats or 2) if folder else 1
    result = _compare(sources, trial, margin, requested, batch_size)
    _show(result, folder, as_json=as_json)
    if fail_if_slower is not None:
        ctx.exit(exit_code(result, fail_if_slower))


def _compare(
    sources: tuple[Source, Source],
    trial: Trial,
    margin: float,
    requested: int,
    batch_size: int | None,
) -> Comparison:
    from stepwhy.bench import compare as compare_runs

    labels = (sources[0].label, sources[1].label)
    return compare_runs(
        labels,
        trial.a,
        trial.b,
        margin=margin,
        requested=requested,
        batch_size=batch_size,
        level=trial.level,
        alternated=not any(s.stored for s in sources),
    )


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
    if result.quiet is False or result.pairs < 2 or result.low is None or result.high is None:
        return EXIT_UNDECIDED
    if result.high <= allowed:
        return 0
    if result.low > 0 and result.change > allowed:
        return EXIT_SLOWER
    return 0 if result.verdict in ("same", "faster") else EXIT_UNDECIDED
