"""Servers and buckets cannot fill the disk, block a command or lead it elsewhere."""

from __future__ import annotations

import asyncio
import base64
import errno
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from stepwhy.base.errors import (
    InputError,
    NotFoundError,
    NoTracesError,
    OutputError,
    RemoteLimitError,
    TooLargeError,
    UnreachableError,
)
from stepwhy.engine import explain
from stepwhy.read.inputs.remote import client as remote
from stepwhy.read.inputs.remote.addresses import shown
from stepwhy.read.inputs.remote.budget import PREFIX, Budget, Limits, limits_of
from stepwhy.read.inputs.remote.places import Remote, places_at
from tests.engine.test_explain import kineto
from tests.inputs import web_server
from tests.inputs.web_server import Clock, links
from tests.read.run_directory.test_run_directory import steps, write_run

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

TRACE = kineto().encode()
LOGIN = "someone:t0k3n-of-theirs"
QUERY = "X-Amz-Signature=5ig4a7u4e"
SECRETS = ("someone", "t0k3n", "5ig4a7u4e", "X-Amz")
SMALL = Limits(bytes=1 << 20, listing_bytes=1 << 20, reserve=0)


@pytest.fixture(autouse=True)
def copies(tmp_path, monkeypatch):
    """The folder of private copies, which must be empty at the end of the test."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
def server():
    with web_server.web_server() as behaviour:
        yield behaviour


def read(address, limits=SMALL, clock=None):
    """The content of the copy of a file."""
    budget = Budget(limits, clock) if clock else Budget(limits)
    with Remote(address, budget).here() as path:
        return path.read_bytes()


def refusal(error, address, limits=SMALL, clock=None):
    """The error message of a refused copy; it must not contain credentials."""
    with pytest.raises(error) as caught:
        read(address, limits, clock)
    assert [secret for secret in SECRETS if secret in str(caught.value)] == []
    return str(caught.value)


# --- Bytes and disk ---


@pytest.mark.parametrize("script", ["endless_body", "endless_chunks", "gzip_bomb"])
def test_endless_body(server, script):
    server.scripts["/trace.json"] = getattr(web_server, script)
    message = refusal(RemoteLimitError, server.url("/trace.json", LOGIN, QUERY))
    assert message == (
        f"http://{server.address}/trace.json exceeds the 1.00 MiB that one command may copy from "
        "addresses (STEPWHY_REMOTE_BYTES). If you trust it, set STEPWHY_REMOTE_BYTES to a higher "
        "number."
    )


def test_a_size_beyond_the_limit_is_refused_before_a_byte_is_written(server, monkeypatch):
    server.scripts["/trace.json"] = lambda handler: web_server._begin(
        handler, f"Content-Length: {1 << 50}"
    )
    assert PREFIX + "BYTES" in refusal(RemoteLimitError, server.url("/trace.json"))
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 40, total=1 << 41)
    )
    message = refusal(TooLargeError, server.url("/trace.json"), Limits(bytes=1 << 60))
    assert "1.00 GiB stay reserved (STEPWHY_REMOTE_RESERVE). Set TMPDIR" in message


def test_the_reserve_stays_free_while_a_copy_of_unknown_size_is_written(
    server, monkeypatch, copies
):
    """On a disk of 1 MiB that contains only the copy."""

    def disk_usage(_folder):
        written = sum(path.stat().st_size for path in copies.rglob("*.json"))
        return SimpleNamespace(free=(1 << 20) - written, total=1 << 20)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    server.scripts["/trace.json"] = web_server.endless_body
    limits = Limits(bytes=1 << 40)
    assert "102 KiB stay reserved" in refusal(
        TooLargeError, server.url("/trace.json", LOGIN, QUERY), limits
    )


def test_the_files_of_one_command_share_its_budget(server, monkeypatch):
    for rank in (0, 1):
        server.files[f"/runs/rank{rank}.json"] = kineto(rank).encode()
    size = len(kineto(0)) + len(kineto(1))
    monkeypatch.setenv("STEPWHY_REMOTE_BYTES", str(size))
    assert explain([server.url("/runs/")]).run.ranks == 2
    monkeypatch.setenv("STEPWHY_REMOTE_BYTES", str(size - 1))
    notes = explain([server.url("/runs/")]).notes
    assert [note for note in notes if "STEPWHY_REMOTE_BYTES" in note] != []


def test_a_compressed_transfer_is_decompressed(server):
    def script(handler):
        body = gzip.compress(TRACE[:100]) + gzip.compress(TRACE[100:]) + bytes(8)
        web_server._begin(handler, "Content-Encoding: gzip", f"Content-Length: {len(body)}")
        handler.wfile.write(body)

    server.scripts["/trace.json"] = script
    assert read(server.url("/trace.json")) == TRACE


@pytest.mark.parametrize("kept", [5, 100])
def test_a_compressed_transfer_that_ends_early(server, kept):
    def script(handler):
        web_server._begin(handler, "Content-Encoding: gzip")
        handler.wfile.write(gzip.compress(TRACE)[:kept])

    server.scripts["/trace.json"] = script
    assert "breaks off" in refusal(UnreachableError, server.url("/trace.json", LOGIN, QUERY))


def test_a_length_that_is_too_large(server):
    def script(handler):
        web_server._begin(handler, "Content-Length: 1000")
        handler.wfile.write(b"x" * 100)

    server.scripts["/trace.json"] = script
    assert "breaks off after 100 B" in refusal(UnreachableError, server.url("/trace.json"))


def test_a_length_that_is_too_small(server):
    def script(handler):
        web_server._begin(handler, f"Content-Length: {len(TRACE)}")
        handler.wfile.write(TRACE + b"x" * 100)

    server.scripts["/trace.json"] = script
    try:
        content = read(server.url("/trace.json"))
    except UnreachableError:  # they arrived together with the last ones of the file
        return
    assert content == TRACE


def test_partial_content_is_refused(server):
    server.files["/trace.json"] = TRACE
    server.status = 206
    assert "status 206" in refusal(UnreachableError, server.url("/trace.json"))


@pytest.mark.parametrize("script", ["many_headers", "long_header"])
def test_endless_headers(server, script):
    server.scripts["/trace.json"] = getattr(web_server, script)
    refusal(UnreachableError, server.url("/trace.json", LOGIN, QUERY))


# --- Time ---


@pytest.mark.parametrize("script", ["silent", "continues", "endless_chunk_extension"])
def test_a_server_that_sends_no_content(server, script):
    server.scripts["/trace.json"] = getattr(web_server, script)
    message = refusal(UnreachableError, server.url("/trace.json", LOGIN), clock=Clock(step=20))
    assert "/trace.json sent no content for 60 s. Check address and network" in message


def test_slow_body(server):
    clock = Clock()
    server.scripts["/trace.json"] = web_server.drip(clock)
    message = refusal(RemoteLimitError, server.url("/trace.json", LOGIN, QUERY), Limits(), clock)
    assert "sends less than 1.00 KiB per second, measured over 60 s (STEPWHY_REMOTE_RATE" in message


def test_slow_headers(server):
    clock = Clock()
    server.scripts["/trace.json"] = web_server.drip_headers(clock)
    message = refusal(UnreachableError, server.url("/trace.json"), Limits(), clock)
    assert "/trace.json sent no content for 60 s. Check address and network" in message


class SlowFiles:
    """A file system whose chunks take some seconds of a fake clock."""

    async_impl = False

    def __init__(self, clock, size, chunk, seconds):
        self.clock, self.size, self.chunk, self.seconds = clock, size, chunk, seconds

    def get_file(self, _address, target, callback, **_options):
        callback.set_size(self.size)
        for _ in range(self.size // self.chunk):
            self.clock.now += self.seconds
            callback.relative_update(self.chunk)
        Path(target).write_bytes(b"whole")


def test_a_large_file_on_a_slow_link_is_read(monkeypatch):
    clock = Clock()
    files = SlowFiles(clock, size=10 << 30, chunk=1 << 20, seconds=8)  # 128 KiB per second
    monkeypatch.setattr(fsspec, "filesystem", lambda _scheme, **_options: files)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 40, total=1 << 40)
    )
    assert read("s3://bucket/trace.json", Limits(), clock) == b"whole"
    assert clock.now > 80_000


def test_slow_bucket(monkeypatch):
    clock = Clock()
    files = SlowFiles(clock, size=1 << 20, chunk=1, seconds=30)
    monkeypatch.setattr(fsspec, "filesystem", lambda _scheme, **_options: files)
    message = refusal(RemoteLimitError, "s3://bucket/trace.json", Limits(), clock)
    assert "STEPWHY_REMOTE_RATE" in message


def test_buckets_are_read_in_one_stream(monkeypatch):
    """Several streams call back too late on a slow link, and keep hundreds of MB in memory."""
    opened, copied = [], []

    class Files(SlowFiles):
        def get_file(self, address, target, callback, **options):
            copied.append((address, options))
            super().get_file(address, target, callback)

    def filesystem(scheme, **options):
        opened.append((scheme, options))
        return Files(Clock(), 1, 1, 0)

    monkeypatch.setattr(fsspec, "filesystem", filesystem)
    for scheme in ("s3", "gs"):
        assert read(f"{scheme}://bucket/trace.json") == b"whole"
    assert opened == [("s3", {"max_concurrency": 1}), ("gs", {})]
    assert [options for _, options in copied] == [{}, {"headers": {}}]


def test_the_time_of_all_files_is_limited(monkeypatch):
    clock = Clock()
    files = SlowFiles(clock, size=1 << 20, chunk=1 << 20, seconds=50)
    monkeypatch.setattr(fsspec, "filesystem", lambda _scheme, **_options: files)
    budget = Budget(Limits(seconds=120), clock)
    for _ in range(2):
        with Remote("s3://bucket/trace.json", budget).here():
            clock.now += 1000  # reading the trace waits for nothing
    with (
        pytest.raises(RemoteLimitError, match="exceeds the 120 seconds that one command may wait"),
        Remote("s3://bucket/trace.json", budget).here(),
    ):
        pass


class EndlessListing:
    """A file system with an endless listing."""

    async_impl = True

    async def _info(self, _address):
        return {"type": "directory"}

    async def _ls(self, _address):
        await asyncio.Event().wait()


def test_the_time_of_a_listing_is_limited(monkeypatch):
    monkeypatch.setattr(fsspec, "filesystem", lambda _scheme, **_options: EndlessListing())
    with pytest.raises(RemoteLimitError, match="takes more than 120 seconds to list"):
        places_at("s3://bucket/runs", Budget(clock=Clock(step=100)))


# --- Redirects ---


def test_a_redirect_is_followed(server):
    server.files["/b/trace.json"] = TRACE
    server.redirects = {"/a": "/b", "/b": "b/trace.json"}
    server.login = LOGIN
    assert read(server.url("/a", LOGIN)) == TRACE


def test_redirects_in_a_circle(server):
    server.redirects = {"/a": "/b", "/b": "/a"}
    message = refusal(RemoteLimitError, server.url("/a", LOGIN, QUERY))
    assert "/a redirects more than 10 times (STEPWHY_REMOTE_REDIRECTS)" in message
    assert len(server.asked) == 11


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("file:///etc/passwd", "which is not an http or https address"),
        ("ftp://someone@h/x", "which is not an http or https address"),
        ("data:text/html,x", "which is not an http or https address"),
        ("s3://bucket/x?X-Amz=1", "which is not an http or https address"),
        ("http://169.254.169.254/latest/meta-data/?5ig4a7u4e", "in a less public network"),
        ("//someone:t0k3n@169.254.169.254/", "in a less public network"),
        ("http://[fe80::1]/", "in a less public network"),
        ("http://[1/", "cannot be read"),
        ("http://h:99999/", "cannot be read"),
    ],
)
@pytest.mark.parametrize("path", ["/trace.json", "/runs/"])
def test_a_redirect_that_is_refused(server, location, words, path):
    server.redirects[path] = location
    with pytest.raises(UnreachableError, match=words) as caught:
        explain([server.url(path, LOGIN, QUERY)])
    assert [secret for secret in SECRETS if secret in str(caught.value)] == []


def test_a_login_stays_on_its_server(server, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("default login someone password t0k3n\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with web_server.web_server() as other:
        other.files["/trace.json"] = TRACE
        server.redirects = {"/a": "/b", "/b": other.url("/trace.json")}
        for login in (LOGIN, ""):  # in the address, and from .netrc
            assert read(server.url("/a", login)) == TRACE
        assert None not in server.logins
        assert other.logins == [None, None]


def test_a_proxy_of_the_environment_is_used(server, monkeypatch):
    server.files["http://example.invalid/trace.json"] = TRACE
    monkeypatch.setenv("http_proxy", server.address)
    assert read("http://example.invalid/trace.json") == TRACE


# --- Listings ---


def files_on(server, limits):
    return list(remote.files_below(server.url("/runs/"), Budget(limits)))


def test_endless_page(server):
    server.scripts["/runs/"] = web_server.gzip_bomb
    with pytest.raises(RemoteLimitError, match=r"needs more than 1\.00 MiB to list its files"):
        files_on(server, SMALL)


def test_a_page_of_many_links(server):
    server.pages["/runs/"] = links(*(f"rank{n}.json" for n in range(1001)))
    assert len(files_on(server, Limits(files=1001))) == 1001
    with pytest.raises(RemoteLimitError, match=r"lists more than 1,000 files.*REMOTE_FILES"):
        files_on(server, Limits(files=1000))


def test_links_in_a_circle(server):
    """Each folder appears to contain itself twice."""
    page = links("../", "a/", "b/", "trace.json")
    server.page = lambda folder: None if folder.endswith("//") else page
    assert len(files_on(server, Limits(depth=4))) == 1 + 2 + 4 + 8
    with pytest.raises(RemoteLimitError, match=r"has more than 100 folders.*REMOTE_FOLDERS"):
        files_on(server, Limits(folders=100))


def test_default_limit_stops_a_circle_of_links(server):
    """A folder that appears to contain itself many times."""
    page = links("../", *(f"{letter}/" for letter in "abcdefgh"))
    server.page = lambda folder: None if folder.endswith("//") else page
    with pytest.raises(RemoteLimitError, match=r"has more than 2,000 folders.*REMOTE_FOLDERS"):
        files_on(server, Limits(listing_seconds=1 << 30))
    assert len(server.asked) <= 2_000


def test_links_that_lead_elsewhere_are_not_followed(server):
    elsewhere = [
        "http://169.254.169.254/runs/a.json",
        "//example.org/runs/a.json",
        "file:///runs/a.json",
        "https://example.org/runs/a.json",
        "/etc/passwd",
        "../runs2/a.json",
        "a/../../b.json",
        "%2e%2e/b.json",
        "%2fetc/passwd",
        ".hidden.json",
        "b.json?download",
        "javascript:void(0)",
        "http://[1/",
        "x" * 9000,
    ]
    server.pages["/runs/"] = links(
        *elsewhere, f"http://{server.address}/runs/c.json", "/runs/d.json"
    )
    assert files_on(server, Limits()) == ["c.json", "d.json"]


@pytest.mark.parametrize(
    "page",
    [
        b"<a " * 300_000,
        b"<a href='" * 100_000,
        b"<a " + b"href " * 300_000,
        b"<a href" + b" " * 1_000_000,
        b'<a href="' + b"'" * 1_000_000,
    ],
)
def test_page_that_is_slow_to_search(server, page):
    server.pages["/runs/"] = page
    assert len(files_on(server, Limits())) <= 1


NAMES = [
    "a\0b.json",
    "a\x1b[31mb.json",
    "x" * 900 + ".json",
    "a\nb.json",
    "a\\b.json",
    "\u202ea.json",
]


def write_files(paths):
    files = fsspec.filesystem("memory")
    for path in paths:
        files.pipe(path, path.encode("utf-8", "replace"))


@pytest.fixture
def bucket():
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


@pytest.mark.usefixtures("bucket")
def test_bucket_names_cannot_leave_the_copy(tmp_path):
    outside = tmp_path / "outside.json"
    paths = ["/b/run/run.json", f"/b/run/{outside}", "/b/run/../../up.json", "/b/run/a/./b.json"]
    store = fsspec.filesystem("memory").store
    write_files(["/b/run/run.json"])
    for path in paths[1:]:
        store[path] = store["/b/run/run.json"]
    (place,) = places_at("memory://b/run", Budget())
    assert [path for path, _ in place.parts] == ["run.json"]
    with place.here():
        assert not outside.exists()


@pytest.mark.usefixtures("bucket")
def test_files_with_unusual_names_are_copied():
    names = ["run.json", "Trace.json", "trace.json", "a b", "a_b", "d/x", *NAMES]
    write_files([f"/b/run/{name}" for name in names])
    (place,) = places_at("memory://b/run", Budget())
    with place.here() as folder:
        found = [path for path in folder.rglob("*") if path.is_file()]
        assert len({str(path).casefold() for path in found}) == len(names)
        assert {path.read_text() for path in found} == {f"/b/run/{name}" for name in names}
    assert all(part.isprintable() for _, address in place.parts for part in shown(address))


class OtherFolders:
    """A file system whose listings contain files outside of the folder."""

    async_impl = False

    def info(self, _address):
        return {"type": "directory"}

    def ls(self, _address):
        return []

    def find(self, _address, maxdepth):
        return ["bucket/run/a.json", "other/bucket/run/b.json", "other/c.json"][:maxdepth]

    def glob(self, _address, *, detail, maxdepth):
        names = self.find("", maxdepth)
        return {name: {"type": "file", "detail": detail} for name in names}


def test_a_bucket_cannot_lead_elsewhere(monkeypatch):
    monkeypatch.setattr(fsspec, "filesystem", lambda _scheme, **_options: OtherFolders())
    for address in ("s3://bucket/run", "s3://bucket/run/*.json"):
        places = places_at(address, Budget())
        assert [place.shown for place in places] == ["s3://bucket/run/a.json"]
    with pytest.raises(RemoteLimitError, match="REMOTE_FILES"):
        places_at("s3://bucket/run", Budget(Limits(files=2)))


def test_addresses_inside_of_files_are_not_followed(server, tmp_path):
    write_run(tmp_path / "one", steps(10, 950_000, profiled=(4, 5)), window=kineto())
    elsewhere = server.url("/elsewhere.json")
    for path in (tmp_path / "one").rglob("*.json*"):
        server.files[f"/{path.relative_to(tmp_path)}"] = path.read_bytes()
    run = json.loads(server.files["/one/run.json"])
    changed = {**run, "command": [elsewhere], "$ref": elsewhere, "process": elsewhere}
    server.files["/one/run.json"] = json.dumps(changed).encode()
    explain([server.url("/one/")])
    assert [path for path in server.asked if path not in server.files and path[-1] != "/"] == []
    server.files["/trace.json"] = json.dumps(
        {**json.loads(TRACE), "traceEventsUrl": elsewhere, "schemaVersion": elsewhere}
    ).encode()
    explain([server.url("/trace.json")])
    assert "/elsewhere.json" not in server.asked


# --- Settings ---


def test_each_limit_has_a_setting():
    environment = {PREFIX + field.upper(): "7" for field in Limits.__struct_fields__}
    assert limits_of(environment) == Limits(**dict.fromkeys(Limits.__struct_fields__, 7))
    assert limits_of({}) == Limits()
    assert limits_of({"STEPWHY_REMOTE_BYTES": " 10g "}).bytes == 10 << 30


def test_each_setting_is_documented_with_its_default():
    page = (Path(__file__).parents[2] / "docs/reference/addresses.md").read_text()
    rows = dict(re.findall(r"^\| `(STEPWHY_REMOTE_\w+)` \| (\w+) \|", page, re.MULTILINE))
    assert limits_of(rows) == Limits()
    assert set(rows) == {PREFIX + field.upper() for field in Limits.__struct_fields__}


@pytest.mark.parametrize("value", ["much", "-1", "1.5", "1e9", "10GiB", "9" * 100])
def test_setting_that_is_not_a_number(value):
    with pytest.raises(RemoteLimitError, match=r"STEPWHY_REMOTE_BYTES is not a whole number\. Set"):
        limits_of({"STEPWHY_REMOTE_BYTES": value})


# --- Any bytes ---


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0" * 1000,
        b"HTTP/1.1 200",
        b"HTTP/1.1 999 \r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: \xff\x00\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nno gzip",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href='\xff&#0;&#xffffffff;'>",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ],
)
def test_any_response_gives_a_typed_error(answer):
    with web_server.raw_server() as answers:
        answers.answer = answer
        for address in (answers.url, answers.folder_url, answers.folder_url + "*.json"):
            with pytest.raises(InputError):
                explain([address])


# --- Ends ---


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, -signal.SIGINT),
        (signal.SIGTERM, 128 + signal.SIGTERM),
        (signal.SIGHUP, 128 + signal.SIGHUP),
    ],
)
def test_copy_is_removed_if_the_program_is_terminated(server, copies, number, code):
    server.files["/trace.json"] = TRACE
    server.breaks_after = 1024
    server.goes_on = threading.Event()
    program = subprocess.Popen(
        [sys.executable, "-c", ENDED, server.url("/trace.json")],
        env={**os.environ, "TMPDIR": str(copies)},
        stderr=subprocess.DEVNULL,
    )
    while not list(copies.glob("*/trace.json")):
        assert program.poll() is None
    program.send_signal(number)
    assert program.wait(60) == code
    server.goes_on.set()


ENDED = """
import signal, sys, stepwhy.engine
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)  # as in a terminal
signal.signal(signal.SIGINT, signal.default_int_handler)
stepwhy.engine.explain(sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_copy_is_removed(monkeypatch, number):
    cleanup = tempfile.TemporaryDirectory.cleanup

    def interrupted_cleanup(folder):
        signal.raise_signal(number)
        signal.raise_signal(signal.SIGINT)
        cleanup(folder)

    monkeypatch.setattr(tempfile.TemporaryDirectory, "cleanup", interrupted_cleanup)
    write_files(["/b/trace.json"])
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises((KeyboardInterrupt, SystemExit)),
        Remote("memory://b/trace.json", Budget()).here(),
    ):
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


