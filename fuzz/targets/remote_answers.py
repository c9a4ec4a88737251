"""What web servers answer: status, headers, bodies, redirects, listings and lengths.

An input holds whole answers as they go over the wire, by the path that is asked for: the file
`runs/a.json` is the answer to `GET /runs/a.json`, `runs/.folder` that to `GET /runs/`, and `.any`
that to everything else. `{server}` in an answer stands for the server's address. No answer leads
away from this machine.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from functools import cache
from typing import TYPE_CHECKING
from unittest.mock import patch

from fuzz.answers import AnsweringServer
from fuzz.judge import judged, size_of
from fuzz.mutate import mutate
from fuzz.mutate.havoc import havoc
from fuzz.run_seeds import run_directories
from fuzz.targets.side_files import broken_result
from stepwhy.engine import explain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from fuzz.formats import Files
    from fuzz.judge import Outcome, Verdict

    Change = Callable[[bytes, str, Random], bytes]

_FOLDER, _ANY = ".folder", ".any"
_END = b"\r\n\r\n"
_MOST_CHANGES = 3
# The usual limits are far beyond what an input may take here: folders may link in circles.
_LIMITS = {"STEPWHY_REMOTE_FILES": "200", "STEPWHY_REMOTE_FOLDERS": "40"}
_EVENTS = [
    {"ph": "X", "name": f"op{n % 3}", "ts": n * 10, "dur": 7, "pid": 1, "tid": 1} for n in range(30)
]
_TRACE = json.dumps({"traceEvents": _EVENTS}).encode()


@cache
def seeds() -> tuple[Files, ...]:
    """A trace, a packed one, a redirect, a folder of traces, and a run directory."""
    trace = answer(_TRACE)
    run = run_directories()[0]
    folders = {name.rpartition("/")[0] for name in run if "/" in name} | {"process-7/windows"}
    return (
        {"trace.json": trace},
        {"trace.json.gz": answer(gzip.compress(_TRACE, mtime=0))},
        {"old.json": answer(b"", "301 Moved", "Location: /new.json"), "new.json": trace},
        {
            f"runs/{_FOLDER}": listing("a.json", "notes.txt"),
            "runs/a.json": trace,
            "runs/notes.txt": answer(b"some notes"),
        },
        {
            f"run/{_FOLDER}": listing("process-7/", "run.json"),
            **{f"run/{name}": answer(data) for name, data in run.items()},
            **{
                f"run/{folder}/{_FOLDER}": listing(*_inside(folder, [*run, *folders]))
                for folder in sorted(folders)
            },
        },
    )


def _inside(folder: str, names: list[str]) -> list[str]:
    """What lies in a folder; folders end with a slash."""
    inner = [n.removeprefix(f"{folder}/") for n in names if n.startswith(f"{folder}/")]
    return sorted({name.partition("/")[0] + "/" * ("/" in name) for name in inner})


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A whole answer."""
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + _END + body


def listing(*names: str) -> bytes:
    """The page of a folder, as web servers write it."""
    links = "".join(f'<a href="{name}">{name}</a>\n' for name in ("../", "?C=N;O=D", *names))
    return answer(f"<html>{links}</html>".encode(), "200 OK", "Content-Type: text/html")


def damage(files: Files, random: Random) -> Files:
    """Damage some answers, or leave them out."""
    for name in random.sample(list(files), min(len(files), 1 + random.randrange(_MOST_CHANGES))):
        for _ in range(1 + random.randrange(2)):
            files[name] = random.choice(_CHANGES)(files[name], name, random)
        if random.random() < 0.05 and len(files) > 1:
            del files[name]
    if random.random() < 0.1:
        files[_ANY] = random.choice(list(files.values()))
    return files


# --- Damage ---

