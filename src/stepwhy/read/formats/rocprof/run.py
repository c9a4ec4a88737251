"""Facts about the run of a rocprofv3 file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.trace import Kind, Meta

if TYPE_CHECKING:
    from stepwhy.read.formats.rocprof.rows import Rows

FORMAT = "rocprofv3"

_DEVICE = frozenset({Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY})
_CALLS = frozenset({Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC})
_SIGNALS = {
    "host-ops": frozenset({Kind.OP}),
    "device-activity": _DEVICE,
    "runtime-calls": _CALLS,
    "input": frozenset({Kind.INPUT}),
}
_DEVICE_ONLY = (
    "rocprofv3 recorded kernels only: why the GPU idles between them is unknown, and copies "
    "may be missing. Record with --sys-trace, or add --hip-trace, --memory-copy-trace and "
    "--marker-trace."
)
_SERIAL = (
    "Kernels were recorded together with performance counters, one by one: their times say nothing "
    "about a normal run and were left out. Record again without --pmc."
)


def meta_of(rows: Rows, *, complete: bool) -> Meta:
    """Facts about the run. Hosts, users, commands and paths that the file holds stay out.

    Args:
        rows: All that was read.
        complete: Whether the file is whole.
    """
    signals = {name for name, kinds in _SIGNALS.items() if kinds & rows.kinds}
    if rows.copies_with_bytes:
        signals.add("copy-bytes")
    return Meta(
        format=FORMAT,
        framework=_framework(rows),
        signals=frozenset(signals),
        device_expected=bool((_DEVICE | _CALLS) & rows.kinds) or rows.counter_collections > 0,
        notes=_notes(rows, complete),
    )


def _framework(rows: Rows) -> str:
    """PyTorch where its kernels ran: rocprofv3 itself does not know what it observes."""
    return "pytorch" if any("at::native::" in name for name in rows.kernel_names) else ""


def _notes(rows: Rows, complete: bool) -> tuple[str, ...]:
    notes = []
    if rows.kinds <= _DEVICE:
        notes.append(_DEVICE_ONLY)
    if rows.counter_collections:
        notes.append(_SERIAL)
    if not complete:
        notes.append("The file is cut off: what came later is unknown.")
    return tuple(notes)


__all__ = ["FORMAT", "meta_of"]
