"""`stepwhy ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from stepwhy.base import output
from stepwhy.cli.bench import json_option
from stepwhy.cli.privacy import redact_option
from stepwhy.cli.small_inputs import bounded

if TYPE_CHECKING:
    from stepwhy.result.profile import View


@click.command()
@click.argument("path", metavar="PATH")
@click.option(
    "--view",
    "kind",
    type=click.Choice(["scope", "graph", "op", "code", "line", "tree"]),
    default="op",
    show_default=True,
    help="Group by name scope or module, by graph inputs, by op type, or by source line; or "
    "divide the whole step, with its waits, among the lines of the program ('line'); or list "
    "what each line calls, down to the kernels, with host and device time ('tree').",
)
@click.option(
    "--sort",
    "order",
    type=click.Choice(["time", "bytes", "count"]),
    default="time",
    show_default=True,
    help="Column to sort by; lines and the tree are sorted by time.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Maximum number of rows; JSON has all.",
)
@json_option
@redact_option
@bounded
def ops(path: str, kind: str, order: str, top: int, *, as_json: bool, redact: bool) -> None:
    """List time and memory of operations per step, or the time of each line of the program.

    PATH is anything that 'stepwhy explain' accepts. If the trace does not support a view, the
    command says why.
    """
    from msgspec.structs import replace

    from stepwhy import __version__
    from stepwhy.cli.progress import progress
    from stepwhy.engine.opening import open_one
    from stepwhy.engine.privacy import redactor_of
    from stepwhy.engine.profile import profile
    from stepwhy.read.inputs.remote.addresses import shown

    redactor = redactor_of(redact)
    with progress((path,)) as report:
        trace = open_one(path, report, redact=redactor).trace
    name = redactor.text(shown(path))
    result = replace(profile(trace, name, cast("View", kind), order), stepwhy=__version__)
    if as_json:
        from stepwhy.show.json import render

        output.document(render(result))
        return
    from stepwhy.show.terminal.profile import render_profile

    render_profile(result, order, top)
