"""What is made of a run directory when the run is over: the page, and the report on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from stepwhy.engine.explain import explain
from stepwhy.errors import StepwhyError
from stepwhy.report import html, json, terminal

if TYPE_CHECKING:
    from stepwhy.findings import Result

PAGE = "report.html"


def present(run_dir: Path, console: Console) -> Result:
    """Explain a run, write the report as a page into its directory, and print it.

    Args:
        run_dir: The run directory.
        console: Where to print.

    Raises:
        InputError: Nothing there can be explained.
        OutputError: The page cannot be written.
    """
    result = explain([str(run_dir)])
    html.write(run_dir / PAGE, result)
    terminal.render(result, console=console)
    console.print(f"Report as a page: {run_dir / PAGE}", soft_wrap=True)
    console.print(f"Again: stepwhy explain {run_dir}", soft_wrap=True)
    return result


def main(arguments: list[str]) -> int:
    """Present a run for the program that it is a part of: the report goes to standard error.

    Args:
        arguments: The run directory.

    Returns:
        0, and the result as JSON went to standard output; else why there is none went there.
    """
    console = Console(stderr=True, highlight=False, emoji=False, markup=False)
    try:
        result = present(Path(arguments[0]), console)
    except StepwhyError as error:
        sys.stdout.write(f"{error} [{error.slug}]")
        return error.exit_code
    sys.stdout.write(json.render(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
