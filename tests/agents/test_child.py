"""Each call has a process of its own, which ends with it."""

import os
import sys

import pytest

pytest.importorskip("anyio")
import anyio

from stepwhy.apps.agents import child
from stepwhy.apps.agents.answers import Answer, Failure
from stepwhy.apps.agents.child import Calls
from stepwhy.apps.agents.messages import Request

REQUEST = Request("ops", {"path": "x"}, ("/x",))
# A process that writes its number into a file, and what is no number after a minute.
SLEEP = """
import os, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(60)
open(sys.argv[1], "w").write("slept")
"""


def run(code, *arguments, reports=None):
    """What a process with this code answers."""

    async def report(*progress):
        reports.append(progress)

    async def main():
        return await Calls([sys.executable, "-c", code, *arguments]).answer(REQUEST, report)

    return anyio.run(main)


def test_the_last_message_is_the_answer():
    reports = []
    code = (
        "import sys; line = sys.stdin.readline(); print('noise'); print('[1]');"
        """print('{"type":"progress","activity":"reading","done":1,"total":2}');"""
        """print('{"type":"answer","text":"%s","data":{}}' % ('"ops"' in line))"""
    )
    assert run(code, reports=reports) == Answer("True", {})
    assert reports == [("reading", 1, 2)]


@pytest.mark.parametrize(
    ("code", "slug"),
    [
        ("raise SystemExit(1)", "bug"),
        ("raise SystemExit(0)", "bug"),
        ("import os; os.kill(os.getpid(), 9)", "ended"),
        ("import sys; sys.stdin.close(); raise ValueError('x')", "bug"),
    ],
)
def test_a_process_without_an_answer_is_a_failure(code, slug, capfd):
    found = run(code)
    assert isinstance(found, Failure)
    assert found.slug == slug
    assert "Traceback" not in str(found)
    assert capfd.readouterr().out == ""


def test_a_process_that_ends_before_the_request_is_sent_is_a_failure(monkeypatch):
    send = child._send

    def after_its_end(process, line):
        process.wait(60)
        send(process, line)

    monkeypatch.setattr(child, "_send", after_its_end)
    assert run("raise SystemExit(1)").slug == "bug"


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_call_that_takes_too_long_ends_its_process(monkeypatch, tmp_path):
    monkeypatch.setattr(child, "LONGEST_S", 0.5)
    assert run(SLEEP, str(tmp_path / "pid")).slug == "timeout"
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_cancelled_call_ends_its_process(tmp_path):
    file = tmp_path / "pid"

    async def main():
        calls = Calls([sys.executable, "-c", SLEEP, str(file)])
        async with anyio.create_task_group() as group:
            group.start_soon(calls.answer, REQUEST, None)
            while not (file.exists() and file.read_text()):  # noqa: ASYNC110 - written by another process
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert not is_alive(int(file.read_text()))


def test_only_so_many_calls_run_at_once(tmp_path):
    code = (
        "import os, sys, time; mine = sys.argv[1] + '/' + str(os.getpid()); open(mine, 'w');"
        "time.sleep(0.1); n = len(os.listdir(sys.argv[1])); os.remove(mine);"
        """print('{"type":"answer","text":"%s","data":{}}' % n)"""
    )
    counts = []

    async def one(calls):
        counts.append(int((await calls.answer(REQUEST, None)).text))

    async def main():
        calls = Calls([sys.executable, "-c", code, str(tmp_path)])
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(one, calls)

    anyio.run(main)
    assert len(counts) == 4
    assert max(counts) <= 2


def test_the_process_knows_the_secrets_that_it_has_to_redact(monkeypatch):
    for name in ("MY_ACCESS_TOKEN", "AWS_PROFILE", "HTTPS_PROXY", "BASH_ENV"):
        monkeypatch.setenv(name, "x")
    local = child._variables(allow_remote=False)
    assert local["MY_ACCESS_TOKEN"] == "x"  # noqa: S105 - no password
    assert not {"AWS_PROFILE", "HTTPS_PROXY", "BASH_ENV"} & set(local)
    remote = child._variables(allow_remote=True)
    assert {"AWS_PROFILE", "HTTPS_PROXY", "MY_ACCESS_TOKEN"} <= set(remote)
    assert "BASH_ENV" not in remote
