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
from stepwhy.read.formats.rocprof.run import meta_of
from stepwhy.trace import TraceBuilder

if TYPE_CHECKING:
    from stepwhy.read.formats.rocprof.document import Document
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

_KEY = regex(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')


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
    return builder.finish(meta_of(rows, complete=document.complete))
