"""Load the observer from the folder of this file, without a path entry for it.

The interpreter may belong to an environment in which stepwhy is not installed, and must not see
what else is installed beside stepwhy. No module of the standard library is loaded that Python has
not loaded already: the program may have one of the same name, which it would import.
"""

# ruff: noqa: INP001  a folder of its own: it goes on the path of the user's interpreter
from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import SourceFileLoader

_PACKAGE = __file__.rsplit("/", 3)[0]
_FOLDER = __file__.rpartition("/")[0]


def _load_package() -> None:
    """Import `stepwhy` from its own folder, without `importlib.util`, which takes longer."""
    if "stepwhy" in sys.modules:
        return
    path = f"{_PACKAGE}/__init__.py"
    loader = SourceFileLoader("stepwhy", path)
    spec = ModuleSpec("stepwhy", loader, origin=path, is_package=True)
    spec.submodule_search_locations = [_PACKAGE]
    spec.has_location = True
    module = type(sys)("stepwhy")
    module.__spec__, module.__loader__, module.__file__ = spec, loader, path
    module.__package__, module.__path__ = "stepwhy", [_PACKAGE]
    sys.modules["stepwhy"] = module
    loader.exec_module(module)


def attach() -> None:
    """Attach the observer; errors are reported to the launcher, so that the training starts."""
    try:
        is_module, is_package = _namesakes()
        if is_package:
            _report("the program has a package of its own that is named 'stepwhy'")
            return
        _load_package()
        from stepwhy.record import attach as observer

        observer.attach()
        if is_module:
            observer.give_name_back()
    except Exception as error:
        module = getattr(error, "name", None)  # of an import; the message may contain anything
        _report(f"{type(error).__name__}{f' of {module}' if module else ''}")


def _namesakes() -> tuple[bool, bool]:
    """Whether the program would import a module or a package of its own as `stepwhy`.

    Installed packages are not searched: what is installed under this name is stepwhy.
    """
    path = os.environ.get("PYTHONPATH", "")
    folders = [
        *_script_folders(),
        *(entry for entry in path.split(":") if entry != _FOLDER and path),
    ]
    for folder in folders:
        package = f"{folder or '.'}/stepwhy"
        if os.path.isfile(f"{package}/__init__.py"):
            is_own = os.path.isfile(f"{package}/record/bootstrap/stepwhy_bootstrap.py")
            return False, not is_own
        if os.path.isfile(f"{package}.py"):
            return True, False
    return False, False


def _script_folders() -> list[str]:
    """What Python will put first on the path, which it does after this; [] if nothing."""
    if getattr(sys.flags, "safe_path", False):
        return []
    program = sys.argv[0] if sys.argv else ""
    if program in ("", "-c", "-m"):
        return ["."]
    program = os.path.realpath(program)
    return [program if os.path.isdir(program) else os.path.dirname(program)]


def _report(reason: str) -> None:
    """Append why nothing is observed to the file in which processes register."""
    text = "".join(c if " " <= c <= "~" and c not in '"\\' else "?" for c in reason)
    try:
        file = os.open(
            f"{os.environ['STEPWHY_RUN_DIR']}/attached",
            os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC,
        )
        os.write(file, f'{{"pid":{os.getpid()},"failed":"{text}"}}\n'.encode())
        os.close(file)
    except (OSError, KeyError):
        return
