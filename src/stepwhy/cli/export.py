"""`stepwhy export`."""

from __future__ import annotations

from pathlib import Path

import click

from stepwhy import output
from stepwhy.cli.privacy import redact_option
from stepwhy.cli.small_inputs import bounded
from stepwhy.patterns import regex

_FORMATS = ("chrome-trace", "perfetto", "parquet", "stepwhy")
_ENDINGS = regex(r"(\.pt)?(\.trace|\.xplane)?(\.json|\.pb|\.stepwhy)?(\.(gz|zst|xz|bz2|zip))?$")


@click.command()
@click.argument("path", metavar="PATH")
@click.option(
    "--to",
    "form",
    type=click.Choice(_FORMATS),
    default="chrome-trace",
    show_default=True,
    help="Format: 'chrome-trace' is what Perfetto reads, too; 'parquet' is a folder of tables.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write; by default named after PATH, in this folder. A '.gz' is compressed.",
)
@redact_option
@bounded
def export(path: str, form: str, out: Path | None, *, redact: bool) -> None:
    """Write a trace for other programs: a timeline to look at, or tables to query.

    PATH is what 'stepwhy explain' takes. Open a Chrome trace at ui.perfetto.dev or
    chrome://tracing; 'stepwhy explain' reads it back with nothing lost.
    """
    from stepwhy.cli.progress import progress
    from stepwhy.engine.explain import open_one
    from stepwhy.engine.privacy import redactor_of
    from stepwhy.errors import OutputError
    from stepwhy.export import WRITERS
    from stepwhy.inputs.remote.addresses import shown

    redactor = redactor_of(redact)
    with progress((path,)) as report:
        trace = open_one(path, report, redact=redactor).trace
    ending, write = WRITERS[form]
    name = redactor.text(Path(shown(path)).resolve().name)
    file = out or Path(_ENDINGS.sub("", name) + ending)
    if file.exists() and Path(path).exists() and file.samefile(path):
        raise OutputError(f"{file.name} is what was to be exported", "Name another file with --out")
    write(trace, file)
    output.line(f"Exported: {file}")
