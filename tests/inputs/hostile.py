"""Files that must not block a reader, and a child process with limits."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

# Address space, bytes, and seconds of the child process: failing tests exceed one of them.
MEMORY = 3 << 30
SECONDS = 120

_PROGRAM = """
import json, sys
from stepwhy.engine import explain
from stepwhy.base.errors import InputError
from stepwhy.show.json import render
for path in sys.argv[1:]:
    try:
        answer = json.loads(render(explain([path])))
    except InputError as error:
        answer = {"slug": error.slug, "what": error.what}
    print(json.dumps(answer), flush=True)
"""


def link_to(target):
    return lambda path: path.symlink_to(target)


def a_socket(path):
    """A socket; its path is relative, as it has to be short."""
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(before)


KINDS = {
    "pipe": os.mkfifo,
    "socket": a_socket,
    "folder": os.mkdir,
    "zero": link_to("/dev/zero"),
    "full": link_to("/dev/full"),
    "tty": link_to("/dev/tty"),
    "passwd": link_to("/etc/passwd"),
}
"""For each kind of entry that is not a regular file: a function that creates it in a folder."""


def child(*arguments, **options):
    """Run Python with little memory and a time limit.

    Raises:
        TimeoutExpired: It hangs.
    """

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        preexec_fn=limit,
        capture_output=True,
        timeout=SECONDS,
        check=False,
        start_new_session=True,  # without a terminal, so that /dev/tty leads nowhere
        env={**os.environ, "STEPWHY_NATIVE": "0", **options.pop("env", {})},
        **options,
    )


def explained(*paths, **options):
    """Output of `stepwhy explain --json` for each input, or its error."""
    done = child("-c", _PROGRAM, *paths, **options)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def counters(answer):
    """Health counters of an output."""
    return {entry["counter"] for entry in answer["inputs"][0]["health"]}
