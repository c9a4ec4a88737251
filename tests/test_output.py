"""The standard streams: escaped, in any encoding, and also when they are gone."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from stepwhy.base import output

HOSTILE = "a\x1b[2J\n\u202e\x9b"
ESCAPED = r"a\x1b[2J\n\u202e\x9b"


class Stream(io.TextIOWrapper):
    def __init__(self, encoding="utf-8", errors="strict"):
        super().__init__(io.BytesIO(), encoding=encoding, errors=errors)


def python(code, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, check=False, **options
    )


def test_a_line_is_one_line(capsys):
    output.line(HOSTILE)
    assert capsys.readouterr().err == f"{ESCAPED}\n"


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_a_program_without_standard_error_goes_on(monkeypatch, stream):
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    output.line("text")
    output.rendered("text")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "utf-16"])
def test_a_document_is_utf8_in_every_environment(monkeypatch, encoding):
    stream = Stream(encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    output.document('{"ü": "步"}\n')
    assert stream.buffer.getvalue() == '{"ü": "步"}\n'.encode()


def test_a_document_goes_to_a_stream_of_text(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    output.document("{}\n")
    assert stream.getvalue() == "{}\n"


def test_the_traceback_of_a_bug_is_escaped():
    code = (
        "import sys\nfrom stepwhy.base import output\noutput.guard()\n"
        "try:\n    raise ValueError(sys.argv[1])\n"
        "except ValueError as error:\n    raise RuntimeError(sys.argv[1]) from error"
    )
    done = python(code, HOSTILE)
    assert done.returncode == 1
    text = done.stderr.decode()
    lines = text.splitlines()
    assert "ValueError: a\\x1b[2J" in lines
    assert "RuntimeError: a\\x1b[2J" in lines
    assert lines[-1] == r"  \u202e\x9b"
    assert "The above exception was the direct cause" in text
    assert text.isascii()


THREAD = "import threading; t = threading.Thread(target=fail); t.start(); t.join()"
DELETED = "class A:\n    __del__ = lambda self: fail()\nA()"


@pytest.mark.parametrize("where", [THREAD, DELETED])
def test_a_failure_elsewhere_is_escaped(where):
    code = (
        "import sys\nfrom stepwhy.base import output\noutput.guard()\n"
        f"def fail():\n    raise ValueError(sys.argv[1])\n{where}"
    )
    done = python(code, HOSTILE)
    assert b"ValueError: a\\x1b[2J\n  \\u202e" in done.stderr
    assert b"\x1b" not in done.stderr


def test_a_thread_that_exits_is_no_failure():
    code = "import sys\nfrom stepwhy.base import output\noutput.guard()\nfail = sys.exit\n" + THREAD
    assert python(code).stderr == b""


def test_a_warning_is_escaped():
    code = (
        "import sys, warnings\nfrom stepwhy.base import output\noutput.guard()\n"
        "warnings.warn(sys.argv[1], stacklevel=1)"
    )
    done = python(code, HOSTILE)
    assert b"UserWarning: a\\x1b[2J\n" in done.stderr
    assert b"\x1b" not in done.stderr


def test_json_of_a_command_is_utf8_where_the_terminal_is_not(tmp_path):
    (tmp_path / "träin\u202e.json").write_text("{}")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "stepwhy", "check", "--json", "--", "träin\u202e"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, check=False, timeout=240
    )
    assert json.loads(done.stdout.decode())["command"] == ["träin\u202e"]
    assert rb"tr\u00e4in" not in done.stdout
    assert rb"in\u202e" in done.stdout
