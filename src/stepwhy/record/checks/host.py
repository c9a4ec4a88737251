"""Check what the kernel shows of a process, and how quiet the machine is."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwhy.base import units
from stepwhy.record.checks.item import Item
from stepwhy.record.core.process.cores import allowed_cores
from stepwhy.record.sampling import ptrace
from stepwhy.record.sampling.stacks import PERMISSION

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.record.checks.machine import Machine

# Other work on a third of the cores was enough to reverse measured verdicts.
_NOISY_LOAD_PER_CORE = 0.3
# The observer reads the clock a few times per step; a slow clock source would show in it.
_SLOW_READ_NS = 1_000
# Traces and logs of the observer are matched by time of day.
_DRIFT_NS = 1_000_000
_READS = 1_000
_THREADS_VARIABLE = "OMP_NUM_THREADS"
_CAP_SYS_PTRACE = 19


# --- Noise ---


def load(machine: Machine) -> Item:
    """Load of the machine: it slows the training down, which looks like a slow program."""
    text = machine.read("proc/loadavg")
    if text is None:
        return _unknown("load", "how busy the machine is")
    mean = float(text.split()[0])
    found = f"{mean:.1f} threads compete for {machine.all_cores} cores (mean of the last minute)"
    if mean > _NOISY_LOAD_PER_CORE * machine.all_cores:
        return Item(
            "load",
            "limited",
            found,
            "other programs make steps longer and irregular: the numbers will be noisy",
            "Wait until the machine is quiet",
        )
    return Item("load", "ok", found, "step times are the training's own")


def cpu_limit(machine: Machine) -> Item:
    """Whether fewer cores may be used than are visible, which misleads thread pools."""
    limit = allowed_cores(machine.read)
    if limit is None or limit >= machine.cores:
        found = f"{machine.cores} cores, all of them usable"
        return Item("cpu-limit", "ok", found, "thread pools get the size that fits")
    found = f"{machine.cores} cores are visible, but a cgroup allows {limit:.3g}"
    threads = max(1, math.floor(limit))
    threads_set = machine.environ.get(_THREADS_VARIABLE, "")
    if threads_set.isdigit() and int(threads_set) <= max(1, limit):
        return Item("cpu-limit", "ok", found, f"{_THREADS_VARIABLE} keeps to the limit")
    return Item(
        "cpu-limit",
        "limited",
        found,
        "frameworks start a thread per visible core, and the limit then stops all of them",
        f"Set {_THREADS_VARIABLE}={threads}, and as many DataLoader workers at most",
    )


# --- What the kernel shows ---


def run_delay(machine: Machine) -> Item:
    """Whether the kernel shows how long a thread waited for a core.

    Source: Linux, Documentation/scheduler/sched-stats.rst, `/proc/<pid>/schedstat`.
    """
    text = machine.read("proc/self/schedstat")
    words = (text or "").split()
    if len(words) != 3 or words[:2] == ["0", "0"]:
        return Item(
            "run-delay",
            "missing",
            "the kernel does not report it (/proc/self/schedstat)",
            "waiting for a core cannot be distinguished from computing",
            "Use a kernel with CONFIG_SCHED_INFO, if the machine is shared",
        )
    return Item("run-delay", "ok", "/proc/self/schedstat", "waiting for a core is measured")


def stack_access(machine: Machine, sampler: Path | None) -> Item:
    """Whether py-spy, another process, may read the Python stack of the training.

    Args:
        machine: The machine.
        sampler: py-spy; None if it is not installed.

    Source: Linux, Documentation/admin-guide/LSM/Yama.rst.
    """
    if machine.read("proc/self/status") is None:
        return _unknown("stack-access", "who may read the stack of a process")
    if sampler is None:
        return Item(
            "stack-access",
            "missing",
            "py-spy is not installed",
            "no line of Python is named for what happens between operations",
            "Install it: pip install py-spy",
        )
    scope = (machine.read("proc/sys/kernel/yama/ptrace_scope") or "0").strip()
    privileged = bool(machine.capabilities() & 1 << _CAP_SYS_PTRACE)
    if scope == "0" or (privileged and scope != "3"):
        found = "not restricted" if scope == "0" else "restricted, but this user may"
        return Item("stack-access", "ok", found, "a second process may read the Python stack")
    if scope == str(ptrace.ANCESTORS_ONLY):
        return Item(
            "stack-access",
            "ok",
            f"restricted by the kernel (ptrace_scope {scope}), but a process may name who may",
            "the observed processes name stepwhy, which may read their Python stacks",
        )
    return Item(
        "stack-access",
        "missing" if scope == "3" else "limited",
        f"restricted by the kernel (ptrace_scope {scope})",
        "a second process, such as py-spy, may not read the Python stack",
        "No process can, until the next boot" if scope == "3" else PERMISSION,
    )


# --- Clocks ---


@dataclass(frozen=True, slots=True)
class Reading:
    """Both clocks at one moment.

    Args:
        epoch_ns: The time of day.
        monotonic_ns: The clock that only goes forward.
    """

    epoch_ns: int
    monotonic_ns: int


def read_clocks() -> Reading:
    """Read both clocks, one right after the other."""
    return Reading(time.time_ns(), time.perf_counter_ns())


def read_cost_ns() -> float:
    """Cost of reading the monotonic clock, ns; the minimum of three measurements."""
    return min(_timed_reads() for _ in range(3))


def _timed_reads() -> float:
    start = time.perf_counter_ns()
    for _ in range(_READS):
        time.perf_counter_ns()
    return (time.perf_counter_ns() - start) / _READS


def clock(first: Reading, last: Reading, cost_ns: float) -> Item:
    """Whether the clocks agree on how long the check took, and are quick to read.

    Args:
        first: Reading at the start of the check.
        last: Reading at its end.
        cost_ns: Cost of one reading.
    """
    passed = last.monotonic_ns - first.monotonic_ns
    apart = abs(last.epoch_ns - first.epoch_ns - passed)
    if apart > _DRIFT_NS:
        return Item(
            "clock",
            "limited",
            f"the time of day moved by {units.format_ns(apart)} within {units.format_ns(passed)}",
            "time stamps of the profiler may not match the steps",
            "Wait until the clock has been set, or stop the program that sets it",
        )
    if cost_ns > _SLOW_READ_NS:
        return Item(
            "clock",
            "limited",
            f"a reading takes {units.format_ns(cost_ns)}",
            "timing makes very short steps noticeably longer",
            "Use the clock source 'tsc' where the machine has it",
        )
    found = f"steady, {units.format_ns(cost_ns)} per reading"
    return Item("clock", "ok", found, "times of steps and traces match")


def _unknown(name: str, what: str) -> Item:
    return Item(name, "limited", f"this system does not report {what}", "it cannot be checked")
