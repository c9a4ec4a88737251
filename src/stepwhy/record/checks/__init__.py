"""Check what can be observed of a training here, and how to get what is missing: `stepwhy check`.

The training does not run. The Python that it would use is started briefly, with the observer in
place; everything else is read from the environment and the kernel in the meantime. No framework is
imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base.redaction.commands import redact_command
from stepwhy.record.checks import conflicts, frameworks, gpu, host, interpreter, storage
from stepwhy.record.checks.item import Item, Report
from stepwhy.record.checks.machine import Machine
from stepwhy.record.checks.target import target_of
from stepwhy.record.launcher.command import RUNS_DIR
from stepwhy.record.sampling.py_spy import find_py_spy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.record.checks.target import Target

__all__ = ["Item", "Machine", "Report", "check"]


def check(
    command: Sequence[str] = (), out_dir: Path | None = None, machine: Machine | None = None
) -> Report:
    """Find out what could be observed if a command were run.

    Args:
        command: Program and arguments; empty for a script under this interpreter.
        out_dir: The run directory; None for the default one.
        machine: The machine to check; None for this one.

    Returns:
        One item per check, including checks that were not possible. Never raises.
    """
    machine = machine or Machine()
    first = host.read_clocks()
    target = target_of(command)
    if target.interpreter is None:
        decisive = list(interpreter.hidden_items(target))
        around = list(_around(machine, out_dir))
    else:
        with interpreter.Probe(target) as probe:
            around = list(_around(machine, out_dir))
            decisive = list(_decisive(machine, target, probe.answer()))
    cost_ns = host.read_cost_ns()
    clock = host.clock(first, host.read_clocks(), cost_ns)
    return Report(tuple(redact_command(command)), (*decisive, *around, clock))


def _decisive(machine: Machine, target: Target, answer: interpreter.Answer) -> Iterator[Item]:
    """Checks that depend on the interpreter's answer."""
    yield from interpreter.command_items(target)
    yield from interpreter.items(target, answer)
    if answer.about:
        found = answer.about["frameworks"]
        yield from frameworks.loop_items(found, answer.about["awaited"])
        yield from frameworks.profiler_items(found, machine)


def _around(machine: Machine, out_dir: Path | None) -> Iterator[Item]:
    """Checks of the machine, independent of the command."""
    yield storage.run_directory(machine, out_dir or Path(RUNS_DIR))
    yield from gpu.items(machine)
    yield from conflicts.items(machine)
    yield host.load(machine)
    yield host.cpu_limit(machine)
    yield storage.shared_memory(machine)
    yield host.run_delay(machine)
    yield host.stack_access(machine, find_py_spy())
