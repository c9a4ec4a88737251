"""The command `stepwhy serve`."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from tests.serve.runs import write_run


def invoke(*args):
    return CliRunner().invoke(cli, ["serve", *map(str, args)])


def test_a_folder_that_does_not_exist(tmp_path):
    done = invoke(tmp_path / "none")
    assert (done.exit_code, "[input-not-found]" in done.stderr) == (3, True)


def test_a_file_instead_of_a_folder(tmp_path):
    (tmp_path / "file").touch()
    done = invoke(tmp_path / "file")
    assert done.exit_code == 3
    assert "is not a folder" in done.stderr


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = invoke(tmp_path)
    assert done.exit_code == 3
    assert "[serve]" in done.stderr


def test_a_port_in_use(tmp_path):
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = invoke(tmp_path, "--port", taken.getsockname()[1])
    assert done.exit_code == 10
    assert "[cannot-serve]" in done.stderr
    assert "--port" in done.stderr


def test_a_host_of_another_machine(tmp_path):
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    assert invoke(tmp_path, "--host", "192.0.2.1").exit_code == 10


@pytest.fixture
def served(tmp_path):
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    write_run(tmp_path / "runs", "train-1")
    command = [sys.executable, "-m", "stepwhy", "serve", tmp_path / "runs", "--port", "0"]
    env = {**os.environ, "STEPWHY_CACHE": str(tmp_path / "cache"), "STEPWHY_NATIVE": "0"}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def fetch(url, **headers):
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - our own address
    return opener.open(request, timeout=60), opener


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(served, number):
    process, url = served
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
    base = url.partition("?")[0]
    answer, opener = fetch(url)
    assert "Welcome" in answer.read().decode()
    page = opener.open(base, timeout=60).read().decode()
    assert "train-1" in page
    assert "read only" not in page
    with pytest.raises(urllib.error.HTTPError, match="403"):
        fetch(base, Host="attacker.example")
    for path in ("..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "run/%00/report"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(base + path)
    process.send_signal(number)
    _, printed = process.communicate(timeout=60)
    assert "Traceback" not in printed
    assert process.returncode == (0 if number == signal.SIGINT else 128 + number)
