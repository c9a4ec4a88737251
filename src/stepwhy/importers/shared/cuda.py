"""Kinds of kernels, copies and calls of the CUDA and HIP APIs, by their names and numbers.

Names are matched because profilers do not record, for example, which calls wait for the device.

Source: CUDA and HIP runtime API references for which calls block, and those of Level Zero, SYCL's
Unified Runtime and Cambricon's CNRT; `CUpti_ActivityMemcpyKind` of CUPTI for the directions of
copies; `rocclr/device/blitcl.cpp` of ROCm's clr for the kernels that copy and fill.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from stepwhy.patterns import regex
from stepwhy.trace import Copy, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

# --- kernels -----------------------------------------------------------------------------------

_COLLECTIVE = regex(
    r"nccl|rccl|oneccl|msccl|hccl|nvshmem|multimem_|all_?reduce|all_?gather|reduce_?scatter"
    r"|all_?to_?all|cross_device_reduce|sendrecv|deep_ep::(intra|inter)node",
    re.IGNORECASE,
)
# Inductor names a kernel after the operations around it, collectives included.
_GENERATED = regex(r"^triton_[a-z]+_fused_")
_ANONYMOUS = "(anonymous namespace)::"


@lru_cache(maxsize=1 << 16)
def exchanges(kernel: str) -> bool:
    """Whether a kernel's own name, which comes before its template arguments, is a collective."""
    own = re.split(r"[<(]", kernel.replace(_ANONYMOUS, ""), maxsplit=1)[0]
    return _COLLECTIVE.search(own) is not None and not _GENERATED.match(own)


# Kernels with which ROCm's runtime copies and fills memory where it uses no copy engine.
_BLITS = (("__amd_rocclr_copy", Kind.MEMCPY), ("__amd_rocclr_fill", Kind.MEMSET))


def blit_kind(kernel: str) -> Kind | None:
    """MEMCPY or MEMSET for a kernel of ROCm's runtime that copies or fills, None for any other."""
    return next((kind for prefix, kind in _BLITS if kernel.startswith(prefix)), None)


def blit_copy(kernel: str) -> Copy:
    """Direction of a copy by a kernel of ROCm's runtime, NONE for any other kernel.

    It runs on the device like any kernel, and usually copies within its memory. If the call that
    started it has another direction, that one counts.
    """
    return Copy.D2D if blit_kind(kernel) is Kind.MEMCPY else Copy.NONE


def kernel_kind(name: str) -> Kind:
    """Kind of a kernel: computation, a collective, or a copy or fill of ROCm's runtime."""
    return blit_kind(name) or (Kind.COLLECTIVE if exchanges(name) else Kind.KERNEL)


# Length of the next part; L marks names that are local to a file.
_SIZE = regex(r"L?(\d{1,9})")


def qualified_name(symbol: str) -> str:
    """A function's name with its namespaces, from its mangled symbol; other names as they are.

    Template and function arguments are left out: a symbol of hundreds of letters becomes
    'at::native::softmax'.

    Source: the Itanium C++ ABI, <nested-name> and <source-name>.
    """
    if not symbol.startswith("_Z"):
        return symbol
    nested = symbol.startswith("_ZN")
    position = len(symbol) - len(symbol[2:].lstrip("NKVrRO" if nested else ""))
    parts: list[str] = []
    while (nested or not parts) and (match := _SIZE.match(symbol, position)):
        position = match.end() + int(match[1])
        part = symbol[match.end() : position]
        if not part:
            break
        parts.append("(anonymous namespace)" if part.startswith("_GLOBAL__N") else part)
    return "::".join(parts) or symbol


_FRAMEWORKS = (
    ("pytorch", regex(r"\bat::native\b|^aten::|\bc10::|\btorch::|ProfilerStep#")),
    ("tensorflow", regex(r"\btensorflow::|\bstream_executor::")),
)


def framework_of(names: Iterable[str]) -> str:
    """The framework of kernels and ranges; '' if no name reveals it."""
    for name in names:
        for framework, pattern in _FRAMEWORKS:
            if pattern.search(name):
                return framework
    return ""


# --- calls of the API --------------------------------------------------------------------------

_VERSION = regex(r"(_pt[ds][sz]|_v\d+)+$")
_SYNC = regex(
    r"Synchronize|^(cuda|hip|cnrt)Memcpy(2D|3D|ToSymbol|FromSymbol|HtoD|DtoH|DtoD|WithStream)?$"
    r"|^cuMemcpy(HtoD|DtoH|DtoD)?(_v2)?$|^synchronize|^(ur|pi)(QueueFinish|EventWait|EventsWait)$"
    r"|^cn(rt)?(QueueSync|SyncDevice|CtxSync|WaitNotifier)$"
)
_LAUNCH = regex(
    r"Launch|InvokeKernel|Memcpy|Memset|enqueueCommand|runFunction|^ur(USM)?Enqueue(USM|Mem)"
)


def without_version(call: str) -> str:
    """A call's name without the version and stream mode that CUPTI appends ('_ptsz_v7000')."""
    return _VERSION.sub("", call)


def call_kind(name: str) -> Kind:
    """Kind of a call of the device API."""
    if _SYNC.search(name):
        return Kind.SYNC
    if _LAUNCH.search(name):
        return Kind.LAUNCH
    if "ModuleLoad" in name or "LibraryLoad" in name:
        return Kind.COMPILE
    return Kind.RUNTIME


# --- copies ------------------------------------------------------------------------------------

# Arrays are on the device; the driver makes the copies of unified memory.
_COPIES = {
    "HTOD": Copy.H2D,
    "DTOH": Copy.D2H,
    "HTOA": Copy.H2D,
    "ATOH": Copy.D2H,
    "ATOA": Copy.D2D,
    "ATOD": Copy.D2D,
    "DTOA": Copy.D2D,
    "DTOD": Copy.D2D,
    "HTOH": Copy.H2H,
    "PTOP": Copy.PEER,
    "UVM_HTOD": Copy.H2D,
    "UVM_DTOH": Copy.D2H,
    "UVM_DTOD": Copy.D2D,
}
COPY_KINDS = dict(enumerate(_COPIES, start=1))
"""CUPTI's names of the directions, by the number that databases hold."""


def copy_direction(kind: str) -> Copy:
    """Direction by CUPTI's name ('HTOD'), with or without a prefix; NONE for an unknown one."""
    _, found, tail = kind.upper().rpartition("KIND_")
    return _COPIES.get(tail if found else kind.upper(), Copy.NONE)


COPY_NAMES = {
    Copy.NONE: "Memcpy",
    Copy.H2D: "Memcpy HtoD",
    Copy.D2H: "Memcpy DtoH",
    Copy.D2D: "Memcpy DtoD",
    Copy.PEER: "Memcpy PtoP",
    Copy.H2H: "Memcpy HtoH",
}
"""Names for copies in formats that give them none."""
