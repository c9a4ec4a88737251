"""Observe a training run from inside its own processes, without a change to its script.

In: a command. Out: a run directory (format `stepwhy.run/1`, described in `core.recorder`).
`launcher` starts the command with the observer in place; `attach` instruments each framework once
the job imports it: `torch`, `tf1`, `tf2`, `keras`, `jax`. What they share is in `core` (recorder,
registry, clocks), `steps` (the step log, with the
counters of each step), `windows` (profiler windows) and `watchers` (one thing
each: garbage, disks, checkpoints). `sampling` looks from outside, `trials` applies fixes for
`stepwhy try`, `checks` is `stepwhy check`.
Imports: `base`, the standard library and, lazily, the framework that the job itself imports. It
runs in any interpreter from 3.11 on.

Every observed process imports this package at start-up, so it imports nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from typing costs milliseconds in every helper process
if TYPE_CHECKING:
    from stepwhy.record.launcher.command import command_for_script, default_run_dir
    from stepwhy.record.launcher.launch import Launch, launch

__all__ = [
    "RUN_DIR_VARIABLE",
    "SAMPLER_VARIABLE",
    "TRIAL_VARIABLE",
    "Launch",
    "command_for_script",
    "default_run_dir",
    "launch",
]

# Defined here because every observed process loads this module anyway.
RUN_DIR_VARIABLE = "STEPWHY_RUN_DIR"
"""Absolute path of the run directory; a process without it is not observed."""

SAMPLER_VARIABLE = "STEPWHY_SAMPLER"
"""Id of the process that may read the memory of observed ones, where the kernel restricts it."""

TRIAL_VARIABLE = "STEPWHY_TRIAL"
"""The fix that `stepwhy try` applies at run time, as JSON; a process without it is not changed."""

_HOMES = {
    "Launch": "launcher.launch",
    "launch": "launcher.launch",
    "command_for_script": "launcher.command",
    "default_run_dir": "launcher.command",
}


def __getattr__(name: str) -> object:
    """Import a public name at first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
