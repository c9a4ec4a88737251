"""Chooses between compiled kernels and NumPy: the only place that loads compiled code.

`load` returns a module of kernels once they are compiled. Until then it returns None, the caller
uses NumPy, and a process of low priority compiles the kernels for the next run.
`STEPWHY_NATIVE=0` turns kernels off.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock, active_count
from typing import TYPE_CHECKING, Any, Final

from stepwhy.base import children
from stepwhy.base.columns import code_cache
from stepwhy.base.columns.trusted import UntrustedError

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPILER: Final = "stepwhy.base.columns.compile"
# numba reads this file from the current folder, which may not be trusted.
_NUMBA_SETTINGS: Final = ".numba_config.yaml"
# Settings of numba that do not affect compiled code; others would make it compile again.
_HARMLESS: Final = frozenset(("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"))
# Number of rows from which kernels are faster than NumPy: if numba must be imported first, which
# takes 0.3 s, and if it is already imported.
_MANY: Final = 1 << 21
_FEW: Final = 1 << 12
_STARTED: list[str] = []
_LOADING: Final = Lock()
_REFUSALS: list[str] = []


@cache
def load(module: str) -> Any | None:
    """A module of kernels, None if its code is not compiled yet or kernels are turned off.

    Args:
        module: Full name of a module in a package `kernels`.
    """
    if not enabled() or not _is_neutral():
        return None
    try:
        folder = code_cache.code_folder()
        version = code_cache.checked_version(folder)
        found = _imported(module, folder, version)
    except UntrustedError as error:
        _REFUSALS.append(str(error))
        return None
    except (ImportError, OSError, RuntimeError, code_cache.DamagedError):
        found = None
    if found is None:
        prepare()
    return found


def for_rows(rows: int, module: str) -> Any | None:
    """A module of kernels, None if NumPy is faster for this number of rows.

    Args:
        rows: Number of rows.
        module: As for `load`.
    """
    least = _FEW if _STARTED else _MANY
    return load(module) if rows >= least else None


def enabled() -> bool:
    """Whether kernels are turned on."""
    return os.environ.get("STEPWHY_NATIVE", "1") != "0"


def refusal() -> str | None:
    """Why compiled code was not used or saved, if other users could have written it."""
    return _REFUSALS[0] if _REFUSALS else None


def _is_neutral() -> bool:
    """Whether numba would use its default settings here."""
    chosen = {name for name in os.environ if name.startswith("NUMBA_")}
    return chosen <= _HARMLESS and not os.path.lexists(_NUMBA_SETTINGS)


def _imported(module: str, folder: Path, version: str) -> Any | None:
    """Import a module whose functions numba finds in a folder; None if it would compile them."""
    # numba would use another folder if it could not write to this one.
    if not os.access(folder, os.W_OK):
        return None
    with _LOADING, _without_current_folder(), _without_scipy(), _without_collections():
        numba: Any = importlib.import_module("numba")
        if numba.__version__ != version or numba.config.DISABLE_JIT:
            return None
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
        try:
            found = importlib.import_module(module)
            _STARTED.append(module)
            return found
        finally:
            numba.config.CACHE_DIR = before


@contextmanager
def _without_current_folder() -> Iterator[None]:
    """Do not import from the current folder or relative paths inside this context."""
    before, here = sys.path[:], Path.cwd()
    sys.path[:] = [entry for entry in before if Path(entry).is_absolute() and Path(entry) != here]
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def _without_scipy() -> Iterator[None]:
    """Hide SciPy from numba, which would import it for linear algebra; that takes 0.2 s.

    Does nothing if there are other threads, which may need SciPy.
    """
    if "scipy" in sys.modules or active_count() > 1:
        yield
        return
    sys.modules["scipy"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["scipy"]


@contextmanager
def _without_collections() -> Iterator[None]:
    """Pause garbage collection: all of the many objects that numba creates stay alive."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def prepare() -> None:
    """Compile the kernels in the background, for the next process; failures are silent."""
    if not can_compile():
        return
    try:
        is_ours = code_cache.claim()
    except UntrustedError as error:
        _REFUSALS.append(str(error))
        return
    if is_ours:
        _start_compiler()


def can_compile() -> bool:
    """Whether numba is installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - only before a compilation

    return find_spec("numba") is not None


def _start_compiler() -> None:
    from subprocess import DEVNULL  # noqa: PLC0415 - only before a compilation

    try:
        compiler = children.start(
            children.module_command(_COMPILER, "--claimed"),
            cwd=Path(sys.executable).anchor,  # numba reads its settings in the current folder
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )
    except OSError:
        code_cache.release()
        return
    compiler.returncode = 0  # it outlives this process, which neither waits for it nor warns
