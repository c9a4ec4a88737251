"""What a record of rocprofv3 is, from the tables of names beside the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.read.shared.cuda import call_kind, kernel_kind
from stepwhy.trace import NULL, Copy, Kind

if TYPE_CHECKING:
    from stepwhy.read.formats.rocprof.document import Process, Record, Symbol

# Calls of HSA are usually inside those of HIP; of the others, these wait or submit work.
_HSA_WAIT = regex(r"^hsa_signal_wait|^hsa_amd_signal_wait")
_HSA_COPY = regex(r"^hsa_amd_memory_(async_copy|fill)")
# RCCL's calls that put an exchange onto a stream; the others set up or ask.
_EXCHANGE = regex(
    r"^(nccl(All|Broadcast|Bcast|Gather|Reduce|Scatter|Send|Recv|GroupEnd)|mscclRunAlgo)"
)
_DIRECTIONS = (
    ("HOST_TO_DEVICE", Copy.H2D),
    ("DEVICE_TO_HOST", Copy.D2H),
    ("DEVICE_TO_DEVICE", Copy.D2D),
    ("HOST_TO_HOST", Copy.H2H),
)
_CALL_DIRECTIONS = (("HtoD", Copy.H2D), ("DtoH", Copy.D2H))
# Operations of markers that are calls and no ranges.
_NO_RANGE = regex(r"Pop|Stop|GetThreadId|Pause|Resume|Name")
_PROCESS_RANGE = regex(r"RangeStart|ProcessRange")


class Meaning(NamedTuple):
    """Kind and name of a slice."""

    kind: Kind
    name: str


class Names:
    """The names that one process wrote beside its records.

    Args:
        process: The process.
    """

    def __init__(self, process: Process) -> None:
        self._kinds = process.kinds
        self._messages = process.messages
        self._kernels = {s.kernel_id: _kernel_name(s) for s in process.symbols}

    def kernel(self, number: int) -> Meaning:
        """A kernel by its number."""
        name = self._kernels.get(number) or f"kernel {number}"
        return Meaning(kernel_kind(name), name)

    def call_copy(self, record: Record) -> Copy:
        """Direction of a copy by the name of the HIP call ('hipMemcpyHtoDAsync')."""
        operation = self._operation(record)
        return next((copy for text, copy in _CALL_DIRECTIONS if text in operation), Copy.NONE)

    def copy(self, record: Record) -> Copy:
        """Direction of a copy by its operation."""
        operation = self._operation(record)
        return next((copy for text, copy in _DIRECTIONS if text in operation), Copy.NONE)

    def call(self, record: Record, domain: str) -> Meaning:
        """A call of an API, by the buffer that it lies in."""
        name = self._operation(record)
        if domain == "hsa_api":
            return Meaning(_hsa_kind(name), name)
        if domain == "rccl_api":
            return Meaning(Kind.LAUNCH if _EXCHANGE.match(name) else Kind.RUNTIME, name)
        return Meaning(call_kind(name) if domain == "hip_api" else Kind.RUNTIME, name)

    def marker(self, record: Record) -> str:
        """Text of a range that the program marked, '' for what is no range."""
        number = record.correlation_id.internal if record.correlation_id else NULL
        if record.end_timestamp <= record.start_timestamp:
            return ""
        operation = self._operation(record)
        return self._messages.get(number) or ("" if _NO_RANGE.search(operation) else operation)

    def crosses_threads(self, record: Record) -> bool:
        """Whether a marked range may end on another thread, so that it need not nest."""
        return _PROCESS_RANGE.search(self._operation(record)) is not None

    def _operation(self, record: Record) -> str:
        """Name of a record's operation; of its kind, or its number, where the table lacks it."""
        if not 0 <= record.kind < len(self._kinds):
            return f"operation {record.operation}"
        kind = self._kinds[record.kind]
        if 0 <= record.operation < len(kind.operations):
            return kind.operations[record.operation]
        return f"{kind.kind or 'operation'} {record.operation}"


def _kernel_name(symbol: Symbol) -> str:
    """The name as the user asked for it; a table without it numbers its kernels there."""
    names = (
        symbol.formatted_kernel_name,
        symbol.demangled_kernel_name,
        symbol.truncated_kernel_name,
        symbol.kernel_name,
    )
    return next((n.removesuffix(".kd") for n in names if n and not n.isdigit()), "")


def _hsa_kind(name: str) -> Kind:
    if _HSA_WAIT.match(name):
        return Kind.SYNC
    return Kind.LAUNCH if _HSA_COPY.match(name) else Kind.RUNTIME
