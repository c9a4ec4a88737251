"""Which files of a recorded stack are the program's own, and how their lines are shown.

Nothing but their paths is known: the trace may come from another machine.
"""

from __future__ import annotations

from functools import lru_cache

from stepwhy.base.patterns import regex

# Code that is not the program's: installed packages, the standard library, TensorFlow built from
# source, the observer (first called `capture`), which calls the program's functions, and code that
# was generated.
_LIBRARY = regex(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|[/\\]Python3\d+[/\\]Lib[/\\]"
    r"|[/\\]tensorflow[/\\]python[/\\]|[/\\]stepwhy[/\\](?:capture|record)[/\\]"
    r"|^<|__autograph_generated_file"
)
_HOME = regex(r"^(?:(?:[A-Za-z]:)?[/\\](?:home|Users)[/\\][^/\\]+|/root)[/\\]")
_SEPARATOR = regex(r"[/\\]")
_KEPT_COMPONENTS = 2


@lru_cache(maxsize=1 << 12)
def is_program_file(path: str) -> bool:
    """Whether a source file is the program's own."""
    return bool(path) and not _LIBRARY.search(path)


def folder_of(path: str) -> str:
    """The folder of a file, with the separator at its end; '' for none."""
    return path[: max(path.rfind("/"), path.rfind("\\")) + 1]


def shown_line(path: str, number: int, function: str, root: str = "") -> str:
    """'train.py(41): tower'; without the function if it is not known.

    Args:
        path: The file.
        number: The line.
        function: Name of the function; of a qualified name, the last part is shown.
        root: Folder of the script, to which files inside it are relative. Of other files the last
            components are shown, never a home folder.
    """
    place = f"{_shorten(path, root)}({number})"
    return f"{place}: {function.rpartition('.')[2]}" if function else place


def _shorten(path: str, root: str) -> str:
    if root and path.startswith(root):
        return path[len(root) :]
    return "/".join(_SEPARATOR.split(_HOME.sub("", path))[-_KEPT_COMPONENTS:])
