"""The `stepwhy` command, up to the point where the packages of stepwhy can be imported.

`PYTHONPATH` is meant for the training. What it names comes before the standard library and the
installed packages: an old `click`, a `platform.py` or a `stepwhy.py` of the user's would be
imported in place of what stepwhy needs. So the command searches it last. It is a module of its own,
at the top level, because a file named `stepwhy.py` hides the package; and it imports nothing that
Python has not loaded when it starts.

Whatever fails before a command that `stepwhy run` should start: that command runs, unobserved.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# The user's `PYTHONPATH`, while this process restarts without it.
_SAVED = "_STEPWHY_PYTHONPATH"
# Python imports these itself, from wherever they are, and stepwhy does not.
_HOOKS = frozenset(("sitecustomize", "usercustomize", "stepwhy_bootstrap", "__main__"))
_STDERR = 2
_LONGEST_REASON = 200  # characters
_CTYPE = "LC_CTYPE"  # Python sets it in the C locale (PEP 538)

VALUE_OPTIONS = frozenset(("--out", "--metrics-file", "--metrics-port", "--otlp"))
"""Options of `stepwhy run` that are followed by a value."""
FLAGS = frozenset(("--quiet", "--reduce"))
"""Options of `stepwhy run` without a value."""


def main() -> None:
    """Entry point of the `stepwhy` command."""
    try:
        own_packages_first()
        from stepwhy.cli import main as run_command  # noqa: PLC0415 - the path is set up above
    except Exception as error:
        run_unobserved(command_of(sys.argv[1:]), error)
        raise
    run_command()


def own_packages_first() -> None:
    """Search the entries of `PYTHONPATH` last; relative ones and the script's folder not at all.

    Packages that only `PYTHONPATH` names are still found. If a module that stepwhy imports, too,
    has been loaded from there, this process starts again without the variable, which is restored
    then for the processes that it starts.
    """
    saved = os.environ.pop(_SAVED, None)
    if saved is not None:
        os.environ["PYTHONPATH"] = saved
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder of the script; for -m, the current one
    value = os.environ.get("PYTHONPATH", "")
    if not value:
        return
    sys.path[:] = _reordered(sys.path, *_entries(value))
    if saved is None and _is_shadowed(sys.path):
        _restart(value)


def _entries(value: str) -> tuple[list[str], set[str]]:
    """The absolute entries of a search path, in order, and the relative ones as absolute paths."""
    entries = value.split(os.pathsep)
    absolute = list(dict.fromkeys(os.path.abspath(e) for e in entries if os.path.isabs(e)))
    relative = {os.path.abspath(e) for e in entries if not os.path.isabs(e)}
    return absolute, relative - set(absolute)


def _reordered(path: Sequence[str], absolute: Sequence[str], relative: set[str]) -> list[str]:
    """A search path with the entries of `PYTHONPATH` last.

    Folders of installed packages come first among them; the folder of stepwhy itself is the first
    of all.
    """
    import site  # noqa: PLC0415 - loaded already, except with -S

    here = os.path.dirname(os.path.abspath(__file__))
    installed = {*site.getsitepackages(), site.getusersitepackages()}
    own = [entry for entry in absolute if entry == here]
    others = [entry for entry in path if entry not in relative and entry not in absolute]
    last = [entry for entry in absolute if entry != here]
    last.sort(key=lambda entry: entry not in installed)
    return [*own, *others, *last]


def _is_shadowed(path: list[str]) -> bool:
    """Whether a loaded module is another one than the same name gives on a search path."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or "." in name or name in _HOOKS:
            continue
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.origin and not _is_same(spec.origin, file):
            return True
    return False


def _is_same(one: str, other: str) -> bool:
    try:
        return one == other or os.path.samefile(one, other)
    except OSError:
        return False


def _restart(value: str) -> None:
    """Replace this process by the same one without `PYTHONPATH`; returns if that fails."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {_SAVED: value}
    try:
        with open("/proc/self/environ", "rb") as file:
            if b"LC_CTYPE=" not in file.read():
                environment.pop(_CTYPE, None)
        os.execve(sys.executable, [sys.executable, "-P", __file__, *sys.argv[1:]], environment)  # noqa: S606 - this program
    except (OSError, TypeError, ValueError):
        return


def run_unobserved(command: Sequence[str], error: Exception) -> None:
    """Replace this process by a training command; returns if it cannot be started.

    Args:
        command: Program and arguments; may be empty.
        error: Why stepwhy cannot observe it.
    """
    if not command:
        return
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
    _say(f"stepwhy: {reason}. The command runs unobserved, and nothing is recorded.\n")
    _replace_with(command)


def _say(text: str) -> None:
    try:
        os.write(_STDERR, text.encode("ascii", "backslashreplace"))
    except OSError:  # it is closed
        return


def command_of(words: Sequence[str]) -> list[str]:
    """The command that `stepwhy run` starts; [] if these are not the arguments of one.

    Args:
        words: The arguments of the `stepwhy` command.
    """
    if words[:1] != ["run"]:
        return []
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":
            return rest
        if word in VALUE_OPTIONS:
            rest[:1] = []
        elif word in {"-h", "--help"}:
            return []
        elif word not in FLAGS and word.partition("=")[0] not in VALUE_OPTIONS:
            return [sys.executable, word, *rest]
    return []


def _replace_with(command: Sequence[str]) -> None:
    import signal  # noqa: PLC0415 - only here

    for name in ("SIGPIPE", "SIGXFSZ"):  # which Python ignores
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))  # noqa: S606 - the user's command
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    sys.argv[0] = "stepwhy"
    main()
