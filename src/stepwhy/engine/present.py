"""Present a finished run: write the report as a page, and print it on the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base import output
from stepwhy.base.errors import OutputError, StepwhyError
from stepwhy.base.text import visible
from stepwhy.base.whole_files import write_whole
from stepwhy.engine.timeline import explain_with_timeline
from stepwhy.read.inputs.kinds import is_file
from stepwhy.show import html, json, terminal
from stepwhy.show.console import Console
from stepwhy.show.passed_on import with_short_paths

if TYPE_CHECKING:
    from stepwhy.result import Result
    from stepwhy.result.timeline import Timeline

_PAGE = "report.html"
_RESULT = "result.json"
_RUN = "run.json"


def as_seen_from_here(path: Path) -> Path:
    """The path relative to the working directory, if it is inside."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def show(
    result: Result,
    run_dir: Path,
    console: Console,
    timeline: Timeline | None = None,
    *,
    again: Path | None = None,
) -> None:
    """Write the report as a page into the run directory, and print it.

    A run directory also gets the result as JSON, which `stepwhy serve` lists.

    Args:
        result: The result.
        run_dir: The run directory.
        console: Where to print.
        timeline: The timeline for the page; None for a page without one.
        again: What to explain for the same report; None for the run directory.

    Raises:
        OutputError: The page or the result cannot be written; the report was printed.
    """
    page, short = run_dir / _PAGE, with_short_paths(result)
    try:
        html.write(page, short, timeline)
        if is_file(run_dir / _RUN):
            _write_result(run_dir / _RESULT, short)
    finally:
        # Also if the page cannot be written: a full disk may be the problem of the run.
        terminal.render(result, console=console)
    for line in (f"Report as a page: {page}", f"Again: stepwhy explain {again or run_dir}"):
        console.print(visible(output.public(line)), soft_wrap=True)


def _write_result(path: Path, result: Result) -> None:
    """Write the result as JSON.

    Raises:
        OutputError: It cannot be written.
    """
    try:
        write_whole(path, json.render(result).encode())
    except OSError as error:
        raise OutputError(
            f"the result {path} cannot be written: {error.strerror}", "Free some space"
        ) from None


def main(arguments: list[str]) -> int:
    """Explain a run for the training program, which started this process.

    The report is printed to standard error. The result as JSON is printed to standard output; if
    there is none, the reason is printed there.

    Args:
        arguments: The run directory.

    Returns:
        The exit code; 0 if there is a result.
    """
    output.guard()
    run_dir = as_seen_from_here(Path(arguments[0]))
    try:
        result, timeline = explain_with_timeline([str(run_dir)])
        show(result, run_dir, Console(stderr=True), timeline)
    except StepwhyError as error:
        output.document(output.public(f"{error} [{error.slug}]"))
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the training program expects a reason
        output.document(visible(output.public(f"{type(error).__name__}: {error}")))
        return 1
    output.document(json.render(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