# --- Logins ---


@pytest.mark.parametrize(
    "address",
    [
        "https://someone:t0k/en@h.org/t.json",
        "https://someone:t0k#en@h.org/t.json",
        "https://someone:t0k?en@h.org/t.json",
        "https://someone:@h.org/t.json",
        "https://someone@h.org/t.json",
    ],
)
def test_a_login_that_is_not_quoted_is_not_shown(address):
    assert "someone" not in shown(address)
    assert "t0k" not in shown(address)
    with pytest.raises((UnreachableError, NotFoundError, NoTracesError)) as caught:
        read(address.replace("h.org", "127.0.0.1:9"))
    assert "someone" not in str(caught.value)
    assert "t0k" not in str(caught.value)


@pytest.mark.parametrize("address", ["https:/someone:t0k@h/x", "HTTP:someone@h", "s3:/b/x?X-Amz=1"])
def test_address_with_a_missing_slash_is_not_shown(address):
    with pytest.raises(NotFoundError, match=r"^(no file matches )?\w+:/?\.\.\.[ .]") as caught:
        explain([address])
    assert [secret for secret in SECRETS if secret in str(caught.value)] == []


@pytest.mark.parametrize("path", ["/trace.json", "/runs/"])
def test_local_names_contain_no_login(server, path):
    server.files = {"/trace.json": TRACE, "/runs/run.json": b"{}"}
    (place,) = places_at(server.url(path, LOGIN, QUERY), Budget())
    with place.here() as copy:
        names = [str(copy), *map(str, copy.rglob("*"))]
    assert [secret for secret in SECRETS if secret in "".join(names)] == []


