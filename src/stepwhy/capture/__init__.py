"""Observing a training run from inside its own process, without a change to its script.

`launch` starts a command with the observer in place and writes a run directory (format:
`stepwhy.run/1`, described in `recorder`). The observer itself (`attach` and what it loads) runs
inside the user's job, in any interpreter from 3.11 on: it imports the standard library,
`stepwhy.errors`, `stepwhy.units` and, lazily, the framework that the job itself imports.

Importing this package imports nothing else, as every observed process does it at start-up.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own costs milliseconds at every start of a helper process
if TYPE_CHECKING:
    from stepwhy.capture.launcher.command import command_for_script, default_run_dir
    from stepwhy.capture.launcher.launch import Launch, launch

__all__ = ["Launch", "command_for_script", "default_run_dir", "launch"]

_HOMES = {
    "Launch": "launcher.launch",
    "launch": "launcher.launch",
    "command_for_script": "launcher.command",
    "default_run_dir": "launcher.command",
}


def __getattr__(name: str) -> object:
    """The public names, imported at first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
