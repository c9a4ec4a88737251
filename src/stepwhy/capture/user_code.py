"""Find the lines of a stack that belong to the user's program, not to a library or to stepwhy."""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any

# Code that is not the user's: the interpreter's own, and whatever was installed as a package.
_LIBRARIES = tuple(
    {
        os.path.realpath(path) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(name))
    }
)
_PACKAGE_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# The observer itself, wherever it is installed.
_OBSERVER = os.path.realpath(os.path.join(os.path.dirname(__file__), os.pardir)) + os.sep  # noqa: PTH118, PTH120
# The standard library of another interpreter than this one.
_STANDARD_LIBRARY = re.compile(r"[/\\]lib[/\\]python3\.\d+[/\\]")
# AutoGraph runs a rewritten copy of the user's function, in a file of its own.
_REWRITTEN = "__autograph_generated_file"
_KEPT_COMPONENTS = 2


def script_dir() -> str:
    """The folder of the script that runs; the current one without a script."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(os.path.realpath(main)) if main else os.getcwd()  # noqa: PTH109, PTH120


def shorten(path: str, root: str) -> str:
    """A path relative to the script's folder, or its last two components: never a home.

    Args:
        path: As the interpreter or the framework knows it.
        root: The script's folder.
    """
    if not os.path.isabs(path):  # noqa: PTH117
        return path
    if path.startswith(root + os.sep):
        return path[len(root) + 1 :]
    return "/".join(PurePath(path).parts[-_KEPT_COMPONENTS:])


class UserFiles:
    """Answers per file name, remembered: a graph asks for the same few files over and over.

    Args:
        root: The script's folder; that of the script that runs here by default.
    """

    def __init__(self, root: str | None = None) -> None:
        self._root = script_dir() if root is None else root
        self._short: dict[str, str | None] = {}

    def user_name(self, path: str) -> str | None:
        """The short name of a file of the user's, None for a library's."""
        if path not in self._short:
            self._short[path] = self._judge(path)
        return self._short[path]

    def _judge(self, path: str) -> str | None:
        real = os.path.realpath(path)
        # A script that lives in an installed package is the user's with all that lies beside it;
        # an environment that lies beside the script is not.
        beside = _is_library(self._root + os.sep) and real.startswith(self._root + os.sep)
        made = path.startswith("<") or _REWRITTEN in path
        if made or (_is_library(real) and not beside):
            return None
        return shorten(real, self._root)


def _is_library(path: str) -> bool:
    known = path.startswith((*_LIBRARIES, _OBSERVER)) or any(
        part in path for part in _PACKAGE_FOLDERS
    )
    return known or _STANDARD_LIBRARY.search(path) is not None


def source_of(traceback: Iterable[Any], files: UserFiles) -> str | None:
    """The innermost frame of the user's code: 'train.py(41): tower'; None without any.

    Args:
        traceback: Frames of file name, line number and function, outermost first.
        files: Tells the user's files from others.
    """
    for frame in reversed(list(traceback)):
        name = files.user_name(frame[0])
        if name is not None:
            return f"{name}({frame[1]}): {frame[2]}"
    return None


@functools.cache
def _files() -> UserFiles:
    """The answers of this process; the script is known once its first line runs."""
    return UserFiles()


def user_line(frame: FrameType | None = None) -> str:
    """The innermost frame of the user's code: 'train.py(41): step'; '' without any.

    Args:
        frame: Where to begin; the caller by default.
    """
    at: FrameType | None = frame or sys._getframe(1)
    while at is not None:
        code = at.f_code
        name = _files().user_name(code.co_filename)
        if name is not None:
            return f"{name}({at.f_lineno}): {code.co_name}"
        at = at.f_back
    return ""
