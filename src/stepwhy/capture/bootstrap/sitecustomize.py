"""Lets the observer into a Python process that `stepwhy run` started, or a child of it.

Python imports the first `sitecustomize` on its path at start-up. This one attaches the observer,
takes its own folder off the path again, and hands over to the one that would have been imported
without it. Any Python parses and runs it, as a training may start helpers in an old one.
"""

# ruff: noqa: INP001  a folder of its own: it goes on the path of the user's interpreter
import sys

if sys.version_info >= (3, 11):  # noqa: UP036  what the observer is written for
    import stepwhy_bootstrap  # type: ignore[import-not-found]

    stepwhy_bootstrap.attach()

sys.path[:] = [entry for entry in sys.path if entry != __file__.rpartition("/")[0]]
_this = sys.modules.pop("sitecustomize")
try:
    # The next one on the path; its errors are its own.
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ImportError as error:
    if getattr(error, "name", "sitecustomize") != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _this
