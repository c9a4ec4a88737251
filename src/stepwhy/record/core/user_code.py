"""Find the lines of a stack that belong to the user's program, not to a library or to stepwhy."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import re
import sys
import sysconfig
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

# Library code: the standard library, and everything installed as a package.
_LIBRARIES = tuple(
    {
        os.path.realpath(path) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(name))
    }
)
_PACKAGE_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_HERE = os.path.dirname(__file__)  # noqa: PTH120
OBSERVER = os.path.realpath(os.path.join(_HERE, os.pardir, os.pardir)) + os.sep  # noqa: PTH118
"""Beginning of the paths of stepwhy itself, wherever it is installed."""
# The standard library of another interpreter than this one.
_STANDARD_LIBRARY = re.compile(r"[/\\]lib[/\\]python3\.\d+[/\\]")
# AutoGraph runs a rewritten copy of the user's function, and Inductor the code that it has made of
# a graph, in files of their own.
_GENERATED = re.compile(r"__autograph_generated_file|[/\\]torchinductor_[^/\\]*[/\\]")
_KEPT_COMPONENTS = 2
_LONGEST_CALL = 400  # characters
_BYTES_PER_INSTRUCTION = 2


def script_dir() -> str:
    """The folder of the running script; the current folder without a script."""
    main = getattr(sys.modules.get("__main__"), "__file__", None) or _spawned_from()
    return os.path.dirname(os.path.realpath(main)) if main else os.getcwd()  # noqa: PTH109, PTH120


def _spawned_from() -> str | None:
    """The script of the process that has spawned this one, which is about to import it.

    Source: `multiprocessing.spawn.prepare`.
    """
    script = sys.argv[0] if sys.argv else ""
    is_script = script.endswith(".py") and os.path.isfile(script)  # noqa: PTH113
    return script if is_script and not _is_library(os.path.realpath(script)) else None


def shorten(path: str, root: str) -> str:
    """Shorten a path: relative to the script's folder, else its last two components.

    Args:
        path: Path from the interpreter or the framework.
        root: The script's folder.
    """
    if not os.path.isabs(path):  # noqa: PTH117
        return path
    if path.startswith(root + os.sep):
        return path[len(root) + 1 :]
    return "/".join(PurePath(path).parts[-_KEPT_COMPONENTS:])


class UserFiles:
    """Distinguishes the user's files from others, with a cache: a graph repeats the same few files.

    Args:
        root: The script's folder; by default that of the running script.
    """

    def __init__(self, root: str | None = None) -> None:
        self._root = script_dir() if root is None else root
        self._short: dict[str, str | None] = {}

    def user_name(self, path: str) -> str | None:
        """The short name of a user's file; None for a library's."""
        if path not in self._short:
            self._short[path] = self._classify(path)
        return self._short[path]

    def _classify(self, path: str) -> str | None:
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):  # code without a file may have any name
            return None
        # A script inside an installed package is the user's, as are the files beside it. A virtual
        # environment beside the script is not.
        beside = _is_library(self._root + os.sep) and real.startswith(self._root + os.sep)
        generated = path.startswith("<") or _GENERATED.search(path) is not None
        if generated or (_is_library(real) and not beside):
            return None
        return shorten(real, self._root)


def _is_library(path: str) -> bool:
    known = path.startswith((*_LIBRARIES, OBSERVER)) or any(
        part in path for part in _PACKAGE_FOLDERS
    )
    return known or _STANDARD_LIBRARY.search(path) is not None


def program_files() -> Iterator[tuple[str, str]]:
    """The files of the program's modules: the path of each, and its short name."""
    for module in tuple(sys.modules.values()):
        path = getattr(module, "__file__", None)
        # Most modules are libraries, which their path shows without a look at the disk.
        if isinstance(path, str) and path.endswith(".py") and not _is_library(path):
            name = _files().user_name(path)
            if name is not None:
                yield path, name


def source_of(operation: Any, files: UserFiles) -> str:
    """The line that made a graph operation of TensorFlow: 'train.py(41): tower'; '' for none.

    Args:
        operation: The operation, with the stack at which it was made.
        files: Identifies the user's files.
    """
    for frame in reversed(operation.traceback or ()):
        name = files.user_name(frame.filename)
        if name is not None:
            return f"{name}({frame.lineno}): {frame.name}"
    return ""


@functools.cache
def _files() -> UserFiles:
    """The cache of this process; made late, as the script is unknown until it runs."""
    return UserFiles()


def is_users_file(path: str) -> bool:
    """Whether a file belongs to the user's program."""
    return _files().user_name(path) is not None


def user_line(frame: FrameType | None = None) -> str:
    """The innermost frame of the user's code: 'train.py(41): step'; '' if there is none.

    Args:
        frame: Innermost frame to consider; the caller by default.
    """
    at: FrameType | None = frame or sys._getframe(1)
    while at is not None:
        if line := line_of(at):
            return line
        at = at.f_back
    return ""


def line_of(frame: FrameType) -> str:
    """The line of one frame: 'train.py(41): step'; '' if it is not of the user's code."""
    code = frame.f_code
    name = _files().user_name(code.co_filename)
    return "" if name is None else f"{name}({frame.f_lineno}): {code.co_name}"


def user_file(path: str) -> str:
    """The short name of a file, 'train.py'; '' if it is not of the user's code."""
    return _files().user_name(path) or ""


def code_line(called: Any) -> str:
    """The line where a function, method or object that can be called begins; '' if not the user's.

    Args:
        called: What is called.
    """
    kind: Any = type(called)
    code = getattr(called, "__code__", None)
    if code is None and callable(called):
        code = getattr(kind.__call__, "__code__", None)
    if code is None or (name := _files().user_name(code.co_filename)) is None:
        return ""
    return f"{name}({code.co_firstlineno}): {code.co_name}"


def user_call(*callees: str) -> tuple[str, str]:
    """The call that the innermost frame of the user's code is in, as the program writes it.

    Args:
        callees: Last parts of the names of what may be called, such as 'DataLoader'.

    Returns:
        The line, as from `user_line`, and the call on one line. The line is '' if no frame is of
        the user's code, the call if it calls something else, is very long, or has changed in its
        file since that was imported.
    """
    at: FrameType | None = sys._getframe(1)
    while at is not None and not line_of(at):
        at = at.f_back
    if at is None:
        return "", ""
    try:
        return line_of(at), _call_of(at, callees)
    except Exception:
        return line_of(at), ""


def _call_of(frame: FrameType, callees: tuple[str, ...]) -> str:
    """The call of a frame, if it calls one of these; needs the positions of Python 3.11."""
    code = frame.f_code
    positions = islice(code.co_positions(), frame.f_lasti // _BYTES_PER_INSTRUCTION, None)
    first, last, begin, end = next(positions)
    if first is None or last is None or begin is None or end is None:
        return ""
    lines = linecache.getlines(code.co_filename, frame.f_globals)[first - 1 : last]
    texts = [line.encode() for line in lines]  # columns count bytes
    texts[-1] = texts[-1][:end]
    texts[0] = texts[0][begin:]
    call = ast.parse(b"".join(texts).decode(), mode="eval").body
    if not isinstance(call, ast.Call) or ast.unparse(call.func).split(".")[-1] not in callees:
        return ""
    text = ast.unparse(call)
    return text if len(text) <= _LONGEST_CALL else ""
