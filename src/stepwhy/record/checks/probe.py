"""Runs in the interpreter that a command would start, and prints a description as JSON.

Started as a script by `interpreter`, with the observer's bootstrap on the path as in `stepwhy run`.
It imports no framework. Any Python from 3.6 on runs it, so that it is distinguished from one that
fails; before 3.8, the versions of frameworks stay unknown.
"""

import json
import sys
from importlib.util import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The distributions that a framework's package may come from.
_DISTRIBUTIONS = {
    "tensorflow": (
        "tensorflow",
        "tensorflow-cpu",
        "tensorflow-gpu",
        "tensorflow-rocm",
        "tensorflow-macos",
        "intel-tensorflow",
        "tf-nightly",
    ),
    "keras": ("keras", "keras-nightly"),
    "torch": ("torch",),
    "jax": ("jax",),
}


def _file_of(name: str) -> "str | None":
    """File of a module that is loaded at start-up."""
    return getattr(sys.modules.get(name), "__file__", None)


def _version(package: str) -> str:
    """The version of the first distribution of a package that is installed, or ''."""
    try:
        from importlib.metadata import PackageNotFoundError, version
    except ImportError:  # before Python 3.8
        return ""

    for name in _DISTRIBUTIONS[package]:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""


def _framework(package: str) -> "dict[str, str] | None":
    """Folder and version of a framework; None if it is not installed."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:  # no origin: a folder that happens to have the name
        return None
    return {"folder": spec.origin.rpartition("/")[0], "version": _version(package)}


def _about() -> "dict[str, Any]":
    flags = sys.flags
    imports = sys.modules.get("stepwhy.record.core.import_hooks")
    return {
        "version": list(sys.version_info[:3]),
        "awaited": None if imports is None else sorted(imports.awaited()),
        "isolated": bool(flags.isolated),
        "ignores_environment": bool(flags.ignore_environment),
        "no_site": bool(flags.no_site),
        "no_user_site": bool(flags.no_user_site),
        "sitecustomize": _file_of("sitecustomize"),
        "usercustomize": _file_of("usercustomize"),
        "frameworks": {package: _framework(package) for package in _DISTRIBUTIONS},
    }


if __name__ == "__main__":
    # A script's folder goes on the path, and would hide modules of the same names.
    _here = __file__.rpartition("/")[0]
    sys.path[:] = [entry for entry in sys.path if entry != _here]
    print("\n" + json.dumps(_about()))  # noqa: T201  a line of its own, whatever came before
