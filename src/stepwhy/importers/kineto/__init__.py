"""PyTorch Kineto traces (`torch.profiler`, `export_chrome_trace`), every generation since 2020.

- 2020: a top-level list, categories 'Operator', 'Kernel', 'Runtime', threads as strings.
- 2021: an object with `schemaVersion`, later `deviceProperties`.
- 2022: categories 'cpu_op', 'kernel', 'cuda_runtime', ...; `distributedInfo`; Python stacks.
- 2024: fractional microseconds relative to `baseTimeNanoseconds`.

The GPU's number and the host's process id share the field `pid` and can be equal, so host and
device records are told apart by category.

Source: pytorch/kineto, libkineto/src/output_json.cpp (record layout per generation).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepwhy.importers.chrome_json import LARGEST_NS, looks_like_chrome_json, read_records
from stepwhy.importers.kineto.records import KinetoArgs, add_records
from stepwhy.importers.kineto.run import device_model, meta_of
from stepwhy.trace import Health, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.importers.source import Source
    from stepwhy.trace import Trace

FORMAT = "kineto"

_MARKS = re.compile(
    rb'"cat"\s*:\s*"(cpu_op|Operator|kernel|Kernel|cuda_runtime|Runtime|gpu_memcpy|python_function'
    rb'|user_annotation|ac2g|async_gpu|mtia_\w+)"'
    rb"|PyTorch Profiler|ProfilerStep#|libkineto|\"(cuda|hip|roctracer|cupti)_\w*version\""
)


def recognise(source: Source) -> bool:
    """Whether the file is a Chrome trace with Kineto's categories or header."""
    if not looks_like_chrome_json(source.head) and not _torn_header(source.head):
        return False
    return _MARKS.search(source.head) is not None


def _torn_header(head: bytes) -> bool:
    """A long header (device properties of many devices) can fill the head before any record."""
    return (
        head.lstrip()[:1] == b"{" and b'"schemaVersion"' in head and b'"deviceProperties"' in head
    )


def read(source: Source) -> Trace | None:
    """Read a Kineto trace.

    Raises:
        CorruptInputError: The file holds not a single complete record.
    """
    builder = TraceBuilder(Health())
    records = read_records(source, KinetoArgs, builder.health)
    if not any(event.ph == "X" for event in records.events):
        return None
    base_ns = records.header.get("baseTimeNanoseconds")
    offset_ns = base_ns if isinstance(base_ns, int) and abs(base_ns) < LARGEST_NS else 0
    facts = add_records(builder, records, offset_ns, device_model(records.header))
    return builder.finish(meta_of(FORMAT, records.header, facts))
