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
    help="Format of the output, see above.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Output file, compressed if it ends with '.gz'; default: named after PATH, in '.'.",
)
@redact_option
@bounded
def export(path: str, form: str, out: Path | None, *, redact: bool) -> None:
    """Export a trace as a timeline to view or as tables to query.

    PATH is anything that 'stepwhy explain' accepts.

    \b
    Formats:
      chrome-trace  JSON for ui.perfetto.dev and chrome://tracing (.trace.json.gz)
      perfetto      the same as chrome-trace
      parquet       a folder with one Parquet table per file, for data frames and SQL
      stepwhy       the whole trace in one compact file, to keep or to send (.stepwhy)

    'stepwhy explain' reads chrome-trace and stepwhy back without loss. parquet and stepwhy need:
    pip install "stepwhy[parquet]".
    """  # noqa: D301 - \b keeps click from re-wrapping
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
        raise OutputError(f"{file.name} is the input of the export", "Name another file with --out")
    write(trace, file)
    output.line(f"Exported: {file}")
