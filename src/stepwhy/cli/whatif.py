"""`stepwhy whatif`."""

from __future__ import annotations

import os.path
from pathlib import Path

import click

from stepwhy.base import output
from stepwhy.cli.bench import json_option
from stepwhy.cli.privacy import redact_option
from stepwhy.cli.small_inputs import bounded


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="PATH... [CHANGE...]")
@click.option(
    "--edit",
    "texts",
    multiple=True,
    metavar="WHAT[:PATTERN]=CHANGE",
    help="A change, such as input=free, kernels:*gemm*=2x or syncs=gone, as after PATH; repeat it "
    "for a combination.",
)
@click.option(
    "--timeline",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write a timeline for Perfetto, with the predicted steps beneath the recorded ones.",
)
@json_option
@redact_option
@bounded
def whatif(
    arguments: tuple[str, ...],
    texts: tuple[str, ...],
    *,
    timeline: Path | None,
    as_json: bool,
    redact: bool,
) -> None:
    """Predict the step time after a change of the program.

    PATH is anything that 'stepwhy explain' accepts, and a CHANGE is WHAT[:PATTERN]=CHANGE. All
    changes are made together. Without any, stepwhy predicts the fix of each finding, and the most
    that each part of the step could gain.

    \b
    input=free             the next batch is always ready
    input=workers:4        four workers prepare batches beside the step
    kernels:*gemm*=2x      matching kernels are twice as fast (gone, fused)
    ops:aten::add_=gone    matching operations do not run (2x)
    copies:h2d=25GB/s      copies at another bandwidth (pinned, overlapped, gone)
    launches=0.5x          half as many launches (gone)
    syncs=gone             the host does not wait for the device
    communication=2x       exchanges are twice as fast (overlapped, bucketed, gone)
    python=gone            also: dispatch, compile, storage
    stage:3=even           a pipeline stage, or a rank, takes as long as the others
    variance=gone          each operation of a rank takes as long in every step
    link:6-7=even          exchanges of two ranks take as long as usual (2x, gone)
    group:dp=2x            exchanges of a kind of process group (even, gone)
    """  # noqa: D301 - \b keeps click from re-wrapping
    from stepwhy.cli.progress import progress
    from stepwhy.engine.whatif import predict
    from stepwhy.result import is_edit, parse_edit

    # What is the name of a file is a path, whatever it looks like.
    changes = [text for text in arguments if is_edit(text) and not os.path.lexists(text)]
    paths = [text for text in arguments if text not in changes]
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'")
    if timeline is not None and not (*texts, *changes):
        raise click.UsageError("--timeline needs a change, such as input=free")
    edits = [parse_edit(text) for text in (*texts, *changes)]
    with progress(paths) as report:
        result = predict(paths, edits, report, redact=redact, timeline=timeline)
    if as_json:
        from stepwhy.show.json import render

        output.document(render(result))
        return
    from stepwhy.show.terminal.whatif import render_whatif

    render_whatif(result)
    if timeline is not None:
        output.line(f"Timeline: {timeline}")
