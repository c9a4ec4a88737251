"""Run directories made by hand, and a client that speaks ASGI."""

from __future__ import annotations

import asyncio
import json
from typing import NamedTuple
from urllib.parse import urlencode

from msgspec import structs

from stepwhy.apps.serve.access import FORM_FIELD, Access
from stepwhy.apps.serve.index import Index
from stepwhy.apps.serve.store import Store
from stepwhy.show.json import render
from tests.show.conftest import SAMPLES

MS = 1_000_000
DAY_NS = 86_400 * 10**9
START_NS = 1_790_000_000 * 10**9
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write_run(
    root, name, sample="input_bound", *, day=0, scale=1.0, result=True, page=None, **about
):
    """A run directory with a result.

    Args:
        root: The folder.
        name: Its name.
        sample: Name of the result of `tests.show.conftest`; a result itself.
        day: Start, in days.
        scale: Factor of all step times.
        result: Whether it has a stored result.
        page: Text of its page; None for none.
        about: Members of `run.json`.
    """
    folder = root / name
    folder.mkdir(parents=True)
    command = ["python", f"{name.split('-', maxsplit=1)[0]}.py"]
    run = {
        "schema": "stepwhy.run/1",
        "command": command,
        "started_ns": START_NS + day * DAY_NS,
        "ended_ns": START_NS + day * DAY_NS + 10**10,
        "exit_code": 0,
        **about,
    }
    (folder / "run.json").write_text(json.dumps(run))
    if result:
        made = SAMPLES[sample]() if isinstance(sample, str) else sample
        (folder / "result.json").write_text(render(scaled(made, scale)))
    if page is not None:
        (folder / "report.html").write_text(page)
    return folder


def scaled(result, factor):
    """A result with all step times multiplied."""
    steps, breakdown = result.steps, result.breakdown
    times = {n: round(getattr(steps, n) * factor) for n in ("median_ns", "p10_ns", "p90_ns")}
    durations = tuple(round(ns * factor) for ns in steps.durations_ns)
    categories = {n: round(ns * factor) for n, ns in breakdown.categories.items()}
    return structs.replace(
        result,
        steps=structs.replace(steps, durations_ns=durations, **times),
        breakdown=structs.replace(
            breakdown, wall_ns=sum(categories.values()), categories=categories
        ),
    )


def index_of(root):
    """An index that looks for changes at each request."""
    ticks = iter(range(0, 10**9, 100))
    return Index(root, Store(None), clock=lambda: float(next(ticks)))


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self):
        return self.body.decode()


class Client:
    """Sends requests to an application as a server would.

    Args:
        app: The application.
        access: Its rules.
    """

    host = "127.0.0.1:8600"

    def __init__(self, app, access=None):
        self.app = app
        self.access = access or Access("127.0.0.1", 8600)

    def get(self, path, **headers):
        return self.send("GET", path, headers=headers)

    def post(self, path, form=None, **headers):
        """A form with the token, as a page of the server would send it."""
        known = {"cookie": self.cookie, "origin": f"http://{self.host}"}
        fields = {FORM_FIELD: self.access.form_key, **(form or {})}
        return self.send("POST", path, urlencode(fields).encode(), {**known, **headers})

    @property
    def cookie(self):
        return f"{self.access.cookie_name}={self.access.cookie}"

    def send(self, method, path, body=b"", headers=None):
        """One request.

        Args:
            method: Its method.
            path: Path and query; the path is decoded as it is in a scope.
            body: Its body.
            headers: Names with underscores; None as a value leaves a header out.
        """
        given = {"host": self.host, "content_type": "application/x-www-form-urlencoded"}
        given |= headers or {}
        raw = [
            (name.replace("_", "-").encode(), value.encode("utf-8", "surrogateescape"))
            for name, value in given.items()
            if value is not None
        ]
        target, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": target, "raw_path": target.encode(errors="replace"),
            "query_string": query.encode(), "root_path": "", "headers": raw,
            "client": ("127.0.0.1", 50000), "server": ("127.0.0.1", 8600),
        }  # fmt: skip
        return asyncio.run(asked(self.app, scope, body))


async def asked(app, scope, body):
    status, headers, parts = 0, {}, []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        if not waiting:
            await asyncio.Event().wait()  # the client stays until it has the answer
        return waiting.pop()

    async def send(message):
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            headers.update((n.decode().lower(), v.decode()) for n, v in message["headers"])
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return Answer(status, headers, b"".join(parts))
