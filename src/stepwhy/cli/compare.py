"""`stepwhy compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwhy.cli.bench import (
    batch_option,
    budget_option,
    busy_option,
    json_option,
    out_option,
    repeats_option,
)
from stepwhy.cli.compare_formats import format_options, show, show_failure, targets
from stepwhy.cli.privacy import redact_option

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.cli.comparing import Plan
    from stepwhy.cli.programs import Source
    from stepwhy.measure import Trial
    from stepwhy.result import Comparison
    from stepwhy.result.gate import Gate

_EXIT_CODES = {"passed": 0, "slower": 1, "unknown": 7}


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
    help="Exit with 1 if B is slower by more than this, with 7 if the runs do not show whether it "
    "is.",
)
@out_option
@batch_option
@busy_option
@json_option
@format_options
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
    formats: tuple[str, ...],
    outputs: tuple[Path, ...],
    name: str,
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
    Exit codes with --fail-if-slower PERCENT:
      0  passed: B is not slower than A by more than PERCENT
      1  regression: B is slower than A by more than PERCENT
      7  inconclusive: the runs do not show which; try more runs or a quieter machine
      6  broken: a program failed, or runs no step that can be measured; nothing was compared
      2 to 5  broken in another way: wrong usage, or what cannot be read, written or started

    Without --fail-if-slower, every comparison exits with 0, whatever it finds.
    """  # noqa: D301 - \b keeps click from re-wrapping
    from stepwhy.base.errors import StepwhyError
    from stepwhy.cli.comparing import Plan

    wanted = targets(formats, outputs, as_json=as_json)
    plan = Plan(repeats, budget, margin, allow_busy)
    try:
        result, folder = _measured(a, b, plan, out, batch_size, redact=redact)
    except StepwhyError as error:
        show_failure(wanted, error, name)
        raise
    limit = margin if fail_if_slower is None else fail_if_slower
    show(wanted, result, _gate(result, limit), name, folder)
    if fail_if_slower is not None:
        ctx.exit(exit_code(result, fail_if_slower))


def _measured(
    a: str, b: str, plan: Plan, out: Path | None, batch_size: int | None, *, redact: bool
) -> tuple[Comparison, Path | None]:
    """Make or read the runs, compare them, and store the result of new runs in their folder."""
    from stepwhy.cli.comparing import runs
    from stepwhy.cli.measuring import save_result
    from stepwhy.cli.programs import COMPARE_FILE, source
    from stepwhy.engine.privacy import redactor_of

    # A single redactor numbers a secret that is in both in the same way.
    redactor = redactor_of(redact)
    sources = (source(a, redactor), source(b, redactor))
    trial, folder = runs(sources, plan, out, redactor)
    requested = (plan.repeats or 2) if folder else 1
    result = _compare(sources, trial, plan.margin, requested, batch_size)
    if folder:
        save_result(folder / COMPARE_FILE, result)
    return result, folder


def _compare(
    sources: tuple[Source, Source],
    trial: Trial,
    margin: float,
    requested: int,
    batch_size: int | None,
) -> Comparison:
    from stepwhy.measure import compare as compare_runs

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


def _gate(result: Comparison, limit: float) -> Gate:
    from stepwhy.measure import gate

    return gate(result, limit)


def exit_code(result: Comparison, allowed: float) -> int:
    """Exit code of `--fail-if-slower`.

    Args:
        result: The comparison.
        allowed: Largest slowdown that passes, such as 0.03.
    """
    return _EXIT_CODES[_gate(result, allowed).outcome]
