"""Runs scripts in forks of one process that has imported their framework.

Importing TensorFlow takes longer than most programs of tests train. A script finds everything as if
Python had started it (arguments, folder, environment, `__main__`), and ends as it would there.

`python forks.py MODULE...` reads one JSON object per script from its standard input, and writes the
exit code of each to its standard output.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LIMIT_S = 300
# What the scripts of a framework find imported. JAX is imported fast, and must not be forked.
IMPORTED = {"tensorflow": ["tensorflow"], "torch": ["torch", "torch._dynamo"]}


class Forks:
    """A process that has imported a framework, and runs scripts in forks of itself."""

    def __init__(self, framework: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, *IMPORTED[framework]],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(
        self,
        words: Sequence[str | Path],
        scratch: Path,
        folder: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with its arguments, and return its exit code and what it printed.

        Args:
            words: The path of the script, and its arguments.
            scratch: An existing folder for the output.
            folder: The current folder of the script; None is that of the tests.
            environment: The environment of the script.
        """
        paths = {name: str(scratch / name) for name in ("stdout", "stderr")}
        about = {"folder": str(folder or Path.cwd()), "environment": dict(environment)}
        script = {"words": [str(word) for word in words], **about, **paths}
        print(json.dumps(script), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        printed = [Path(path).read_text() for path in paths.values()]
        return subprocess.CompletedProcess(words, code, *printed)

    def close(self) -> None:
        self._process.communicate()  # which closes its standard input, after which it ends


def _serve() -> None:
    """Run each script that standard input names, one after the other."""
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            _become(**json.loads(line))
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


def _become(
    words: list[str], folder: str, environment: dict[str, str], stdout: str, stderr: str
) -> NoReturn:
    """Be the process of a script, and end as it ends."""
    signal.alarm(_LIMIT_S)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for descriptor, path in enumerate((os.devnull, stdout, stderr)):
        flags = os.O_WRONLY | os.O_CREAT if descriptor else os.O_RDONLY
        os.dup2(os.open(path, flags), descriptor)
    tempfile.tempdir = None
    script = str(Path(words[0]).absolute())
    sys.argv, sys.path[0] = words, str(Path(script).parent)
    main = types.ModuleType("__main__")
    main.__file__ = script
    sys.modules["__main__"] = main
    try:
        exec(compile(Path(script).read_bytes(), script, "exec"), vars(main))  # noqa: S102 - our own
    except Exception as error:  # noqa: BLE001 - as the interpreter would
        sys.excepthook(type(error), error.with_traceback(error.__traceback__.tb_next), None)
        sys.exit(1)
    sys.exit()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    _serve()
