"""PyTorch Kineto traces (`torch.profiler`, `export_chrome_trace`), every generation since 2020.

- 2020: a top-level list, categories 'Operator', 'Kernel', 'Runtime', threads as strings.
- 2021: an object with `schemaVersion`, later `deviceProperties`.
- 2022: categories 'cpu_op', 'kernel', 'cuda_runtime', ...; `distributedInfo`; Python stacks.
- 2024: fractional microseconds relative to `baseTimeNanoseconds`.

The GPU's number and the host's process id share the field `pid` and can be equal, so the category
distinguishes host and device records.

Source: pytorch/kineto, libkineto/src/output_json.cpp (record layout per generation).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stepwhy.base.columns import compiled
from stepwhy.base.patterns import regex
from stepwhy.read.formats.kineto.arguments import KinetoArgs
from stepwhy.read.formats.kineto.host_compute import computes_on_host
from stepwhy.read.formats.kineto.plain import LARGE, NotPlainError, PlainDocument
from stepwhy.read.formats.kineto.records import add_records
from stepwhy.read.formats.kineto.run import device_memory, device_model, lacks_kernels, meta_of
from stepwhy.read.inputs.source import HEAD_BYTES
from stepwhy.read.shared.chrome_json import LARGEST_NS, Document, looks_like_chrome_json
from stepwhy.read.shared.missing_kernels import count_missing_kernels
from stepwhy.trace import NULL, Health, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

FORMAT = "kineto"

_CATEGORY = (
    rb'"cat"\s*:\s*"(cpu_op|Operator|kernel|Kernel|cuda_runtime|Runtime|gpu_memcpy|python_function'
    rb'|user_annotation|ac2g|async_gpu|mtia_\w+)"'
)
_CATEGORIES = regex(_CATEGORY)
_MARKS = regex(
    _CATEGORY + rb"|PyTorch Profiler|ProfilerStep#|libkineto"
    rb"|\"(cuda|hip|roctracer|cupti)_\w*version\""
)


# torch_npu has Kineto's categories on the host; its devices are rows of other processes.
_ASCEND = regex(rb'"(?:Ascend Hardware|CANN|AscendCL@\w+|async_npu)"')


def recognise(source: Source) -> bool:
    """Whether the file is a Chrome trace with Kineto's categories or header."""
    if source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in {b"{", b"["}:
        return False
    if any(_ASCEND.search(part) for part in (source.head, source.mapped[-HEAD_BYTES:])):
        return False
    if looks_like_chrome_json(source.head) and _MARKS.search(source.head):
        return True
    # Device properties, names of threads or arrows alone can fill the head.
    return source.holds(_CATEGORIES)


def read(source: Source) -> Trace | None:
    """Read a Kineto trace.

    Raises:
        CorruptInputError: The file holds not a single complete record.
    """
    if source.size >= LARGE:
        with suppress(NotPlainError):
            return _read_plain(source)
    header, trace = _read_once(source)
    if header is not None:
        _, trace = _read_once(source, header)
    return trace


def _read_once(
    source: Source, known: dict[str, Any] | None = None
) -> tuple[dict[str, Any] | None, Trace | None]:
    """Read a file of any size and state.

    Args:
        source: The file.
        known: Its header, if it is known to be another one than stands before the events.

    Returns:
        The header, if it turned out to be another one than was used, and the trace.
    """
    builder = TraceBuilder(Health())
    document = Document(source, KinetoArgs, builder.health)
    used = document.header if known is None else known
    trace = _read(builder, document, used)
    is_other = _clock_and_model(document.header) != _clock_and_model(used)
    return document.header if is_other else None, trace


def _read_plain(source: Source) -> Trace | None:
    """Read a large file with the compiled scanner.

    Raises:
        NotPlainError: The scanner is not compiled yet, or cannot read this file.
        CorruptInputError: As `read`.
    """
    kernels = compiled.load("stepwhy.read.formats.kineto.kernels.records")
    if kernels is None:
        raise NotPlainError
    builder = TraceBuilder(Health())
    document = PlainDocument(source, kernels.scan_records, builder.health)
    return _read(builder, document, document.header)


def _read(
    builder: TraceBuilder,
    document: Document[KinetoArgs] | PlainDocument,
    header: dict[str, Any],
) -> Trace | None:
    offset_ns, model = _clock_and_model(header)
    facts = add_records(builder, document, offset_ns, model)
    if not facts.slices:
        return None
    _add_capacity(builder, device_memory(document.header), offset_ns, used=facts.memory)
    if lacks_kernels(document.header, facts):
        count_missing_kernels(builder.health)
    trace = builder.finish(meta_of(FORMAT, document.header, facts))
    if trace.meta.device_expected and trace.meta.idle_accelerator and computes_on_host(trace):
        return replace(trace, meta=replace(trace.meta, device_expected=False))
    return trace


def _clock_and_model(header: dict[str, Any]) -> tuple[int, str]:
    """Clock offset of a file, ns, and the model name of its accelerators."""
    base_ns = header.get("baseTimeNanoseconds")
    offset_ns = base_ns if isinstance(base_ns, int) and abs(base_ns) < LARGEST_NS else 0
    return offset_ns, device_model(header)


def _add_capacity(builder: TraceBuilder, size: int, time_ns: int, *, used: bool) -> None:
    """Add the memory size of a device, if the trace also shows how much of it is used."""
    if used and size != NULL:
        name = builder.intern("memory capacity")
        builder.add("counters", time_ns=time_ns, name=name, value=size)
