"""The protocol, with the client of the official package."""

import json
from pathlib import Path

import pytest

pytest.importorskip("mcp")
import anyio
from mcp import Client

from stepwhy.apps.agents.answers import Failure
from stepwhy.apps.agents.catalog import INSTRUCTIONS
from stepwhy.apps.agents.folders import Folders
from stepwhy.apps.agents.server import make_server
from stepwhy.apps.agents.work import answer
from tests.agents.calls import write_samples

SNAPSHOT = Path(__file__).with_name("tools.json")
SMALL = 24_000  # characters; clients may put all schemas before each question


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_samples(tmp_path_factory.mktemp("served"))


async def here(request, report):
    """Answer in this process, with one message of progress."""
    await report("reading", 1, 2)
    return answer(request)


def with_client(folder, use, call=here, **options):
    """What a function does with a client of the server."""
    server = make_server(call, Folders((str(folder),), **options))

    async def main():
        async with Client(server, raise_exceptions=True) as client:
            return await use(client)

    return anyio.run(main)


def tools(folder):
    found = with_client(folder, lambda client: client.list_tools()).tools
    return [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in found]


def described(tool):
    """What a model sees of a tool, and the names of the fields of its answer."""
    arguments = tool["inputSchema"]
    return {
        "name": tool["name"],
        "required": arguments.get("required", []),
        "arguments": {
            name: {key: value for key, value in schema.items() if key != "description"}
            for name, schema in arguments["properties"].items()
        },
        "answer": sorted(tool["outputSchema"]["properties"]),
    }


def test_the_tools_and_their_schemas_are_those_of_the_snapshot(folder):
    """Renew it with: python -m tests.agents.test_server."""
    assert [described(tool) for tool in tools(folder)] == json.loads(SNAPSHOT.read_text())


def test_every_schema_has_an_object_on_top_and_every_argument_a_description(folder):
    for tool in tools(folder):
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert tool["annotations"]["readOnlyHint"] is True
        for schema in tool["inputSchema"]["properties"].values():
            assert schema["description"]


def test_descriptions_fit_into_the_context_of_a_model(folder):
    shown = [{k: v for k, v in tool.items() if k != "outputSchema"} for tool in tools(folder)]
    assert len(json.dumps(shown)) + len(INSTRUCTIONS) < SMALL


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("runs", {}),
        ("explain", {"paths": ["trace.json"]}),
        ("explain", {"paths": ["ranks"]}),
        ("ops", {"path": "trace.json", "view": "scope"}),
        ("whatif", {"path": "trace.json"}),
        ("compare", {"a": "trace.json", "b": "slow.json"}),
        ("sql", {"path": "trace.json", "query": "select * from steps"}),
    ],
)
def test_the_data_fits_the_schema_that_is_announced(folder, name, arguments):
    """The client validates it."""
    if name == "sql":
        pytest.importorskip("duckdb")

    async def use(client):
        await client.list_tools()
        return await client.call_tool(name, arguments)

    found = with_client(folder, use)
    assert not found.is_error
    assert found.structured_content["left_out"] is not None
    assert found.content[0].text


def test_a_failure_is_a_result_that_the_model_can_read(folder):
    def use(client):
        return client.call_tool("explain", {"paths": ["../secret"]})

    found = with_client(folder, use)
    assert found.is_error
    assert found.structured_content is None
    assert found.content[0].text.endswith("[not-served]")
    unknown = with_client(folder, lambda client: client.call_tool("delete", {}))
    assert unknown.content[0].text.endswith("[wrong-arguments]")


def test_progress_is_reported(folder):
    seen = []

    async def show(progress, total, message):
        seen.append((progress, total, message))

    def use(client):
        return client.call_tool("runs", {}, progress_callback=show)

    with_client(folder, use)
    assert seen == [(1, None, "reading (1 of 2)")]


def test_addresses_reach_the_call_as_the_user_allowed(folder):
    requests = []

    async def call(request, _report):
        requests.append(request)
        return Failure("x", "x", "x")

    for allowed in (False, True):
        with_client(folder, lambda c: c.call_tool("runs", {}), call, allow_remote=allowed)
    assert [request.allow_remote for request in requests] == [False, True]
    assert requests[0].roots == (str(folder),)


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps([described(tool) for tool in tools(Path())], indent=2) + "\n")
