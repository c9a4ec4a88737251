"""The cores that a process may use: by its affinity, and by the limit of its control groups.

Source: Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst
(cpu.cfs_quota_us).
"""

from __future__ import annotations

import os
from pathlib import PurePosixPath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[str], str | None]
    """Reads a file by its path below the root; None if there is none."""


def visible_cores() -> int:
    """Number of cores that this process may run on, whatever its control groups allow."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def allowed_cores(read: Read) -> float | None:
    """The tightest CPU limit of this process's control groups, in cores; None for none."""
    limits = [_version_2(read, path) for path in _groups(read)]
    quota = read("sys/fs/cgroup/cpu/cpu.cfs_quota_us") or ""
    period = read("sys/fs/cgroup/cpu/cpu.cfs_period_us") or ""
    limits.append(_cores(quota.strip(), period.strip()))
    return min((limit for limit in limits if limit is not None), default=None)


def _groups(read: Read) -> list[PurePosixPath]:
    """The process's control group and those around it, as paths below the mount."""
    lines = (read("proc/self/cgroup") or "").splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    path = PurePosixPath(own.lstrip("/"))
    return [path, *path.parents]


def _version_2(read: Read, group: PurePosixPath) -> float | None:
    words = (read(f"sys/fs/cgroup/{group}/cpu.max") or "").split()
    return _cores(*words) if len(words) == 2 else None


def _cores(quota: str, period: str) -> float | None:
    """Quota by period; 'max' and -1 mean no limit."""
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)
