"""Runs scripts in forks of this process, which imports their framework first.

`python fork_server.py MODULE...` reads one JSON object per script from its standard input, a socket
that also brings the script's standard streams. It writes the process id of each script, and then
its exit code, to its standard output.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from typing import Any

_LIMIT_S = 300


def _serve() -> None:
    """Run each script that standard input names, one after the other."""
    requests = socket.socket(fileno=0)
    while request := _next_request(requests):
        about, streams = request
        child = os.fork()
        if not child:
            requests.detach()
            _become(streams, **about)
        for stream in streams:
            os.close(stream)
        os.write(1, b"%d\n" % child)
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


def _next_request(requests: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """A script and the descriptors of its standard streams; None when there are no more."""
    text, streams, *_ = socket.recv_fds(requests, 1 << 16, 3)
    while text and not text.endswith(b"\n"):
        text += requests.recv(1 << 16)
    return (json.loads(text), streams) if text else None


def _become(
    streams: list[int], words: list[str], folder: str, environment: dict[str, str]
) -> NoReturn:
    """Be the process of a script, and end as it ends."""
    signal.alarm(_LIMIT_S)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    tempfile.tempdir = None
    if words[0].startswith("-W"):
        warnings.simplefilter(words.pop(0).removeprefix("-W"))
    try:
        _run_module(words[1:]) if words[0] == "-m" else _run_script(words)
    except Exception as error:  # noqa: BLE001 - as the interpreter would
        sys.last_type, sys.last_value = type(error), error
        frames = error.__traceback__.tb_next.tb_next
        sys.excepthook(type(error), error.with_traceback(frames), None)
        sys.exit(1)
    sys.exit()


def _run_script(words: list[str]) -> None:
    """Run the script that the first word names."""
    script = str(Path(words[0]).absolute())
    sys.argv, sys.path[0] = words, str(Path(script).parent)
    main = types.ModuleType("__main__")
    main.__file__ = script
    sys.modules["__main__"] = main
    _attach()  # which may ask for the script at once, as when garbage is collected
    exec(compile(Path(script).read_bytes(), script, "exec"), vars(main))  # noqa: S102 - our own


def _run_module(words: list[str]) -> None:
    """Run the module that the first word names, as `python -m` does."""
    sys.argv, sys.path[0] = words, str(Path.cwd())
    _attach()
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def _attach() -> None:
    """Attach the observer, as its `sitecustomize` would; without a run directory, do nothing."""
    if "STEPWHY_RUN_DIR" in os.environ:
        from stepwhy.record import attach

        attach.attach()


if __name__ == "__main__":
    folder = sys.path.pop(0)  # the packages of tests have names of others
    for name in sys.argv[1:]:
        importlib.import_module(name)
    sys.path.insert(0, folder)
    # Whoever collects garbage would touch, and so copy, each object of the framework.
    gc.freeze()
    _serve()