def test_a_login_for_a_proxy_is_used(server, monkeypatch):
    """It is neither forwarded nor shown."""
    seen = []

    def script(handler):
        seen.append((handler.headers["Proxy-Authorization"], handler.headers["Authorization"]))
        handler.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")

    server.scripts["http://example.invalid/trace.json"] = script
    monkeypatch.setenv("http_proxy", f"http://{LOGIN}@{server.address}")
    assert "status 502" in refusal(UnreachableError, "http://example.invalid/trace.json")
    assert seen == [("Basic " + base64.b64encode(LOGIN.encode()).decode(), None)]


def test_hosts_with_ports_are_shown():
    for address in ("http://h:80/x", "http://[::1]/x", "http://[::1]:80/x", "http://h:/x"):
        assert shown(address) == address


def test_no_space_is_a_typed_error(monkeypatch):
    def fail(*_args, **_options):
        raise OSError(errno.ENOSPC, "someone")

    write_files(["/b/trace.json"])
    monkeypatch.setattr(fsspec.filesystem("memory"), "get_file", fail)
    refusal(TooLargeError, "memory://b/trace.json")


def test_a_temporary_folder_that_cannot_be_made(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not-there"))
    with pytest.raises(OutputError, match="Set TMPDIR to a folder"):
        read("memory://b/trace.json")
