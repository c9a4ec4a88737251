"""The server: the tools over the Model Context Protocol.

The protocol wants an object at the top of a schema, not a reference. Descriptions of fields are
left out of the schemas of answers: clients may put all schemas before each question to their model.
The published schemas (docs/reference) have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types as types
import msgspec
from mcp.server import Server
from mcp.server.stdio import stdio_server

from stepwhy import __version__
from stepwhy.apps.agents.answers import Answer, Failure, LeftOut
from stepwhy.apps.agents.catalog import INSTRUCTIONS, TOOLS
from stepwhy.apps.agents.child import Calls
from stepwhy.apps.agents.messages import Request
from stepwhy.show.schema import contract_schema

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stepwhy.apps.agents.catalog import Tool
    from stepwhy.apps.agents.child import Report
    from stepwhy.apps.agents.folders import Folders

    Call = Callable[[Request, Report], Awaitable[Answer | Failure]]

_DEFINITIONS = "$defs"
_REFERENCE = "$ref"
_LEFT_OUT = "left_out"


def make_server(call: Call, folders: Folders) -> Server[Any]:
    """A server for one connection.

    Args:
        call: Answers a call.
        folders: The folders that it may read.
    """
    tools = [_described(tool, allow_remote=folders.allow_remote) for tool in TOOLS.values()]

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        request = Request(params.name, arguments, folders.roots, folders.allow_remote)
        reply = await call(request, _reporter(context.session))
        if isinstance(reply, Failure):
            return types.CallToolResult(content=[_text(str(reply))], is_error=True)
        return types.CallToolResult(content=[_text(reply.text)], structured_content=reply.data)

    return Server(
        "stepwhy",
        version=__version__,
        title="stepwhy",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve(command: Sequence[str], folders: Folders) -> None:
    """Serve on standard input and output until the client closes them.

    Args:
        command: See `Calls`.
        folders: The folders that may be read.
    """
    server = make_server(Calls(command).answer, folders)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _described(tool: Tool, *, allow_remote: bool) -> types.Tool:
    schema = _lift_object(msgspec.json.schema(tool.arguments))
    schema.pop("title", None)
    schema.pop("description", None)
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema,
        output_schema=_answer_schema(tool.answer),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=allow_remote,
        ),
    )


def _reporter(session: Any) -> Report:
    """Sends progress to the client.

    The protocol wants numbers that grow, and activities follow each other, so messages are counted.
    """
    count = 0

    async def report(activity: str, done: int, total: int) -> None:
        nonlocal count
        count += 1
        far = f" ({done} of {total})" if total > 1 else ""
        await session.report_progress(count, message=f"{activity}{far}")

    return report


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _answer_schema(answer: str | type[msgspec.Struct]) -> dict[str, Any]:
    """JSON schema of the data that a tool answers with.

    Args:
        answer: Name of a contract in `stepwhy.show.schema`, or a class of `answers`.
    """
    full = contract_schema(answer) if isinstance(answer, str) else msgspec.json.schema(answer)
    schema: dict[str, Any] = _drop_prose(_lift_object(full))
    rows = _drop_prose(_lift_object(msgspec.json.schema(LeftOut)))
    schema["properties"][_LEFT_OUT] = {"type": "array", "items": rows}
    schema["required"] = [*schema["required"], _LEFT_OUT]
    return schema


def _lift_object(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the definition that it refers to at the top."""
    definitions = dict(schema[_DEFINITIONS])
    top = definitions.pop(schema[_REFERENCE].rpartition("/")[2])
    return {**top, _DEFINITIONS: definitions} if definitions else dict(top)


def _drop_prose(schema: Any, *, names_fields: bool = False) -> Any:
    """The schema without titles, descriptions and defaults.

    Args:
        schema: A schema, or a part of one.
        names_fields: Whether its keys are names of fields, which may be 'title', too.
    """
    if isinstance(schema, list):
        return [_drop_prose(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = (key for key in schema if names_fields or key not in ("title", "description", "default"))
    return {
        key: _drop_prose(schema[key], names_fields=key in ("properties", _DEFINITIONS))
        for key in kept
    }
