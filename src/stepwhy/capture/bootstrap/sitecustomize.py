"""Puts the observer into a Python process that `stepwhy run` started, or a child of it.

Python imports the first `sitecustomize` on its path at start-up. This one attaches the observer,
takes its own directory off the path again, and hands over to the `sitecustomize` that would have
been imported without it. It must parse and run in any Python 3, whether stepwhy is installed
there or not, and no failure of the observer may show.
"""

# ruff: noqa: INP001  a folder of its own: it goes on the path of the user's interpreter
from __future__ import annotations

import sys

_OLDEST = (3, 11)  # what the observer is written for
_HERE = __file__.rpartition("/")[0]


def _load_package() -> None:
    """Make `stepwhy` importable from the folder that holds this file, without a path entry."""
    if "stepwhy" in sys.modules:
        return
    from importlib.util import module_from_spec, spec_from_file_location

    package = __file__.rsplit("/", 3)[0]
    spec = spec_from_file_location(
        "stepwhy", package + "/__init__.py", submodule_search_locations=[package]
    )
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["stepwhy"] = module
    spec.loader.exec_module(module)


def _attach() -> None:
    """Attach the observer; whatever goes wrong stays here."""
    if sys.version_info < _OLDEST:
        return
    try:  # whatever happens, the training starts
        _load_package()
        from stepwhy.capture.attach import attach

        attach()
    except Exception:
        pass


def _hand_over() -> None:
    """Run the `sitecustomize` behind this one; its errors are its own, as without us."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    sys.path[:] = [entry for entry in sys.path if entry != _HERE]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_attach()
_hand_over()
