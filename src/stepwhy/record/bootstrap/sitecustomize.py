"""Attach the observer to a Python process that `stepwhy run` started, or to a child of it.

Python imports the first `sitecustomize` on its path at start-up. This one attaches the observer,
removes its own folder from the path, and then imports the `sitecustomize` that Python would have
imported without it. It runs in any version of Python: a training may start helpers in an old one.
"""

# ruff: noqa: INP001  a folder of its own: it goes on the path of the user's interpreter
import sys

if sys.version_info >= (3, 11):  # noqa: UP036  minimum version of the observer
    import stepwhy_bootstrap  # type: ignore[import-not-found]

    stepwhy_bootstrap.attach()

sys.path[:] = [entry for entry in sys.path if entry != __file__.rpartition("/")[0]]
_this = sys.modules.pop("sitecustomize")
try:
    # Import the next one on the path; its errors propagate.
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ImportError as error:
    if getattr(error, "name", "sitecustomize") != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _this
