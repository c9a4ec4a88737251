"""Whether operations compute on the host, in a file that only names the accelerators of a machine.

An operation for an accelerator returns when its work is queued, within microseconds however large
its tensors are. One that reads them itself takes as long as memory does.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.patterns import regex
from stepwhy.trace import Kind

if TYPE_CHECKING:
    from stepwhy.trace import Trace

# Implementations that only CPUs have. Source: `native_functions.yaml` of PyTorch.
_OF_CPU = regex(r"^aten::_?mkldnn_|_for_cpu$")
# Operations that wait for an accelerator, so that their time is not that of the host.
_MAY_WAIT = regex(
    r"^aten::(_?to(_copy)?|copy_|item|_local_scalar_dense|nonzero|is_nonzero|equal|masked_select"
    r"|unique\w*|_unique\w*|repeat_interleave|cpu|cuda|resolve_\w+)$"
)
# Operands of a large operation, bytes: at the bandwidth below, reading them takes 64 us, several
# times as long as a launch.
_LARGE = 1 << 26
# No CPU reads its memory faster, B/s: two sockets with twelve channels of DDR5 reach 1 TB/s.
_FASTEST = 1e12
# Share of the time of operations that shows where they run.
_MOST = 0.5
_SIZES = {
    "float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16,
    "int32": 4, "int64": 8, "bool": 1, "uint8": 1,
}  # fmt: skip


def computes_on_host(trace: Trace) -> bool:
    """Whether most of the time of operations is spent in computing on the host."""
    slices, operands = trace.slices, trace.operands
    ops = np.flatnonzero(slices.kind == Kind.OP)
    total_ns = int(slices.dur_ns[ops].sum())
    if not total_ns:
        return False
    names = slices.name[ops]
    on_host = trace.matches(names, _OF_CPU.search)
    size = np.zeros(len(slices))
    pairs = zip(operands.types.tolist(), operands.shapes.tolist(), strict=True)
    size[operands.slice] = [_bytes(trace.string(t), trace.string(s)) for t, s in pairs]
    size = size[ops]
    is_slow = size <= slices.dur_ns[ops] * (_FASTEST / 1e9)
    on_host |= (size >= _LARGE) & is_slow & ~trace.matches(names, _MAY_WAIT.search)
    return int(slices.dur_ns[ops][on_host].sum()) > _MOST * total_ns


@lru_cache(maxsize=1 << 12)
def _bytes(types: str, shapes: str) -> int:
    """Size of the tensors among some arguments; 0 where types or shapes are not known."""
    pairs = zip(types.split(","), shapes.split(","), strict=False)
    known = ((_SIZES[name], shape) for name, shape in pairs if shape and name in _SIZES)
    return sum(size * prod(map(int, shape.split("x"))) for size, shape in known)


__all__ = ["computes_on_host"]
