"""`stepwhy mcp`."""

from __future__ import annotations

import sys

import click

from stepwhy.base import output


@click.command()
@click.argument("folders", nargs=-1, metavar="[DIR]...")
@click.option(
    "--allow-remote",
    is_flag=True,
    help="Also read traces at addresses (https://, s3://, gs://) that a client names.",
)
def mcp(folders: tuple[str, ...], *, allow_remote: bool) -> None:
    """Let programs with a language model ask about recorded runs.

    Serves the Model Context Protocol (MCP) on standard input and output; an MCP client starts this
    command. Its tools list, explain, compare and query the runs and traces in DIR, by default the
    current folder, and predict what changes would gain. They read nothing outside of DIR, run no
    program and write no file. Secrets and private names are always redacted.

    Needs the extra 'mcp'; without it, an error names the command that installs it.
    """
    from stepwhy.apps.agents.folders import folders_of
    from stepwhy.base.children import module_command
    from stepwhy.base.optional import needs_extra

    served = folders_of(folders, allow_remote=allow_remote)
    with needs_extra("mcp", "Servers for agents"):
        import anyio

        from stepwhy.apps.agents.server import serve
    if sys.stdin is not None and sys.stdin.isatty():
        output.line("stepwhy: waiting for an MCP client on standard input; Ctrl-C ends")
    anyio.run(serve, module_command("stepwhy.cli.mcp_call"), served)
