"""Traces at addresses: reading, refusals, and no leaks of credentials."""

from __future__ import annotations

import errno
import gzip
import json
import logging
import socket
import stat
import subprocess
import sys
import tempfile

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.errors import (
    MissingPackageError,
    NotFoundError,
    NoTracesError,
    SeveralRunsError,
    TooLargeError,
    UnreachableError,
    UnsupportedFormatError,
)
from stepwhy.base.redaction.commands import redact_command as redact
from stepwhy.base.units import format_bytes
from stepwhy.cli import cli
from stepwhy.engine import explain
from stepwhy.read.inputs.places import resolve
from stepwhy.read.inputs.remote import addresses
from stepwhy.read.inputs.remote import client as remote
from stepwhy.read.inputs.remote.budget import Budget
from stepwhy.read.inputs.remote.places import Remote
from tests.engine.test_explain import kineto
from tests.inputs.web_server import web_server
from tests.read.run_directory.test_run_directory import steps, write_run

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

LOGIN = "someone:t0k3n-of-theirs"
QUERY = "X-Amz-Credential=AKIA%2F2024&X-Amz-Signature=5ig4a7u4e&sv=2022-11-02&sig=ab%2Bc%3D"
SECRETS = ("someone", "t0k3n", "AKIA", "5ig4a7u4e", "X-Amz", "2022-11-02", "sig=")


def secrets_in(text):
    return [secret for secret in SECRETS if secret in text]


