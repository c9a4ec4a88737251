"""The command as a client starts it: messages on standard output, and nothing else."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from tests.agents.calls import write_samples

pytest.importorskip("mcp")
pytest.importorskip("duckdb")

ENDLESS = "select count(*) from range(1000000000000) a, range(1000000) b"
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def message(method, number=None, **params):
    about = {} if number is None else {"id": number}
    return json.dumps({"jsonrpc": "2.0", "method": method, **about, "params": params}) + "\n"


def children_of(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def wait_for(condition):
    end = time.monotonic() + 120
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def has_ended(pid):
    """Whether a process has ended, even if nobody has asked for its exit code yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def server(tmp_path):
    """The server, with the samples."""
    write_samples(tmp_path)
    command = [sys.executable, "-m", "stepwhy", "mcp", str(tmp_path)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as process:
        yield process
        process.kill()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_session(server):
    lines = []

    def send(text):
        server.stdin.write(text)
        server.stdin.flush()

    def reply(number):
        while True:
            lines.append(server.stdout.readline())
            found = json.loads(lines[-1])
            if found.get("id") == number:
                return found["result"]

    send(message("initialize", 1, **HELLO))
    assert reply(1)["serverInfo"]["name"] == "stepwhy"
    send(message("notifications/initialized"))
    send(message("tools/call", 2, name="explain", arguments={"paths": ["trace.json"]}))
    found = reply(2)
    assert found["structuredContent"]["schema"] == "stepwhy.result/1"
    assert not found["isError"]
    query = {"path": "trace.json", "query": ENDLESS}
    send(message("tools/call", 3, name="sql", arguments=query))
    (cancelled,) = wait_for(lambda: children_of(server.pid))
    send(message("notifications/cancelled", requestId=3))
    wait_for(lambda: has_ended(cancelled))
    send(message("tools/call", 4, name="sql", arguments=query))
    (left,) = wait_for(lambda: [c for c in children_of(server.pid) if c != cancelled])
    rest, errors = server.communicate(timeout=20)  # closes its input
    wait_for(lambda: has_ended(left))
    lines += rest.splitlines()
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in lines)
    assert errors == ""
    assert server.returncode == 0


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_call_does_not_outlive_a_server_that_is_killed(server):
    server.stdin.write(message("initialize", 1, **HELLO) + message("notifications/initialized"))
    arguments = {"path": "trace.json", "query": ENDLESS}
    server.stdin.write(message("tools/call", 2, name="sql", arguments=arguments))
    server.stdin.flush()
    (child,) = wait_for(lambda: children_of(server.pid))
    os.kill(server.pid, 9)
    wait_for(lambda: has_ended(child))


def test_the_extra_is_named_where_it_is_missing(monkeypatch, tmp_path):
    for name in ("mcp_types", "mcp", "mcp.server", "stepwhy.apps.agents.server"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    done = CliRunner().invoke(cli, ["mcp", str(tmp_path)])
    assert done.exit_code == 3
    assert "[mcp]" in done.stderr


def test_a_folder_that_does_not_exist(tmp_path):
    done = CliRunner().invoke(cli, ["mcp", str(tmp_path / "none")])
    assert (done.exit_code, "[input-not-found]" in done.stderr) == (3, True)
