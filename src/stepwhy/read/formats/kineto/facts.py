"""Properties of the run that are derived from its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from stepwhy.trace import Kind


class Facts(msgspec.Struct):
    """Properties of the run that are derived from its records.

    Args:
        kinds: Kinds of slices that occur.
        device_hints: Whether operations or calls occur that need an accelerator.
        device_rows: Whether rows or arrows occur that belong to device work.
        profiler_ranges: Kernels recorded by the range profiler, which distorts their times.
        accelerator: Name prefix of the accelerator's records ('GPU', 'MTIA', ...).
        complete: False when the file ended early.
        copies_with_bytes: Whether copies carry their size.
        memory: Whether allocations were recorded.
        slices: Whether any slice was recorded, usable or not.
    """

    kinds: set[Kind] = msgspec.field(default_factory=set)
    device_hints: bool = False
    device_rows: bool = False
    profiler_ranges: int = 0
    accelerator: str = "GPU"
    complete: bool = True
    copies_with_bytes: bool = False
    memory: bool = False
    slices: bool = False
