"""Results of AMD's rocprofv3 as JSON (`--output-format json`), of every version since ROCm 6.2.

One object with one entry per process: its agents (CPUs and GPUs), the names of kernels, operations
and markers, and one buffer of records per domain (kernel dispatches, copies, HIP, HSA, RCCL and
marker calls). Times are integer nanoseconds on one clock.

Source: rocprofiler-sdk, `source/lib/output/generateJSON.cpp` and the record layouts in
`include/rocprofiler-sdk/cxx/serialization/save.hpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.errors import CorruptInputError
from stepwhy.base.patterns import regex
from stepwhy.read.formats.rocprof.document import NOT_JSON, read_processes
from stepwhy.read.formats.rocprof.lists import IrregularError, read_lists
from stepwhy.read.formats.rocprof.rows import Rows
from stepwhy.trace import Kind, Meta, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.read.formats.rocprof.document import Document
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

_KEY = regex(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')

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


def recognise(source: Source) -> bool:
    """Whether the file begins as rocprofv3 begins its results."""
    return _KEY.match(source.head.removeprefix(b"\xef\xbb\xbf")) is not None


def read(source: Source) -> Trace | None:
    """Read the results of one or several processes.

    Raises:
        CorruptInputError: The file cannot be decoded, or holds not a single usable record.
    """
    try:
        return _trace(source, read_lists(source), TraceBuilder())
    except (IrregularError, *NOT_JSON):
        builder = TraceBuilder()
        return _trace(source, read_processes(source, builder.health), builder)


def _trace(source: Source, document: Document, builder: TraceBuilder) -> Trace:
    rows = Rows(builder)
    for process in document.processes:
        rows.add_process(process)
    rows.finish()
    if not rows.kinds:
        raise CorruptInputError(
            f"{source.origin} holds no kernel, copy or call that rocprofv3 has timed",
            "Record again with 'rocprofv3 --kernel-trace --hip-trace --marker-trace'",
        )
    return builder.finish(_meta_of(rows, complete=document.complete))


def _meta_of(rows: Rows, *, complete: bool) -> Meta:
    """Facts about the run. Hosts, users, commands and paths that the file holds stay out.

    Args:
        rows: All that was read.
        complete: Whether the file is whole.
    """
    signals = {name for name, kinds in _SIGNALS.items() if kinds & rows.kinds}
    if rows.copies_with_bytes:
        signals.add("copy-bytes")
    # PyTorch where its kernels ran: rocprofv3 itself does not know what it observes.
    return Meta(
        format=FORMAT,
        framework="pytorch" if any("at::native::" in name for name in rows.kernel_names) else "",
        signals=frozenset(signals),
        device_expected=bool((_DEVICE | _CALLS) & rows.kinds) or rows.counter_collections > 0,
        notes=_notes(rows, complete),
    )


def _notes(rows: Rows, complete: bool) -> tuple[str, ...]:
    notes = []
    if rows.kinds <= _DEVICE:
        notes.append(_DEVICE_ONLY)
    if rows.counter_collections:
        notes.append(_SERIAL)
    if not complete:
        notes.append("The file is cut off: what came later is unknown.")
    return tuple(notes)
