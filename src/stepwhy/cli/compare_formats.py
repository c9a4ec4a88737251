"""Where `stepwhy compare` prints its result, and in which formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stepwhy.base import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.base.errors import StepwhyError
    from stepwhy.result import Comparison
    from stepwhy.result.gate import Gate

FORMATS = ("text", "json", "github", "junit", "bmf")
NAME = "step time"

_OPTIONS = (
    click.option(
        "--format",
        "formats",
        type=click.Choice(FORMATS),
        multiple=True,
        help="'github': Markdown for a job's summary or a pull request; 'junit': a test report; "
        "'bmf': Bencher Metric Format. May be repeated.",
    ),
    click.option(
        "--output",
        "outputs",
        type=click.Path(dir_okay=False, path_type=Path),
        multiple=True,
        metavar="FILE",
        help="Write the --format to a file and print the report; repeat it for each --format.",
    ),
    click.option(
        "--name",
        default=NAME,
        show_default=True,
        help="What is compared, as 'github', 'junit' and 'bmf' name it.",
    ),
)


def format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of formats to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Target(NamedTuple):
    """A format, and the file for it; None for standard output."""

    form: str
    file: Path | None


def targets(formats: tuple[str, ...], outputs: tuple[Path, ...], *, as_json: bool) -> list[Target]:
    """What to print: the first file is for the first format, and so on.

    Args:
        formats: The formats.
        outputs: Files for them; if there are fewer, the last format goes to standard output.
        as_json: Whether `--json` was used.

    Raises:
        click.UsageError: There are more files than formats, or several formats for standard output.
    """
    if len(outputs) > len(formats):
        raise click.UsageError("Each --output needs a --format before it.")
    if len(set(outputs)) < len(outputs):
        raise click.UsageError("Two --output name the same file.")
    found = [Target(form, file) for form, file in zip(formats, outputs, strict=False)]
    printed = [*formats[len(outputs) :], *(["json"] if as_json else [])] or ["text"]
    if len(dict.fromkeys(printed)) > 1:
        raise click.UsageError("Only one format can be printed; name an --output for the others.")
    return [*found, Target(printed[0], None)]


def show(
    wanted: list[Target], result: Comparison, gate: Gate, name: str, folder: Path | None
) -> None:
    """Print a comparison, or write it to files.

    Args:
        wanted: Formats and files.
        result: The comparison.
        gate: The limit, and whether it is kept.
        name: Name of the comparison.
        folder: Folder of new runs; None without any.

    Raises:
        OutputError: A file cannot be written.
    """
    for form, file in wanted:
        if form == "text" and file is None:
            from stepwhy.show.terminal.measurement import render_comparison

            render_comparison(result)
            if folder:
                output.line(f"Runs: {folder}")
        else:
            _put(_rendered(form, result, gate, name), file)


def show_failure(wanted: list[Target], error: StepwhyError, name: str) -> None:
    """Print why there is no comparison, in the formats that can show it.

    Args:
        wanted: Formats and files.
        error: What went wrong.
        name: Name of the comparison.

    Raises:
        OutputError: A file cannot be written.
    """
    from stepwhy.show.ci import FAILURES

    for form, file in wanted:
        if form in FAILURES:
            _put(FAILURES[form](error, name), file)


def _rendered(form: str, result: Comparison, gate: Gate, name: str) -> str:
    if form == "text":
        return _plain_report(result)
    if form == "json":
        from stepwhy.show.json import render

        return render(result)
    from stepwhy.show.ci import FORMATS

    return FORMATS[form](result, gate, name)


def _plain_report(result: Comparison) -> str:
    """The report of the terminal, without colours."""
    from io import StringIO

    from stepwhy.show.console import Console
    from stepwhy.show.terminal.measurement import render_comparison

    text = StringIO()
    render_comparison(result, Console(file=text, width=100))
    return text.getvalue()


def _put(text: str, file: Path | None) -> None:
    """Print a document or write it to a file, completely or not at all."""
    if file is None:
        output.document(text)
        return
    from stepwhy.base.errors import OutputError
    from stepwhy.base.text import utf8
    from stepwhy.base.whole_files import output_file

    try:
        with output_file(file) as opened:
            opened.write(utf8(text))
    except OSError as error:
        raise OutputError(
            f"{file} cannot be written: {error.strerror or error}",
            "Name a file in a folder that exists and that you may write to with --output",
        ) from error
