"""`stepwhy export`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwhy.base import output
from stepwhy.base.patterns import regex
from stepwhy.cli.privacy import redact_option
from stepwhy.cli.small_inputs import bounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.base.redaction import Redactor

_FORMATS = (
    "chrome-trace", "perfetto", "speedscope", "parquet", "stepwhy", "tensorboard", "prometheus",
)  # fmt: skip
# What opens the output of each format.
_OPENED_BY = {
    "chrome-trace": "Open it at https://ui.perfetto.dev or in chrome://tracing.",
    "perfetto": "Open it at https://ui.perfetto.dev or in chrome://tracing.",
    "speedscope": "Open it at https://www.speedscope.app; choose 'Left Heavy' for a flame graph.",
    "parquet": "Read its tables with pandas, Polars or DuckDB, such as {}/slices.parquet.",
    "stepwhy": "Explain it anywhere: stepwhy explain {}",
    "tensorboard": "Show it: tensorboard --logdir {}",
    "prometheus": "Prometheus reads it through the textfile collector of its node exporter.",
}
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
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
@redact_option
@bounded
def export(path: str, form: str, out: Path | None, *, overwrite: bool, redact: bool) -> None:
    """Export a run or trace as a timeline to view, as tables to query, or for dashboards.

    PATH is anything that 'stepwhy explain' accepts.

    \b
    Formats:
      chrome-trace  JSON for ui.perfetto.dev and chrome://tracing (.trace.json.gz)
      perfetto      the same as chrome-trace
      speedscope    the call tree of the steps, host and device, for speedscope.app
      parquet       a folder with one Parquet table per file, for data frames and SQL
      stepwhy       the whole trace in one compact file, to keep or to send (.stepwhy)
      tensorboard   a folder for 'tensorboard --logdir': curves by step, and the report
      prometheus    metrics as text, for Prometheus (.prom)

    'stepwhy explain' reads chrome-trace and stepwhy back without loss. parquet and stepwhy need
    the extra 'parquet', tensorboard and prometheus those of their names; an error says how to
    install them.
    """  # noqa: D301 - \b keeps click from re-wrapping
    from stepwhy.base.errors import OutputError
    from stepwhy.base.whole_files import replaces
    from stepwhy.engine.privacy import redactor_of
    from stepwhy.read.inputs.remote.addresses import shown

    redactor = redactor_of(redact)
    name = redactor.text(Path(shown(path)).resolve().name)
    ending, write = _writer(form, path, _ENDINGS.sub("", name), redactor)
    file = out or Path(_ENDINGS.sub("", name) + ending)
    if file.exists() and Path(path).exists() and file.samefile(path):
        raise OutputError(f"{file.name} is the input of the export", "Name another file with --out")
    if replaces(file) and not overwrite:
        raise OutputError(f"{file.name} exists", "Name another file with --out, or add --overwrite")
    write(file)
    output.line(f"Exported: {file}")
    output.line(_OPENED_BY[form].format(shlex.quote(str(file))))


def _writer(
    form: str, path: str, name: str, redactor: Redactor
) -> tuple[str, Callable[[Path], None]]:
    """Read the input; return the extension of the output's name, and what writes it.

    Args:
        form: Name of the format.
        path: The input, as the user named it.
        name: Name of the run, redacted.
        redactor: What replaces secrets and private facts.
    """
    from stepwhy.cli.progress import progress
    from stepwhy.engine.opening import open_one
    from stepwhy.engine.series import explain_with_series
    from stepwhy.show.export import EXPLAINED_WRITERS, WRITERS

    if form in WRITERS:
        ending, write = WRITERS[form]
        with progress((path,)) as report:
            trace = open_one(path, report, redact=redactor).trace
        return ending, lambda file: write(trace, file)
    ending, write_explained = EXPLAINED_WRITERS[form]
    with progress((path,)) as report:
        explained = explain_with_series(path, name, report, redactor)
    return ending, lambda file: write_explained(explained, file)
