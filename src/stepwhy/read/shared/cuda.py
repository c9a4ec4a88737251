"""Kinds of kernels, copies and calls of the CUDA and HIP APIs, by their names and numbers.

Names are matched because profilers do not record, for example, which calls wait for the device.

Source: CUDA and HIP runtime API references for which calls block, and those of Level Zero, SYCL's
Unified Runtime and Cambricon's CNRT; `CUpti_ActivityMemcpyKind` of CUPTI for the directions of
copies; libkineto's `memcpyKindString`; `stepwhy.read.kernel_names` for the kernels.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.read.kernel_names import Family, moving_row
from stepwhy.trace import Copy, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.read.kernel_names import Row

# --- kernels -----------------------------------------------------------------------------------

_KINDS = {
    Family.COMMUNICATION: Kind.COLLECTIVE,
    Family.COPY: Kind.MEMCPY,
    Family.FILL: Kind.MEMSET,
    Family.WAIT: Kind.DEVICE_WAIT,
    Family.UNKNOWN: Kind.OTHER,
}


def kind_of(row: Row | None) -> Kind:
    """Kind of what a row of the table of names stands for; names that it lacks compute."""
    return Kind.KERNEL if row is None else _KINDS.get(row.family, Kind.KERNEL)


def kernel_kind(name: str) -> Kind:
    """Kind of a kernel: computation, a collective, or a copy or fill of ROCm's runtime."""
    return kind_of(moving_row(name))


def kernel_copy(name: str) -> Copy:
    """Direction of a copy by a kernel of ROCm's runtime, NONE for any other kernel.

    It runs on the device like any kernel, and usually copies within its memory. If the call that
    started it has another direction, that one counts.
    """
    return Copy.D2D if kernel_kind(name) is Kind.MEMCPY else Copy.NONE


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
    if "ModuleLoad" in name or "LibraryLoad" in name or "GraphInstantiate" in name:
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


# How profilers write directions in the names of copies. Level Zero marks host memory that it
# allocated as 'H', and memory from malloc as 'M'; an AIU's DMA goes in and out.
_DIRECTIONS = (
    (regex(r"HtoD|[HM]2D|HostToDevice|Host -> Device| DmaI$", re.IGNORECASE), Copy.H2D),
    (regex(r"DtoH|D2[HM]|DeviceToHost|Device -> Host| DmaO$", re.IGNORECASE), Copy.D2H),
    (regex(r"PtoP|P2P|Peer", re.IGNORECASE), Copy.PEER),
    (regex(r"DtoD|D2D|DeviceToDevice", re.IGNORECASE), Copy.D2D),
    (regex(r"HtoH|H2H|HostToHost", re.IGNORECASE), Copy.H2H),
)


def named_direction(name: str) -> Copy:
    """Direction of a copy by its name ('Memcpy HtoD (Pageable -> Device)'), NONE without one."""
    return next((copy for pattern, copy in _DIRECTIONS if pattern.search(name)), Copy.NONE)


COPY_NAMES = {
    Copy.NONE: "Memcpy",
    Copy.H2D: "Memcpy HtoD",
    Copy.D2H: "Memcpy DtoH",
    Copy.D2D: "Memcpy DtoD",
    Copy.PEER: "Memcpy PtoP",
    Copy.H2H: "Memcpy HtoH",
}
"""Names for copies in formats that give them none."""
