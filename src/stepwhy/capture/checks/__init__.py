"""Check what can be observed of a training here, and how to get what is missing: `stepwhy check`.

Nothing of the training runs. The Python that it would start is started for a moment, with the
observer in place; everything else is read from the environment and the kernel while that happens.
No framework is imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.capture.checks import conflicts, frameworks, gpu, host, interpreter, storage
from stepwhy.capture.checks.item import Item, Report
from stepwhy.capture.checks.machine import Machine
from stepwhy.capture.checks.target import target_of
from stepwhy.capture.launcher.command import RUNS_DIR
from stepwhy.redaction.commands import redact_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.capture.checks.target import Target

__all__ = ["Item", "Machine", "Report", "check"]


def check(
    command: Sequence[str] = (), out_dir: Path | None = None, machine: Machine | None = None
) -> Report:
    """Find out what could be observed if a command were run.

    Args:
        command: Program and arguments; empty for a script under this interpreter.
        out_dir: The run directory; the default one where None.
        machine: What to look at; this one where None.

    Returns:
        One item per check. A check that cannot look says so; none raises.
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
    """What the interpreter's answer decides."""
    yield from interpreter.command_items(target)
    yield from interpreter.items(target, answer)
    if answer.about:
        found = answer.about["frameworks"]
        yield from frameworks.loop_items(found, answer.about["awaited"])
        yield from frameworks.profiler_items(found, machine)


def _around(machine: Machine, out_dir: Path | None) -> Iterator[Item]:
    """What the machine decides, whatever runs on it."""
    yield storage.run_directory(machine, out_dir or Path(RUNS_DIR))
    yield from gpu.items(machine)
    yield from conflicts.items(machine)
    yield host.load(machine)
    yield host.cpu_limit(machine)
    yield storage.shared_memory(machine)
    yield host.run_delay(machine)
    yield host.stack_access(machine)
