"""stepwhy: find out why your training step is slow, what fixing it would gain, and prove it.

The rooms, in the order in which data takes its way, each of which imports only those before it:
`base`, `trace`, `record`, `read`, `result`, `analyse`, `show`, `predict`, `diagnose`, `measure`,
`engine`, `api`, `apps`, `integrations`, `testing`, `cli`. Each says in its `__init__` what comes in
and what goes out.

Importing this package imports nothing else: it is loaded inside training jobs.
"""

__version__ = "0.2.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepwhy.api.explanation import explain
    from stepwhy.api.prediction import whatif
    from stepwhy.api.trace_ready import on_trace_ready
    from stepwhy.api.watching import watch
    from stepwhy.record.explicit_steps import step

__all__ = ["__version__", "explain", "on_trace_ready", "step", "watch", "whatif"]

_HOMES = {
    "explain": "stepwhy.api.explanation",
    "on_trace_ready": "stepwhy.api.trace_ready",
    "step": "stepwhy.record.explicit_steps",
    "watch": "stepwhy.api.watching",
    "whatif": "stepwhy.api.prediction",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
