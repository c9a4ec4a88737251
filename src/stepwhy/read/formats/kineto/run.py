"""Metadata of the run, from a Kineto header and the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwhy.trace import NULL, Kind, Meta
from stepwhy.trace.kinds import BUSY_KINDS

if TYPE_CHECKING:
    from stepwhy.read.formats.kineto.facts import Facts

# What Paddle's profiler writes into its header, in older and newer releases.
_PADDLE = frozenset({"span_indx", "span_index"})
# A larger value is a damaged header.
_MAX_MEMORY = 1 << 50
_SIGNALS = {
    "host-ops": {Kind.OP},
    "device-activity": {Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET},
    "runtime-calls": {Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC},
    "python-stacks": {Kind.PYTHON},
    "input": {Kind.INPUT},
}


def meta_of(format_name: str, header: dict[str, Any], facts: Facts) -> Meta:
    """Metadata of the run; reads only an allow-list of header keys.

    Some builds write hosts, users, job names and the environment into the header. These are never
    read.
    """
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    # The record of an accelerator may be cut off. Kineto names the devices before the events, in
    # a header that begins with the version. Programs that write a trace again may put the header
    # after the events, where it is lost with the end.
    used = _used_device(facts) or (
        not facts.complete and (bool(device_model(header)) or "schemaVersion" not in header)
    )
    # Without calls of the device's runtime, nothing shows whether a device that is only named ran.
    unseen = bool(device_model(header)) and not {Kind.RUNTIME, Kind.SYNC} & facts.kinds
    return Meta(
        format=format_name,
        framework="pytorch" if _PADDLE.isdisjoint(header) else "paddle",
        rank=_int(distributed.get("rank")),
        world_size=_int(distributed.get("world_size")),
        signals=_signals(facts),
        device_expected=used or unseen,
        idle_accelerator="" if used else device_model(header),
        notes=_notes(facts),
    )


def device_model(header: dict[str, Any]) -> str:
    """Model name of the first accelerator in the header, '' where there is none."""
    for key in ("deviceProperties", "computeProperties"):
        devices = header.get(key)
        if isinstance(devices, list) and devices and isinstance(devices[0], dict):
            name = devices[0].get("name")
            if isinstance(name, str) and name:
                return name
    return ""


def device_memory(header: dict[str, Any]) -> int:
    """Memory of the accelerators in the header, bytes; NULL where they differ or are absent."""
    devices = header.get("deviceProperties")
    known = devices if isinstance(devices, list) else []
    sizes = {_int(d.get("totalGlobalMem")) for d in known if isinstance(d, dict)}
    size = sizes.pop() if len(sizes) == 1 else NULL
    return size if 0 < size < _MAX_MEMORY else NULL


def _int(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else NULL


def _signals(facts: Facts) -> frozenset[str]:
    signals = {name for name, kinds in _SIGNALS.items() if kinds & facts.kinds}
    if facts.copies_with_bytes:
        signals.add("copy-bytes")
    if facts.memory:
        signals.add("memory")
    return frozenset(signals)


def _used_device(facts: Facts) -> bool:
    """Whether the run certainly gave work to an accelerator, seen or not.

    Where calls of the device's runtime are recorded and none of them launches or copies anything,
    the model ran on the CPU: the profiler itself counts and synchronises devices, and draws arrows
    from every call.
    """
    if {Kind.KERNEL, Kind.MEMCPY, Kind.LAUNCH} & facts.kinds:
        return True
    if facts.device_hints or facts.profiler_ranges:
        return True
    calls_are_recorded = bool({Kind.RUNTIME, Kind.SYNC} & facts.kinds)
    return facts.device_rows and not calls_are_recorded


def lacks_kernels(header: dict[str, Any], facts: Facts) -> bool:
    """Whether launches were recorded on a known device, but nothing that it did."""
    return (
        bool(device_model(header))
        and Kind.LAUNCH in facts.kinds
        and facts.kinds.isdisjoint(BUSY_KINDS)
        and facts.complete
        and not facts.profiler_ranges
    )


def _notes(facts: Facts) -> tuple[str, ...]:
    notes = []
    if facts.profiler_ranges:
        notes.append(
            "Kernels appear only as ranges of the performance-counter profiler, which runs them "
            "one by one: this trace does not show the device time of a normal run."
        )
    if not facts.complete:
        notes.append("The trace file is cut off: later events are missing.")
    return tuple(notes)