@pytest.fixture(autouse=True)
def copies(tmp_path, monkeypatch):
    """The folder of private copies, which must be empty at the end of the test."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
def server():
    with web_server() as started:
        yield started


@pytest.fixture
def bucket():
    """Files by path, in the memory of this process."""
    files = fsspec.filesystem("memory")
    yield lambda path, content: files.pipe("/" + path, content)
    files.store.clear()
    files.pseudo_dirs[:] = [""]


TRACE = kineto().encode()


# --- Reading ---


def test_a_file(bucket):
    bucket("runs/trace.json", TRACE)
    result = explain(["memory://runs/trace.json"])
    assert result.inputs[0].path == "memory://runs/trace.json"
    assert result.breakdown.wall_ns == 1_000_000


def test_a_file_on_the_web_by_signature_and_password(server):
    server.files["/a/trace.json.gz"] = gzip.compress(TRACE)
    server.login = LOGIN
    result = explain([server.url("/a/trace.json.gz", LOGIN, QUERY)])
    assert result.inputs[0].path == f"http://{server.address}/a/trace.json.gz"
    assert server.asked == [f"/a/trace.json.gz?{QUERY}"]  # it is unchanged
    assert result.breakdown.wall_ns == 1_000_000


def test_a_file_by_its_address_on_this_machine(tmp_path):
    path = tmp_path / "my trace.json"
    path.write_bytes(TRACE)
    for address in (path.as_uri(), f"file://localhost{path}", f"FILE://{path}"):
        assert explain([address]).inputs[0].path == str(path)


def ranks():
    return {f"runs/rank{rank}.json": kineto(rank).encode() for rank in (0, 1)}


def test_a_folder_and_a_glob_in_a_bucket(bucket):
    for path, content in ranks().items():
        bucket("b/" + path, content)
    bucket("b/runs/notes.txt", b"hello")
    bucket("b/runs/.hidden.json", b"hello")
    for path in ("runs", "runs/", "runs/*.json", "ru?s", "**/rank*.json"):
        assert explain([f"memory://b/{path}"]).run.ranks == 2


def test_a_folder_and_a_glob_on_the_web(server):
    server.files = {"/" + path: content for path, content in ranks().items()}
    server.login = LOGIN
    for path in ("/runs/", "/runs/rank*.json", "/ru*/rank[01].json"):
        result = explain([server.url(path, LOGIN)])
        assert result.run.ranks == 2
        assert secrets_in(repr(result)) == []


def test_a_question_mark_is_a_query_on_the_web():
    assert not addresses.is_pattern("https://h/a.json?x=*")
    assert not addresses.is_pattern("http://[::1]:80/a.json")
    assert addresses.is_pattern("https://h/a*.json?x=1")
    assert addresses.is_pattern("s3://b/rank?.json")


@pytest.mark.parametrize("folder", ["memory://runs/one", "memory://runs/one/process-7"])
def test_a_run_directory(bucket, tmp_path, folder):
    write_run(tmp_path / "one", steps(10, 950_000, profiled=(4, 5)), window=kineto())
    for path in (tmp_path / "one").rglob("*.json*"):
        bucket(f"runs/{path.relative_to(tmp_path)}", path.read_bytes())
    here, there = explain([str(tmp_path / "one")]), explain([folder])
    assert there.inputs[0].path == "memory://runs/one/process-7"
    assert there.breakdown == here.breakdown
    assert there.steps == here.steps


def test_a_folder_of_run_directories(bucket, tmp_path):
    for name in ("one", "two"):
        write_run(tmp_path / name, steps(10, 950_000))
    for path in tmp_path.rglob("*.json*"):
        bucket(f"runs/{path.relative_to(tmp_path)}", path.read_bytes())
    places = resolve(["memory://runs"])
    assert [(p.shown, p.name) for p in places] == [
        ("memory://runs/one", "one"),
        ("memory://runs/two", "two"),
    ]
    assert "process-7/steps.jsonl" in dict(places[0].parts)
    with pytest.raises(SeveralRunsError):
        explain(["memory://runs"])


def test_entries_of_a_listing_stay_in_its_folder(server):
    server.files = {"/runs/trace.json": TRACE, "/runs/%2e%2e%2fup.json": TRACE}
    assert list(remote.files_below(server.url("/runs/"), Budget())) == ["trace.json"]


def test_progress_shows_bytes_and_the_copy_is_private(bucket, copies):
    bucket("runs/trace.json", TRACE)
    reports, modes = [], []

    def progress(text, done, total):
        reports.append((text, done, total))
        modes.extend(stat.S_IMODE(folder.stat().st_mode) for folder in copies.iterdir())

    explain(["memory://runs/trace.json"], progress)
    assert reports[0][1:] == (0, len(TRACE))
    size = format_bytes(len(TRACE))
    assert reports[1] == (f"fetching trace.json, {size} of {size}", len(TRACE), len(TRACE))
    assert ("reading trace.json", 0, 1) in reports
    assert set(modes) == {0o700}


def test_local_files_import_no_remote_packages():
    code = "import sys, stepwhy.engine; assert 'fsspec' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


# --- Refusals ---


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (401, UnreachableError, "may not be read"),
        (403, UnreachableError, "may not be read"),
        (404, NotFoundError, "does not exist"),
        (410, NotFoundError, "does not exist"),
        (503, UnreachableError, "status 503"),
    ],
)
@pytest.mark.parametrize("path", ["/a/trace.json", "/a/", "/a/*.json"])
def test_a_server_that_refuses(server, status, error, words, path):
    server.files["/a/trace.json"] = TRACE
    server.status = status
    with pytest.raises(error, match=words) as caught:
        explain([server.url(path, LOGIN, QUERY)])
    assert secrets_in(str(caught.value)) == []
    assert server.address in str(caught.value)


def test_a_connection_that_breaks(server):
    server.files["/trace.json"] = TRACE
    server.breaks_after = 1024
    with pytest.raises(UnreachableError, match=r"breaks off after 1\.00 KiB") as caught:
        explain([server.url("/trace.json", LOGIN, QUERY)])
    assert secrets_in(str(caught.value)) == []


def test_server_that_does_not_exist():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UnreachableError, match="cannot be read") as caught:
        explain([f"http://{LOGIN}@127.0.0.1:{port}/trace.json?{QUERY}"])
    assert secrets_in(str(caught.value)) == []


@pytest.mark.parametrize("address", ["http://", "https:///x", "http://ho st/x", "http://[1/x"])
def test_invalid_addresses(address):
    with pytest.raises((UnreachableError, NotFoundError)):
        explain([address])


def test_nothing_at_an_address_in_a_bucket(bucket):
    bucket("runs/trace.json", TRACE)
    for address in ("memory://runs/no.json", "memory://no/", "memory://no/*.json"):
        with pytest.raises(NotFoundError, match=r"^memory://no|^memory://runs/no\.json"):
            explain([address])
    with pytest.raises(NotFoundError, match="nothing matches memory://runs/a"):
        explain(["memory://runs/a*"])


def test_a_folder_on_the_web_without_a_trace(server):
    server.files["/runs/.hidden"] = b""
    with pytest.raises(NoTracesError, match="empty folder"):
        explain([server.url("/runs/")])


@pytest.mark.parametrize("scheme", ["ftp", "simplecache::https", "git", ""])
def test_other_schemes_are_refused(scheme):
    with pytest.raises(UnsupportedFormatError, match="Download the trace"):
        explain([f"{scheme}://{LOGIN}@example.org/trace.json"])


@pytest.mark.parametrize("module", ["fsspec.asyn", "aiohttp"])
def test_a_package_that_is_not_installed(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "stepwhy.read.inputs.remote.web", raising=False)
    with pytest.raises(MissingPackageError, match=r"pip install .*\[remote\]"):
        explain(["https://example.org/trace.json"])


class NoCredentialsError(Exception):
    """Named as in botocore."""


class HttpError(Exception):
    """Like the one of gcsfs."""

    def __init__(self, code):
        super().__init__(f"{SECRETS}, {code}")
        self.code = code


@pytest.mark.parametrize(
    ("raised", "error", "words"),
    [
        (PermissionError("Forbidden"), UnreachableError, "may not be read"),
        (OSError("Forbidden: https://storage/b/o\nsomeone"), UnreachableError, "may not be read"),
        (NoCredentialsError("AKIA"), UnreachableError, "may not be read"),
        (HttpError("401"), UnreachableError, "may not be read"),
        (HttpError(404), NotFoundError, "does not exist"),
        (HttpError(None), UnreachableError, r"cannot be read \(HttpError\)"),
        (TimeoutError("someone"), UnreachableError, "does not answer"),
        (OSError(errno.ENOSPC, "someone"), TooLargeError, "no space"),
    ],
)
def test_errors_of_other_protocols(monkeypatch, bucket, raised, error, words):
    bucket("runs/trace.json", TRACE)

    def fail(*_args, **_options):
        raise raised

    monkeypatch.setattr(fsspec.filesystem("memory"), "get_file", fail)
    with pytest.raises(error, match=words) as caught:
        explain(["memory://runs/trace.json"])
    assert secrets_in(str(caught.value)) == []


def test_logs_of_the_packages_are_not_printed(bucket, monkeypatch, capfd):
    bucket("runs/trace.json", TRACE)

    def fail(*_args, **_options):
        logging.getLogger("gcsfs").error("someone")
        raise OSError(errno.EIO, "someone")

    monkeypatch.setattr(fsspec.filesystem("memory"), "get_file", fail)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with pytest.raises(UnreachableError):
        explain(["memory://runs/trace.json"])
    assert capfd.readouterr() == ("", "")


# --- Credentials are not shown ---


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (f"https://{LOGIN}@h.org:81/a/t.json?{QUERY}#f", "https://h.org:81/a/t.json"),
        ("https://a@b:c@h.org/t.json", "https://h.org/t.json"),
        ("https://h.org?sig=1", "https://h.org"),
        ("s3://bucket/someone@work/t.json", "s3://bucket/someone@work/t.json"),
        ("traces/a?b.json", "traces/a?b.json"),
    ],
)
def test_shown_addresses(address, expected):
    assert addresses.shown(address) == expected


WORD = st.text("abcXYZ019-._~%+", min_size=8, max_size=12)


@given(user=WORD, password=WORD, query=WORD, fragment=WORD)
@settings(derandomize=True, max_examples=50)
def test_no_address_is_shown_with_credentials(user, password, query, fragment):
    address = f"https://{user}:{password}@h/p/t?k={query}#{fragment}"
    place = Remote(address, Budget())
    assert addresses.shown(address) == "https://h/p/t"
    assert repr(place) == "Remote('https://h/p/t')"
    assert (place.shown, place.name) == ("https://h/p/t", "t")


def run(*arguments):
    return CliRunner().invoke(cli, [str(a) for a in arguments])


@pytest.mark.parametrize("arguments", [["explain", "--json"], ["ops", "--json"], ["export"]])
def test_no_command_shows_credentials(server, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    server.files["/a/trace.json"] = TRACE
    outcome = run(*arguments, server.url("/a/trace.json", LOGIN, QUERY))
    assert outcome.exit_code == 0
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    texts = [str(p) + p.read_bytes().decode("utf-8", "replace") for p in written]
    assert secrets_in(outcome.output + "".join(texts)) == []
    assert len(written) == (arguments == ["export"])


def test_no_page_shows_credentials(server, tmp_path):
    server.files["/a/trace.json"] = TRACE
    page = tmp_path / "report.html"
    outcome = run("explain", server.url("/a/trace.json", LOGIN, QUERY), "--html", page)
    assert outcome.exit_code == 0
    assert secrets_in(outcome.output + page.read_text()) == []


@pytest.mark.parametrize("command", ["explain", "ops", "placement", "export"])
def test_no_error_shows_credentials(server, command):
    server.files["/a/trace.json"] = b"hello"
    for path in ("/a/trace.json", "/a/no.json", "/a/"):
        outcome = run(command, server.url(path, LOGIN, QUERY))
        assert outcome.exit_code == 3
        assert secrets_in(outcome.output) == []


def test_compare_shows_no_credentials(server):
    server.files["/a/trace.json"] = TRACE
    address = server.url("/a/trace.json", LOGIN, QUERY)
    outcome = run("compare", address, address)
    assert outcome.exit_code == 0
    assert secrets_in(outcome.output) == []
    samples = json.loads(run("compare", address, address, "--json").stdout)
    assert secrets_in(json.dumps(samples)) == []
    assert f"http://{server.address}/a/trace.json" in json.dumps(samples)


def test_run_directory_shows_no_credentials():
    command = ["python", "train.py", "--data", f"https://{LOGIN}@h.org/d.tar?{QUERY}"]
    kept = json.dumps(redact(command))
    assert [s for s in ("someone", "t0k3n", "AKIA", "5ig4a7u4e", "ab%2B") if s in kept] == []


def test_invalid_response_causes_no_warning():
    """aiohttp gives such an error status 0, and a deprecated attribute with another name."""
    from aiohttp import ClientResponseError

    from stepwhy.read.inputs.remote.client import _typed

    error = ClientResponseError(None, (), status=0, message="Bad status line")
    assert "cannot be read (ClientResponseError)" in str(_typed(error, "http://h/x", 0))
