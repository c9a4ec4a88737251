"""Clients that let the server wait."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from uvicorn import Config
from uvicorn.server import ServerState

from stepwhy.apps.serve.app import read_form
from stepwhy.apps.serve.patience import MOST_CONNECTIONS, PatientProtocol

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /form HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
MOST_WAIT_S = 60  # for what happens soon, on a busy machine


async def small(_request):
    return PlainTextResponse("page")


async def form(request):
    return PlainTextResponse(str(await read_form(request)))


async def large(_request):
    return PlainTextResponse("x" * 8_000_000)


APP = Starlette(
    routes=[Route("/", small), Route("/form", form, methods=["POST"]), Route("/large", large)]
)


def run(scenario, **times):
    """Run a scenario with a server; times are those of the protocol."""
    protocol = type("Protocol", (PatientProtocol,), times)

    async def served():
        config = Config(
            APP, http=protocol, log_config=None, lifespan="off", limit_concurrency=MOST_CONNECTIONS
        )
        state = ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        try:
            async with asyncio.timeout(MOST_WAIT_S):
                await scenario(address, state)
        finally:
            server.close()
            for one in list(state.connections):
                one.transport.abort()

    asyncio.run(served())


@contextlib.asynccontextmanager
async def connected(address):
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer(reader):
    """The status and the body of a short answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
    body = await reader.readexactly(int(length.partition(b":")[2]))
    return int(head.split()[1]), body.decode()


async def closed(reader):
    with contextlib.suppress(ConnectionError):
        while await reader.read(1 << 16):
            pass


async def idle(state):
    """Wait until the server has neither connections nor tasks."""
    while state.connections or state.tasks:  # noqa: ASYNC110 - the server sets no event
        await asyncio.sleep(0.01)


def test_silent_connections_block_no_page():
    async def scenario(address, state):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3 * MOST_CONNECTIONS):
                await stack.enter_async_context(connected(address))
            reader, writer = await stack.enter_async_context(connected(address))
            writer.write(GET)
            assert await answer(reader) == (200, "page")
            assert len(state.connections) < MOST_CONNECTIONS

    run(scenario, request_s=3600)


@pytest.mark.parametrize("sent", [GET[:5], POST, POST + b"a=1", LARGE])
def test_nor_do_unfinished_requests_and_unread_answers(sent):
    async def scenario(address, _state):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(MOST_CONNECTIONS + 4):
                _, writer = await stack.enter_async_context(connected(address))
                writer.write(sent)
            for _ in range(3):
                reader, writer = await stack.enter_async_context(connected(address))
                writer.write(GET)
                assert await answer(reader) == (200, "page")

    run(scenario, request_s=3600, body_s=3600, send_s=3600)


@pytest.mark.parametrize("sent", [b"", b"G", GET[:-2]])
def test_a_connection_without_a_request_is_closed(sent):
    async def scenario(address, _state):
        async with connected(address) as (reader, writer):
            writer.write(sent)
            await closed(reader)

    run(scenario, request_s=0.1)


def test_headers_that_arrive_byte_by_byte_are_not_waited_for():
    async def scenario(address, state):
        async with connected(address) as (_, writer):
            with contextlib.suppress(ConnectionError):
                while not writer.is_closing():
                    writer.write(b"G")
                    await writer.drain()
                    await asyncio.sleep(0.02)
            assert not state.connections

    run(scenario, request_s=0.3)


def test_a_form_that_does_not_arrive_is_not_waited_for(caplog):
    async def scenario(address, state):
        async with connected(address) as (reader, writer):
            writer.write(POST + b"a=")
            await closed(reader)
            await idle(state)

    run(scenario, body_s=0.1)
    assert "Exception" not in caplog.text


def test_an_answer_that_is_not_read_is_given_up():
    async def scenario(address, state):
        async with connected(address) as (reader, writer):
            writer.write(LARGE)
            await reader.readexactly(9)
            await idle(state)

    run(scenario, send_s=0.1)


def test_what_is_sent_and_read_in_time_is_answered():
    async def scenario(address, _state):
        async with connected(address) as (reader, writer):
            for _ in range(3):
                writer.write(GET)
                assert await answer(reader) == (200, "page")
                writer.write(POST)
                await writer.drain()
                writer.write(b"a=1&b=123")
                assert await answer(reader) == (200, "{'a': '1', 'b': '123'}")
            writer.write(GET + GET)
            assert await answer(reader) == (200, "page")
            assert await answer(reader) == (200, "page")
            writer.write(LARGE)
            status, body = await answer(reader)
            assert (status, len(body)) == (200, 8_000_000)

    run(scenario)
