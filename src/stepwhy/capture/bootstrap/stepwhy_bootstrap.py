"""Load the observer from the folder of this file, without a path entry for it.

The interpreter may belong to an environment in which stepwhy is not installed, and must not see
what else is installed beside stepwhy.
"""

# ruff: noqa: INP001  a folder of its own: it goes on the path of the user's interpreter
from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, SourceFileLoader

_PACKAGE = __file__.rsplit("/", 3)[0]


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
    """Attach the observer; errors are ignored, so that the training starts."""
    try:
        _load_package()
        from stepwhy.capture.attach import attach as attach_observer

        attach_observer()
    except Exception:
        return
