"""`stepwhy placement`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwhy.base import output
from stepwhy.cli.bench import json_option
from stepwhy.cli.privacy import redact_option
from stepwhy.cli.small_inputs import bounded

if TYPE_CHECKING:
    from stepwhy.result import PlacementResult

_RUNS = 2


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH [PATH]")
@click.option("--scope", default="", metavar="SCOPE", help="Only operations in this name scope.")
@click.option(
    "--device",
    default="",
    metavar="DEVICE",
    help="Only operations that ran on this device, or part of one: GPU:0, /job:ps.",
)
@click.option(
    "--moved", is_flag=True, help="Only operations that did not run on the requested device."
)
@json_option
@redact_option
@bounded
def placement(
    paths: tuple[str, ...], scope: str, device: str, *, moved: bool, as_json: bool, redact: bool
) -> None:
    """List the requested and the actual device of the operations of a graph.

    PATH is a run directory of 'stepwhy run' or a RunMetadata file. Given two, lists the operations
    that differ in their device, in whether they ran, or in the copies that they cause.
    """
    if len(paths) > _RUNS:
        raise click.UsageError("one run, or two to compare")
    result = _read(paths, scope, device, moved=moved, redact=redact)
    if as_json:
        from stepwhy.show.json import render

        output.document(render(result))
        return
    from stepwhy.show.terminal.placement import render_placement

    render_placement(result, every=bool(scope or device or moved))


def _read(
    paths: tuple[str, ...], scope: str, device: str, *, moved: bool, redact: bool
) -> PlacementResult:
    from stepwhy import __version__
    from stepwhy.analyse.answers.placement import differences, select
    from stepwhy.cli.progress import progress
    from stepwhy.engine.explain import read_placement
    from stepwhy.engine.privacy import redactor_of
    from stepwhy.read.inputs.remote.addresses import shown
    from stepwhy.result import PlacementResult

    # A single redactor numbers a secret that is in both in the same way.
    redactor = redactor_of(redact)
    with progress(paths) as report:
        read = [read_placement(path, report, redact=redactor) for path in paths]
    tables = [select(one, scope=scope, device=device, elsewhere=moved) for one in read]
    names = [redactor.text(shown(path)) for path in paths]
    if len(paths) == 1:
        return PlacementResult(names[0], tables[0], stepwhy=__version__)
    changed = differences((names[0], tables[0]), (names[1], tables[1]))
    return PlacementResult(names[1], difference=changed, stepwhy=__version__)