_STATUS = (
    *("100 Continue", "101 Switching", "204 No Content", "206 Partial", "301 Moved", "302 Found"),
    *("303 See Other", "304 Not Modified", "307 Temporary", "308 Permanent", "400 Bad", "401 No"),
    *("403 Forbidden", "404 Not Found", "407 Proxy", "408 Timeout", "410 Gone", "416 Range"),
    *("429 Slow Down", "500 Error", "503 Unavailable", "504 Timeout", "599", "999 x", "000", "-1"),
    *(
        "2000 OK",
        "abc",
        "",
        "200",
        "200 \x1b]0;x\x07",
        "200 " + "x" * 10_000,
        "\u0662\u0660\u0660 OK",
    ),
)
_VERSIONS = (
    "HTTP/1.0 ",
    "HTTP/2 ",
    "HTTP/9.9 ",
    "HTTP/1.1",
    "ICY ",
    "SSH-2.0 ",
    "http/1.1 ",
    " ",
    "",
)
_LOCATIONS = (
    *(
        "/new.json",
        "/old.json",
        "old.json",
        "http://{server}/trace.json",
        "//{server}/runs/",
        "/runs/",
    ),
    *(
        "http://127.0.0.1:1/",
        "http://[::1]:1/",
        "http://[::1",
        "http://user:pw@{server}/trace.json",
    ),
    *(
        "http://{server}:0/",
        "http://{server}/\x1b]0;x\x07",
        "http://127.0.0.1:99999/",
        "?x=1",
        "#x",
        "",
    ),
    *(
        "file:///etc/passwd",
        "ftp://127.0.0.1:1/",
        "javascript:x",
        "data:,x",
        "memory://x",
        "x" * 9000,
    ),
    *("../../../etc/passwd", "http:", "http://", "http:///x", "/%00", "/%zz", "/\u202e", "/a b"),
)
_HEADERS = (
    *(
        "Content-Length: 0",
        "Content-Length: -1",
        "Content-Length: 9999999999999999999",
        "Content-Length:",
    ),
    *(
        "Content-Length: 1e9",
        "Content-Length: 10\r\nContent-Length: 20",
        "Content-Length: 1099511627776",
    ),
    *("Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: x"),
    *(
        "Content-Encoding: gzip",
        "Content-Encoding: br",
        "Content-Encoding: deflate",
        "Content-Encoding: x",
    ),
    *("Content-Encoding: zstd", "Content-Range: bytes 0-9/10", "Content-Range: bytes */x"),
    *(
        "Content-Type: text/html; charset=x",
        "Content-Type: \xff",
        "Accept-Ranges: bytes",
        "ETag: x",
    ),
    *("Set-Cookie: a=b; Domain=127.0.0.1", "Retry-After: 999999999", "Connection: keep-alive"),
    *(
        "Upgrade: h2c",
        "X: \x1b]0;x\x07",
        "X: " + "x" * 100_000,
        ": x",
        "no colon",
        " folded",
        "\x00",
    ),
    *(
        "Link: <x>; rel=next",
        "Refresh: 0; url=/x",
        "Content-Disposition: filename=../../x",
        "X: y\r\n" * 200,
    ),
)
_LINKS = (
    *(
        "a.json",
        "../",
        "../../../etc/passwd",
        "/etc/passwd",
        "//{server}/x",
        "http://{server}/runs/a.json",
    ),
    *(
        "file:///etc/passwd",
        "javascript:x",
        "%2e%2e%2fa.json",
        "a%00.json",
        "a%0a.json",
        "%",
        "a/b/../../c",
    ),
    *(
        "a.json?x=1",
        "a.json#x",
        "\x1b]0;x\x07.json",
        "\u202e.json",
        "./",
        ".",
        "",
        " ",
        "a/",
        "run.json",
    ),
    *(
        "a" * 5000 + ".json",
        "/runs/",
        "http://127.0.0.1:1/a.json",
        "sub/",
        "process-7/",
        "..",
        "a\\b.json",
    ),
)


