"""The option `--no-redact` of all commands that show parts of their input."""

from __future__ import annotations

import click

from stepwhy.base import output


def _choose(_ctx: click.Context, _option: click.Parameter, show_all: bool) -> bool:
    """Apply the option to errors and other lines, and return whether to redact."""
    output.redact(on=not show_all)
    return not show_all


redact_option = click.option(
    "--no-redact",
    "redact",
    is_flag=True,
    callback=_choose,
    help="Show tokens, passwords, user names, home folders and addresses as they were recorded.",
)
