"""Processes that stepwhy starts for its own purposes, kept apart from the current folder.

The current folder may contain files of other people: a trace, and with it a `numba.py`, a
`sitecustomize.py` or a program named `cc`. No process that is started here imports, loads or runs
any of them: Python gets `-P`, and all processes get an environment of known variables in which
search paths have absolute entries only. `PYTHONPATH` is meant for the training, and left out unless
packages that stepwhy needs are found nowhere else. The user's own training command is not started
here.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from typing import Any

    Process = subprocess.Popen[bytes]

_PACKAGES = str(Path(__file__).resolve().parents[2])

# User, language, terminal, and thread limits of numerical libraries.
_PLAIN = frozenset(
    (
        *("USER", "LOGNAME", "LANG", "LANGUAGE", "TZ"),
        *("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"),
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
        *("PYTHONIOENCODING", "PYTHONUTF8", "PYTHONCOERCECLOCALE"),
        *("PYTHONNOUSERSITE", "PYTHONDONTWRITEBYTECODE"),
        *("SYSTEMROOT", "SYSTEMDRIVE", "PATHEXT", "NUMBER_OF_PROCESSORS"),
    )
)
_PREFIXES = ("LC_", "STEPWHY_")
# With these, a child process would count as part of the observed training.
_OF_TRAINING = frozenset(("STEPWHY_RUN_DIR", "STEPWHY_SAMPLER"))
_FOLDERS = frozenset(
    (
        *("HOME", "TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME"),
        *("USERPROFILE", "APPDATA", "LOCALAPPDATA"),
        *("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"),
    )
)
# A relative entry depends on the current folder; most programs read an empty one as that folder.
_SEARCH_PATHS = frozenset(
    (
        *("PATH", "LD_LIBRARY_PATH"),
        *("DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
    )
)
# What stepwhy always needs; only for these, an entry of PYTHONPATH is passed on.
_NEEDED = ("click", "google", "jinja2", "msgspec", "numpy", "pynvml", "rich")
_PRELOADED = "LD_PRELOAD"  # ld.so(8): separated by colons or spaces; names without '/' are searched


def environment() -> dict[str, str]:
    """Environment of a child process: known variables, with absolute paths only."""
    found = ((name, _safe_value(name, value)) for name, value in os.environ.items())
    kept = {name: value for name, value in found if value}
    path = [*([] if _is_installed() else [_PACKAGES]), *_needed_entries()]
    return {**kept, "PYTHONPATH": os.pathsep.join(path)} if path else kept


def _needed_entries() -> list[str]:
    """Absolute entries of `PYTHONPATH` with packages that stepwhy needs and finds nowhere else."""
    from importlib.machinery import PathFinder  # noqa: PLC0415 - imported in training jobs

    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    absolute = {os.path.normpath(entry) for entry in entries if Path(entry).is_absolute()}
    if not absolute:
        return []
    others = [entry for entry in sys.path if os.path.normpath(entry) not in absolute]
    missing = [name for name in _NEEDED if PathFinder.find_spec(name, others) is None]
    return [
        entry
        for entry in dict.fromkeys(entries)
        if os.path.normpath(entry) in absolute
        and any(PathFinder.find_spec(name, [entry]) for name in missing)
    ]


def _safe_value(name: str, value: str) -> str:
    """Value of a variable for child processes; '' to leave it out."""
    if name in _SEARCH_PATHS:
        return os.pathsep.join(filter(os.path.isabs, value.split(os.pathsep)))
    if name in _FOLDERS:
        return value if Path(value).is_absolute() else ""
    if name == _PRELOADED:
        names = value.replace(":", " ").split()
        return " ".join(one for one in names if Path(one).is_absolute() or "/" not in one)
    is_known = name in _PLAIN or name.startswith(_PREFIXES)
    return value if is_known and name not in _OF_TRAINING else ""


def _is_installed() -> bool:
    """Whether this interpreter always imports stepwhy from its current location.

    Entries of `PYTHONPATH` come before the standard library, so packages go there only if needed.
    """
    import site  # noqa: PLC0415 - loaded at start-up, except with -S

    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return _PACKAGES in map(os.path.realpath, folders)


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of stepwhy with this interpreter.

    Args:
        module: Its full name.
        arguments: Its command line.

    Raises:
        OSError: The path of the interpreter is unknown.
    """
    if not sys.executable:
        raise OSError("the path of the Python interpreter is unknown")
    return [sys.executable, "-P", "-m", module, *arguments]


def start(
    command: Sequence[str], *, variables: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process for stepwhy itself.

    Args:
        command: From `module_command`, or the absolute path of a program and its arguments.
        variables: Additional environment variables.
        options: Standard streams, session and working directory, as for `subprocess.Popen`.

    Raises:
        OSError: It cannot be started.
        ValueError: An argument contains a null character.
    """
    import subprocess  # noqa: PLC0415 - imported in training jobs, which may start nothing

    env = {**environment(), **(variables or {})}
    return subprocess.Popen(command, env=env, **options)  # noqa: S603 - see the module's docstring


def run(
    command: Sequence[str], *, variables: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a process for stepwhy itself and wait for it to end.

    Args:
        command: As for `start`.
        variables: As for `start`.
        options: As for `subprocess.run`.

    Raises:
        OSError: It cannot be started.
        ValueError: An argument contains a null character.
        subprocess.SubprocessError: It fails and `check` is set, or it exceeds the timeout.
    """
    import subprocess  # noqa: PLC0415 - imported in training jobs, which may start nothing

    env = {**environment(), **(variables or {})}
    return subprocess.run(command, env=env, **options)  # noqa: PLW1510, S603 - as the caller says


def find_program(name: str) -> str | None:
    """The absolute path of a program on `PATH`; entries that are not absolute are skipped.

    Args:
        name: Its name, without a folder.
    """
    import shutil  # noqa: PLC0415 - as above

    found = shutil.which(name, path=environment().get("PATH", os.defpath))
    return found if found and Path(found).is_absolute() else None


def ignore_relative_path() -> None:
    """Stop importing from relative entries of `PYTHONPATH`; for the `stepwhy` command itself.

    Most often such an entry is the current folder. Python has already made them absolute.
    """
    search_path = os.environ.get("PYTHONPATH", "")
    entries = search_path.split(os.pathsep) if search_path else []
    absolute = {os.path.normpath(entry) for entry in entries if Path(entry).is_absolute()}
    with suppress(FileNotFoundError):  # the current folder has been deleted, and nothing is in it
        relative = {os.path.normpath(Path.cwd() / entry) for entry in entries} - absolute
        sys.path[:] = [entry for entry in sys.path if entry not in relative]
