"""Check which accelerators are visible, and what can be read from them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepwhy.record.checks.item import Item
from stepwhy.record.sampling.nvml import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.record.checks.machine import Machine

_PARAMETERS = "proc/driver/nvidia/params"
_AMD_COMPUTE = "dev/kfd"
_HIDING = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
# Either gives the right to read counters. Source: linux/capability.h.
_CAP_SYS_ADMIN = 21
_CAP_PERFMON = 38


def nvidia_gpus(machine: Machine) -> int:
    """Number of NVIDIA GPUs that this process can open, by their device files."""
    names = (path.name for path in machine.path("dev").glob("nvidia*"))
    return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in names)


def gpus(machine: Machine) -> int:
    """Number of GPUs; an AMD compute driver counts as one, since it shows no number."""
    return nvidia_gpus(machine) + machine.path(_AMD_COMPUTE).exists()


def items(machine: Machine) -> Iterator[Item]:
    """Items for what can be observed of the accelerators."""
    count = nvidia_gpus(machine)
    if count:
        yield _visible(machine, count)
        yield _nvml(machine)
        yield _counters(machine)
    if machine.path(_AMD_COMPUTE).exists():
        yield _amd(machine)
    elif not count:
        yield Item(
            "gpu",
            "missing",
            "no NVIDIA or AMD device is visible",
            "steps are observed on the CPU; there is no GPU memory, use or kernel to see",
            "If this machine has one, pass it in (container: --gpus all)",
        )


def _visible(machine: Machine, count: int) -> Item:
    found = f"{count} NVIDIA {'GPU' if count == 1 else 'GPUs'}"
    hiding = [name for name in _HIDING if machine.environ.get(name, "all") in ("", "-1", "void")]
    if hiding:
        return Item(
            "gpu",
            "limited",
            f"{found}, hidden by {hiding[0]}",
            "the training runs on the CPU",
            f"Unset {hiding[0]} to train on the GPU",
        )
    return Item("gpu", "ok", found, "GPU work can be traced where the framework's build can")


def _nvml(machine: Machine) -> Item:
    """NVIDIA's management library: memory and use of a GPU."""
    try:
        machine.load_library(LIBRARY)
    except OSError:
        return Item(
            "nvml",
            "missing",
            f"{LIBRARY} cannot be loaded",
            "memory and use of the GPU cannot be read",
            "Install the driver's library (container: the capability 'utility')",
        )
    return Item("nvml", "ok", f"{LIBRARY} loads", "memory and use of the GPU can be read")


def _counters(machine: Machine) -> Item:
    """Who may read hardware counters.

    Source: NVIDIA, "ERR_NVGPUCTRPERM: Permission issue with Performance Counters".
    """
    text = machine.read(_PARAMETERS)
    restricted = re.search(r"^RmProfilingAdminOnly: *(\d)", text or "", re.MULTILINE)
    if restricted is None:
        return Item(
            "gpu-counters",
            "limited",
            "the driver does not show who may profile",
            "kernels and copies can be traced; hardware counters perhaps not",
        )
    allowed = machine.capabilities() & (1 << _CAP_SYS_ADMIN | 1 << _CAP_PERFMON)
    if restricted[1] == "0" or allowed:
        return Item(
            "gpu-counters", "ok", "profiling is allowed", "kernels and counters can be read"
        )
    return Item(
        "gpu-counters",
        "limited",
        "the driver allows only administrators to profile (RmProfilingAdminOnly)",
        "kernels and copies can be traced; hardware counters cannot be read",
        "Set the module option NVreg_RestrictProfilingToAdminUsers=0, or grant CAP_SYS_ADMIN",
    )


def _amd(machine: Machine) -> Item:
    """Access to AMD's compute driver."""
    if machine.is_accessible(machine.path(_AMD_COMPUTE)):
        return Item("gpu", "ok", "AMD compute driver", "GPU work can be traced")
    return Item(
        "gpu",
        "limited",
        "the AMD compute driver is there, but may not be opened",
        "the training runs on the CPU",
        "Join the groups 'render' and 'video' (container: --device /dev/kfd --device /dev/dri)",
    )
