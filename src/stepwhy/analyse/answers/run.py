"""The inputs of a result, and facts about the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.analyse.program.gpus import framework_devices
from stepwhy.result import HealthEntry, Input, Run
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.trace import Trace


def input_of(trace: Trace, path: str, format_name: str) -> Input:
    """One input file, with the health counters of reading it."""
    health = trace.health
    entries = tuple(
        HealthEntry(c.counter, c.severity, c.count, c.help, c.dropped) for c in health.counters
    )
    return Input(path, format_name, health.events_read, health.events_kept, entries)


def run_of(trace: Trace) -> Run:
    """Facts about the run: framework, devices, command and exit."""
    meta = trace.meta
    # GPUs that only the driver named are used only if no profiler recorded a device.
    rows = framework_devices(trace) or range(len(trace.devices))
    models = [trace.string(int(m)) for m in trace.devices.model[rows] if m != NULL]
    names = [trace.string(int(n)) for n in trace.devices.name[rows]]
    return Run(
        framework=meta.framework,
        framework_version=meta.framework_version,
        devices=tuple(models or names),
        ranks=1,
        world_size=None if meta.world_size == NULL else meta.world_size,
        command=meta.command,
        exit_code=meta.exit_code,
        exception=meta.exception,
        ending=meta.ending,
        untraced_advice=meta.untraced_advice,
        python=meta.python,
        cpu=meta.cpu,
    )