def _split(whole: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Status line, headers and body."""
    head, _, body = whole.partition(_END)
    first, *headers = head.split(b"\r\n")
    return first, headers, body


def _joined(first: bytes, headers: list[bytes], body: bytes) -> bytes:
    return b"\r\n".join([first, *headers]) + _END + body


def _change_status(whole: bytes, _name: str, random: Random) -> bytes:
    first, headers, body = _split(whole)
    version = "HTTP/1.1 " if random.random() < 0.8 else random.choice(_VERSIONS)
    first = f"{version}{random.choice(_STATUS)}".encode()
    if first[9:10] == b"3" and random.random() < 0.9:
        headers.append(f"Location: {random.choice(_LOCATIONS)}".encode())
    return _joined(first, headers, body)


def _redirect(whole: bytes, _name: str, random: Random) -> bytes:
    status = random.choice(("301", "302", "303", "307", "308"))
    return answer(whole, status, f"Location: {random.choice(_LOCATIONS)}")


def _change_headers(whole: bytes, _name: str, random: Random) -> bytes:
    first, headers, body = _split(whole)
    if headers and random.random() < 0.5:
        del headers[random.randrange(len(headers))]
    header = random.choice(_HEADERS).encode("latin-1", errors="replace")
    headers.insert(random.randrange(len(headers) + 1), header)
    return _joined(first, headers, body)


def _change_length(whole: bytes, _name: str, random: Random) -> bytes:
    """Promise more or fewer bytes than come."""
    first, headers, body = _split(whole)
    kept = [h for h in headers if not h.lower().startswith(b"content-length")]
    length = max(0, len(body) + random.choice((-1, 1, -len(body), 1000, -1000, 1 << 40)))
    return _joined(first, [*kept, b"Content-Length: %d" % length], body)


def _encode(whole: bytes, _name: str, random: Random) -> bytes:
    """Pack the body: as it is, or zeros that take a thousandth of their size."""
    body = _split(whole)[2]
    plain = body if random.random() < 0.7 else bytes(1 << random.randrange(10, 24))
    packed = gzip.compress(plain, mtime=0)
    if random.random() < 0.3:
        packed = havoc(packed, random)
    encoding = random.choice(("gzip", "gzip", "deflate", "br", "gzip, gzip"))
    return answer(packed, "200 OK", f"Content-Encoding: {encoding}")


def _chunk(whole: bytes, _name: str, random: Random) -> bytes:
    """Send the body in chunks, whose lengths may be wrong."""
    _, _, body = _split(whole)
    size = 1 + random.randrange(4000)
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    end = random.choice(
        (b"0\r\n\r\n", b"", b"0\r\n", b"-1\r\n", b"ffffffffffffffff\r\nx", b"x\r\n")
    )
    return _joined(b"HTTP/1.1 200 OK", [b"Transfer-Encoding: chunked"], sent + end)


def _change_body(whole: bytes, name: str, random: Random) -> bytes:
    first, headers, body = _split(whole)
    body = mutate(name, body, [], random)
    kept = [h for h in headers if not h.lower().startswith(b"content-length")]
    return _joined(first, [*kept, b"Content-Length: %d" % len(body)], body)


def _list(_whole: bytes, _name: str, random: Random) -> bytes:
    """Answer with a listing: of hostile links, of many, or of folders without an end."""
    links = random.choices(_LINKS, k=1 + random.randrange(8))
    if random.random() < 0.05:
        links = [f"{n}.json" for n in range(random.choice((100, 3000)))]
    return listing(*links)


def _cut(whole: bytes, _name: str, random: Random) -> bytes:
    return whole[: random.randrange(len(whole) + 1)]


def _garble(whole: bytes, _name: str, random: Random) -> bytes:
    return havoc(whole, random)


_CHANGES: tuple[Change, ...] = (
    *(_change_status, _redirect, _change_headers, _change_headers, _change_length),
    *(_encode, _chunk, _change_body, _list, _cut, _garble),
)

# --- Judging ---


class AnswersJudge:
    """Explains what a server on this machine answers; the first input starts it."""

    def __init__(self) -> None:
        self._server: AnsweringServer | None = None

    def __call__(self, files: Files, folder: Path) -> Outcome:
        """The outcome of one input.

        Args:
            files: Answers by path; the first one is asked for.
            folder: An empty folder, for copies of what is fetched.
        """
        if self._server is None:
            self._server = AnsweringServer()
        self._server.answers = {f"/{name}".replace(_FOLDER, ""): d for name, d in files.items()}
        self._server.otherwise = files.get(_ANY)
        first = next(iter(files), "").replace(_FOLDER, "")
        address = f"http://{self._server.address}/{first}"
        with patch.object(tempfile, "tempdir", str(folder)), patch.dict(os.environ, _LIMITS):
            return judged(lambda: _explained(address, folder), lambda: size_of(files))


def _explained(address: str, folder: Path) -> Verdict:
    try:
        result = explain([address])
    finally:
        left = sorted(path.name for path in folder.iterdir())
    broken = f"left behind: {left}" if left else next(broken_result(result), "")
    if broken:
        return "failed", broken.partition(":")[0], broken
    return "explained", result.inputs[0].format, ""
