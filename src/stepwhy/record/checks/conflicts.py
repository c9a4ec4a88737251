"""Check for other tools that hold the profiler, and settings that distort measurements.

Names of environment variables are shown, their values never.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from stepwhy.record import RUN_DIR_VARIABLE
from stepwhy.record.checks.item import Item, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepwhy.record.checks.machine import Machine


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of a group of environment variables on the observation.

    Args:
        name: The item's name.
        state: The item's state.
        meaning: Their effect, a phrase.
        todo: What to do about them.
        variables: Names of the variables, each with the tool or setting that it belongs to.
    """

    name: str
    state: State
    meaning: str
    todo: str
    variables: Mapping[str, str]


_EFFECTS = (
    Effect(
        "other-profilers",
        "conflict",
        "only one tool can trace a GPU at a time: windows of steps may lack kernels, or fail",
        "End the other tool for this run, or explain its trace instead",
        {
            "NSYS_PROFILING_SESSION_ID": "Nsight Systems",
            "NV_NSIGHT_INJECTION_TRANSPORT_TYPE": "Nsight Compute",
            "NVPROF_ID": "nvprof",
            "CUDA_INJECTION64_PATH": "an injected CUDA tool",
            "HSA_TOOLS_LIB": "an injected ROCm tool",
        },
    ),
    Effect(
        "remote-traces",
        "conflict",
        "a trace that is started from outside and a window of steps exclude each other",
        "Unset it for this run",
        {"KINETO_USE_DAEMON": "dynolog"},
    ),
    Effect(
        "outer-run",
        "conflict",
        "the outer run cannot see what an inner one observes",
        "Use a shell that 'stepwhy run' has not started",
        {RUN_DIR_VARIABLE: "'stepwhy run' already observes this shell"},
    ),
    Effect(
        "slow-settings",
        "conflict",
        "steps take longer than in an ordinary run",
        "Unset it for this run, unless the training always runs so",
        {
            "CUDA_LAUNCH_BLOCKING": "every kernel is waited for",
            "PYTHONTRACEMALLOC": "every allocation is traced",
            "PYTHONDEVMODE": "Python's development mode",
            "COVERAGE_PROCESS_START": "coverage traces every line",
        },
    ),
    Effect(
        "slow-start",
        "limited",
        "start-up takes longer and prints a line per module; steps are not changed",
        "Unset it if start-up matters",
        {"PYTHONPROFILEIMPORTTIME": "imports are timed"},
    ),
)

# These are off if they are 0. The others are on with any value, such as KINETO_USE_DAEMON in
# torch/optim/__init__.py.
_OFF_AT_ZERO = ("CUDA_LAUNCH_BLOCKING", "PYTHONTRACEMALLOC")

# Tools by prefix of the file name of a preloaded library.
_PRELOADED = {
    "libcuinj": "an injected CUDA tool",
    "libToolsInjection": "an injected CUDA tool",
    "libasan": "AddressSanitizer",
    "libtsan": "ThreadSanitizer",
    "libubsan": "UndefinedBehaviorSanitizer",
    "libheaptrack": "heaptrack",
    "libmemray": "memray",
    "libscorep": "Score-P",
    "libdarshan": "Darshan",
    "libnsys": "Nsight Systems",
    "vgpreload": "Valgrind",
}


def items(machine: Machine) -> Iterator[Item]:
    """Conflicts; one 'ok' item if there are none."""
    found = [*_environment(machine), *_preloaded(machine), *_traced(machine)]
    if found:
        yield from found
    else:
        yield Item(
            "other-profilers",
            "ok",
            "none in the environment",
            "nothing holds the profiler or distorts the steps",
        )


def _environment(machine: Machine) -> Iterator[Item]:
    """One item per effect that a variable causes."""
    for effect in _EFFECTS:
        found = [
            f"{what} ({name})"
            for name, what in effect.variables.items()
            if _is_on(name, machine.environ.get(name, ""))
        ]
        if found:
            yield Item(effect.name, effect.state, ", ".join(found), effect.meaning, effect.todo)


def _is_on(name: str, value: str) -> bool:
    return value != "" and not (value == "0" and name in _OFF_AT_ZERO)


def _preloaded(machine: Machine) -> Iterator[Item]:
    """Tools among the libraries that are loaded into every process."""
    for path in re.split(r"[\s:]+", machine.environ.get("LD_PRELOAD", "")):
        name = PurePath(path).name
        tool = next((t for start, t in _PRELOADED.items() if name.startswith(start)), None)
        if tool:
            meaning = "it changes how long steps take, and may hold the profiler"
            found = f"{tool} (LD_PRELOAD)"
            yield Item("other-profilers", "conflict", found, meaning, "Unset it for this run")


def _traced(machine: Machine) -> Iterator[Item]:
    """A debugger or strace on this process, which its children would inherit."""
    status = machine.read("proc/self/status") or ""
    if re.search(r"^TracerPid:\s*[1-9]", status, re.MULTILINE):
        yield Item(
            "tracer",
            "conflict",
            "a debugger or strace is attached to this shell's processes",
            "every system call of the training may stop for it",
            "Detach it",
        )
