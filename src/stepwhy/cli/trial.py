"""`stepwhy try`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from stepwhy.base import output
from stepwhy.base.errors import EditError
from stepwhy.cli.bench import Duration, json_option, out_option
from stepwhy.cli.words import CommandWithCommand, follows_dashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TRIAL_FILE = "trial.json"
_SEVERAL = "{} is run several times, and writes its own outputs each time."


@click.command(
    "try",
    cls=CommandWithCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--fix", "fix", metavar="NAME[=VALUE]", help="Fix to try, instead of a finding's.")
@click.option("--edit", metavar="EDIT", help="Try the fix that makes this change: input=free.")
@click.option(
    "--budget",
    type=Duration(),
    default="3m",
    show_default=True,
    metavar="TIME",
    help="Begin no further run after this time; such as 90s, 10m or 1h.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="End each run after N steps (PyTorch, Keras' fit, TensorFlow 1 sessions).",
)
@click.option("--list", "listed", is_flag=True, help="List the fixes, and try nothing.")
@out_option
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="TARGET [FINDING] [ARGS]...")
@click.pass_context
def trial(
    ctx: click.Context,
    fix: str | None,
    edit: str | None,
    *,
    budget: float,
    steps: int | None,
    out: Path | None,
    listed: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Apply the fix of a finding at run time to an unmodified program, and measure its gain.

    TARGET is a script with its arguments, a command after '--', or the run directory of an earlier
    run, whose command is run again. FINDING is the id of a diagnosis, right after TARGET. Without
    it, the first finding that has a fix is tried. The program is run several times, with and
    without the fix; no file of it is changed.
    """
    if listed:
        from stepwhy.measure.fixes import FIXES
        from stepwhy.show.terminal.trial import render_fixes

        render_fixes([(fix.name, fix.title, fix.value, fix.diagnoses) for fix in FIXES])
        return
    if not words:
        raise click.UsageError("Missing argument 'TARGET'.", ctx)
    from stepwhy.cli.measuring import run_folder, save_result
    from stepwhy.cli.trial_choice import Wish, check, target, try_fix
    from stepwhy.cli.trial_runs import ProgramRunner
    from stepwhy.measure.trial import Budget
    from stepwhy.record.launcher.command import run_name

    command, diagnosis = target(words, is_command=follows_dashes(ctx))
    wish = Wish(diagnosis, fix or "", edit or "")
    check(wish)
    label = run_name(command)
    folder = run_folder(out, f"try-{label}")
    output.line(f"stepwhy: {_SEVERAL.format(label)}")
    with _progress() as progress:
        runner = ProgramRunner(command, folder, steps or 0, progress)
        result = try_fix(runner, command, wish, Budget(budget))
    text = save_result(folder / TRIAL_FILE, result)
    if as_json:
        output.document(text)
    else:
        from stepwhy.show.terminal.trial import render_trial

        render_trial(result)
        output.line(f"Runs: {folder}")
    if result.verdict == "refused":
        ctx.exit(EditError.exit_code)


@contextmanager
def _progress() -> Iterator[Callable[[str], object]]:
    """Show what is running; nothing if standard error is not a terminal."""
    from stepwhy.cli.measuring import run_progress

    with run_progress() as update:
        count = 0

        def show(what: str) -> None:
            nonlocal count
            if update is not None:
                update(what, count, 0)
            count += 1

        yield show
