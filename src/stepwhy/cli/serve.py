"""`stepwhy serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwhy.base import output

if TYPE_CHECKING:
    from stepwhy.apps.serve.server import Started


@click.command()
@click.argument(
    "folder",
    required=False,
    default="stepwhy-runs",
    metavar="[DIR]",
    type=click.Path(path_type=Path),
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on. If other machines can reach it, reading needs the token, too.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8600,
    show_default=True,
    help="Port to listen on; 0 for any that is free.",
)
@click.option(
    "--private",
    is_flag=True,
    help="Ask for the token for reading, too: for machines that others can log in to.",
)
def serve(folder: Path, host: str, port: int, *, private: bool) -> None:
    """Show many runs on one page: list, filter, trend of the step time, compare.

    DIR holds run directories of 'stepwhy run' (default: stepwhy-runs), and stored results and
    pages of 'stepwhy explain'. New runs appear by themselves. The printed address contains a token,
    without which nothing can be changed. Ctrl-C ends the server.

    Needs the extra 'serve'; without it, an error names the command that installs it.
    """
    from stepwhy.apps.serve.server import serve as serve_folder

    try:
        serve_folder(folder, host, port, private=private, started=_say)
    except KeyboardInterrupt:
        output.line("Ended.")


def _say(started: Started) -> None:
    """Print the address, which is no message: to standard output, with its token."""
    runs = "1 run" if started.runs == 1 else f"{started.runs:,} runs"
    output.line(f"{runs}. Ctrl-C ends the server. Open this address; it allows changes:")
    output.document(f"{started.url}\n")
    if not started.is_local:
        output.line(
            "Other machines can reach this address, and what is sent is not encrypted. On a "
            "network that you do not trust, listen on 127.0.0.1 and forward the port with 'ssh -L'."
        )
