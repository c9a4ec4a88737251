"""stepwhy: find out why your training step is slow, what fixing it would gain, and prove it.

Importing this package imports nothing else: it is loaded inside training jobs.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepwhy.api import watch, whatif
    from stepwhy.capture.explicit_steps import step
    from stepwhy.explanation import explain
    from stepwhy.trace_ready import on_trace_ready

__all__ = ["__version__", "explain", "on_trace_ready", "step", "watch", "whatif"]

_HOMES = {
    "explain": "stepwhy.explanation",
    "on_trace_ready": "stepwhy.trace_ready",
    "step": "stepwhy.capture.explicit_steps",
    "watch": "stepwhy.api",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    if name == "whatif":  # a package that can be called
        return import_module("stepwhy.whatif")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
