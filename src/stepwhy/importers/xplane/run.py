"""What the planes say about the run as a whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepwhy.importers.xplane.devices import device_name
from stepwhy.trace import Kind, Meta

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepwhy.importers.xplane.planes import Plane
    from stepwhy.importers.xplane.table import SliceTable
    from stepwhy.trace import Health

_SIGNALS = {
    "host-ops": {Kind.OP, Kind.FRAMEWORK},
    "device-activity": {Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.COLLECTIVE},
    "runtime-calls": {Kind.LAUNCH, Kind.RUNTIME},
    "python-stacks": {Kind.PYTHON},
    "input": {Kind.INPUT},
}
_JAX = re.compile(r"PjitFunction\(|cpp_pjit_|\$(?:pjit|pxla)\.py:")
_ALLOCATOR = re.compile(r"(?P<type>GPU|TPU)_(?P<number>\d+)_bfc")
# Clocks before 2001 are no epoch.
_EARLIEST_EPOCH_NS = 10**18
_LATEST_EPOCH_NS = 1 << 61


def session_start_ns(planes: Iterable[Plane]) -> int:
    """When the profiling session began, ns since the epoch; 0 where events need no such offset."""
    found = [p.stats.get("profile_start_time") for p in planes if p.name == "Task Environment"]
    start = next((v for v in found if isinstance(v, int)), 0)
    on_epoch = any(
        e.start_ns > _EARLIEST_EPOCH_NS for p in planes for ln in p.lines for e in ln.events[:1]
    )
    return start if _EARLIEST_EPOCH_NS < start < _LATEST_EPOCH_NS and not on_epoch else 0


def used_devices(planes: Iterable[Plane]) -> set[str]:
    """Devices that ran something or that memory was allocated on; a plane may also stand empty."""
    used = set()
    for plane in planes:
        name = device_name(plane.name)
        if name and any(line.events for line in plane.lines):
            used.add(name)
        for line in () if name else plane.lines:
            allocators = {e.text("allocator_name") for e in line.events}
            matches = [_ALLOCATOR.fullmatch(a) for a in allocators]
            used.update(f"{m['type']}:{m['number']}" for m in matches if m)
    return used


def meta_of(
    name: str, planes: Sequence[Plane], table: SliceTable, used: set[str], missing: set[str]
) -> Meta:
    """Facts about the run; of the session's own notes only versions and its start are looked at.

    Args:
        name: Name of the format.
        planes: All planes.
        table: The slices.
        used: The `used_devices`.
        missing: Those of them without a kernel, while others have some.
    """
    version = next((str(p.stats["jax_version"]) for p in planes if "jax_version" in p.stats), "")
    is_jax = bool(version) or _mentions_jax(planes)
    signals = {s for s, kinds in _SIGNALS.items() if kinds & table.kinds}
    if table.copies_with_bytes:
        signals.add("copy-bytes")
    return Meta(
        format=name,
        framework="jax" if is_jax else "tensorflow",
        framework_version=version if re.fullmatch(r"[\w.+-]{1,40}", version) else "",
        signals=frozenset(signals),
        device_expected=bool(used) or bool({Kind.LAUNCH, Kind.RUNTIME} & table.kinds),
        notes=_notes(missing),
    )


def count_missing(health: Health, missing: set[str]) -> None:
    """Count devices without kernels."""
    health.count(
        "device-without-kernels",
        "error",
        "These devices were used, but none of their kernels is in the file: the profiler was "
        "started within a step, or recorded some devices only. Record a few whole steps.",
        count=len(missing),
        dropped=False,
    )


def _mentions_jax(planes: Iterable[Plane]) -> bool:
    events = (e for p in planes if p.name.startswith("/host") for ln in p.lines for e in ln.events)
    return any(_JAX.match(e.name) for e in events)


def _notes(missing: set[str]) -> tuple[str, ...]:
    if not missing:
        return ()
    names = ", ".join(sorted(missing))
    note = f"No kernel was recorded of devices that the run used ({names}): what is missing may be"
    return (f"{note} most of the step.",)
