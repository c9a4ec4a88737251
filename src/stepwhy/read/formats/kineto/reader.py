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
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from stepwhy.base.columns import compiled
from stepwhy.base.patterns import regex
from stepwhy.read.formats.kineto.arguments import KinetoArgs
from stepwhy.read.formats.kineto.plain import LARGE, NotPlainError, PlainDocument
from stepwhy.read.formats.kineto.records import add_records
from stepwhy.read.formats.kineto.run import device_memory, device_model, lacks_kernels, meta_of
from stepwhy.read.inputs.source import HEAD_BYTES
from stepwhy.read.shared.chrome_json import LARGEST_NS, Document, looks_like_chrome_json
from stepwhy.read.shared.missing_kernels import count_missing_kernels
from stepwhy.trace import NULL, Health, Kind, TraceBuilder

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

# Implementations that only CPUs have. Source: `native_functions.yaml` of PyTorch.
_OF_CPU = regex(r"^aten::_?mkldnn_|_for_cpu$")
# Operations that wait for an accelerator, so that their time is not that of the host.
_MAY_WAIT = regex(
    r"^aten::(_?to(_copy)?|copy_|item|_local_scalar_dense|nonzero|is_nonzero|equal|masked_select"
    r"|unique\w*|_unique\w*|repeat_interleave|cpu|cuda|resolve_\w+)$"
)
# Operands of a large operation, bytes: at the bandwidth below, reading them takes 64 us, several
# times as long as a launch.
_LARGE_OPERANDS = 1 << 26
# No CPU reads its memory faster, B/s: two sockets with twelve channels of DDR5 reach 1 TB/s.
_FASTEST_MEMORY = 1e12
# Share of the time of operations that shows where they run.
_MOST_OF_THE_TIME = 0.5
_TYPE_BYTES = {
    "float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16,
    "int32": 4, "int64": 8, "bool": 1, "uint8": 1,
}  # fmt: skip


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
    # Add the memory size of a device, if the trace also shows how much of it is used.
    size = device_memory(document.header)
    if facts.memory and size != NULL:
        name = builder.intern("memory capacity")
        builder.add("counters", time_ns=offset_ns, name=name, value=size)
    if lacks_kernels(document.header, facts):
        count_missing_kernels(builder.health)
    trace = builder.finish(meta_of(FORMAT, document.header, facts))
    if trace.meta.device_expected and trace.meta.idle_accelerator and _computes_on_host(trace):
        return replace(trace, meta=replace(trace.meta, device_expected=False))
    return trace


def _clock_and_model(header: dict[str, Any]) -> tuple[int, str]:
    """Clock offset of a file, ns, and the model name of its accelerators."""
    base_ns = header.get("baseTimeNanoseconds")
    offset_ns = base_ns if isinstance(base_ns, int) and abs(base_ns) < LARGEST_NS else 0
    return offset_ns, device_model(header)


def _computes_on_host(trace: Trace) -> bool:
    """Whether most of the time of operations is spent in computing on the host.

    The file may only name the accelerators of the machine. An operation for an accelerator returns
    when its work is queued, within microseconds however large its tensors are; one that reads them
    itself takes as long as memory does.
    """
    slices, operands = trace.slices, trace.operands
    ops = np.flatnonzero(slices.kind == Kind.OP)
    total_ns = int(slices.dur_ns[ops].sum())
    if not total_ns:
        return False
    names = slices.name[ops]
    on_host = trace.matches(names, _OF_CPU.search)
    size = np.zeros(len(slices))
    pairs = zip(operands.types.tolist(), operands.shapes.tolist(), strict=True)
    size[operands.slice] = [_tensor_bytes(trace.string(t), trace.string(s)) for t, s in pairs]
    size = size[ops]
    is_slow = size <= slices.dur_ns[ops] * (_FASTEST_MEMORY / 1e9)
    on_host |= (size >= _LARGE_OPERANDS) & is_slow & ~trace.matches(names, _MAY_WAIT.search)
    return int(slices.dur_ns[ops][on_host].sum()) > _MOST_OF_THE_TIME * total_ns


@lru_cache(maxsize=1 << 12)
def _tensor_bytes(types: str, shapes: str) -> int:
    """Size of the tensors among some arguments; 0 where types or shapes are not known."""
    pairs = zip(types.split(","), shapes.split(","), strict=False)
    known = ((_TYPE_BYTES[name], shape) for name, shape in pairs if shape and name in _TYPE_BYTES)
    return sum(size * prod(map(int, shape.split("x"))) for size, shape in known)
