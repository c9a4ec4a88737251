"""Loads the observer from the folder that holds this file, without a path entry for it.

The interpreter may belong to an environment in which stepwhy is not installed, and must not see
what else is installed beside stepwhy.
"""

# ruff: noqa: INP001  a folder of its own: it goes on the path of the user's interpreter
from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location

_PACKAGE = __file__.rsplit("/", 3)[0]


def _load_package() -> None:
    """Import `stepwhy` from its own folder."""
    if "stepwhy" in sys.modules:
        return
    spec = spec_from_file_location(
        "stepwhy", f"{_PACKAGE}/__init__.py", submodule_search_locations=[_PACKAGE]
    )
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["stepwhy"] = module
    spec.loader.exec_module(module)


def attach() -> None:
    """Attach the observer; whatever goes wrong, the training starts."""
    try:
        _load_package()
        from stepwhy.capture.attach import attach as attach_observer

        attach_observer()
    except Exception:
        return
