"""What is made of a run directory when the run is over: the page, and the report on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy import output
from stepwhy.engine.explain import explain
from stepwhy.errors import StepwhyError
from stepwhy.report import html, json, terminal
from stepwhy.report.console import Console
from stepwhy.text import visible

if TYPE_CHECKING:
    from stepwhy.findings import Result

_PAGE = "report.html"


def as_seen_from_here(path: Path) -> Path:
    """A path below the working directory without what leads there."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def show(result: Result, run_dir: Path, console: Console) -> None:
    """Write the report as a page into the run directory, and print it.

    Args:
        result: What was found.
        run_dir: The run directory.
        console: Where to print.

    Raises:
        OutputError: The page cannot be written; the report was printed.
    """
    page = run_dir / _PAGE
    try:
        html.write(page, _to_pass_on(result))
    finally:
        # Also where the page cannot be written: the disk may be what is wrong with the run.
        terminal.render(result, console=console)
    for line in (f"Report as a page: {page}", f"Again: stepwhy explain {run_dir}"):
        console.print(visible(output.public(line)), soft_wrap=True)


def _to_pass_on(result: Result) -> Result:
    """A result in which no path tells where it was: a page is for others, too."""
    inputs = (replace(one, path="/".join(Path(one.path).parts[-2:])) for one in result.inputs)
    return replace(result, inputs=tuple(inputs))


def main(arguments: list[str]) -> int:
    """Explain a run for the program that it is a part of: the report goes to standard error.

    Args:
        arguments: The run directory.

    Returns:
        0, and the result as JSON went to standard output; else why there is none went there.
    """
    output.guard()
    run_dir = as_seen_from_here(Path(arguments[0]))
    try:
        result = explain([str(run_dir)])
        show(result, run_dir, Console(stderr=True))
    except StepwhyError as error:
        output.document(output.public(f"{error} [{error.slug}]"))
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the program that asked has to be told something
        output.document(visible(output.public(f"{type(error).__name__}: {error}")))
        return 1
    output.document(json.render(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
