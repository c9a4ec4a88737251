"""The options of `stepwhy run` that publish metrics while the training runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.record.launcher.launch import Publish
    from stepwhy.show.metrics.publishing import Publications, Publisher

_HIGHEST_PORT = 65_535


def metrics_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command."""
    for option in (
        click.option(
            "--otlp",
            metavar="URL",
            help="Send metrics to the OpenTelemetry collector at URL, as http://localhost:4318.",
        ),
        click.option(
            "--metrics-port",
            type=click.IntRange(1, _HIGHEST_PORT),
            metavar="PORT",
            help="Offer metrics to Prometheus at http://127.0.0.1:PORT/metrics.",
        ),
        click.option(
            "--metrics-file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Write metrics to FILE every few seconds, for node_exporter.",
        ),
    ):
        command = option(command)
    return command


def publication(
    file: Path | None, port: int | None, otlp: str | None, *, report: Callable[[str], None]
) -> Publish | None:
    """What publishes the metrics of a run; None if no option asks for it, or nothing can.

    Args:
        file: `--metrics-file`.
        port: `--metrics-port`.
        otlp: `--otlp`.
        report: Prints a line about each publisher that cannot work.
    """
    publishers = _publishers(file, port, otlp)
    if not publishers:
        return None
    from stepwhy.show.metrics.publishing import Publications, prepared

    able = prepared(publishers, lambda text: report(f"stepwhy: {text}"))
    if not able:
        return None

    def publish(run_dir: Path, failed: Callable[[str], None]) -> Publications:
        from stepwhy.apps.top import LiveRun

        return Publications(able, LiveRun(run_dir).read, failed)

    return publish


def _publishers(file: Path | None, port: int | None, otlp: str | None) -> list[Publisher]:
    publishers: list[Publisher] = []
    if file is not None:
        from stepwhy.show.metrics.textfile import Textfile

        publishers.append(Textfile(file))
    if port is not None:
        from stepwhy.show.metrics.endpoint import Endpoint

        publishers.append(Endpoint(port))
    if otlp is not None:
        from stepwhy.show.metrics.otlp import Otlp

        publishers.append(Otlp(otlp))
    return publishers
