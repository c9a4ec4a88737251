"""Which rows of a Chrome trace are devices: only those that the file itself calls one.

Source: the names that torch.autograd.profiler (until 1.8), XProf's and JAX's trace viewer, Ascend's
MindStudio, rocprof (until 3) and IBM's Flex (AIU) give to their rows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.trace import DeviceKind

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from stepwhy.read.formats.chrome_trace.records import Titles
    from stepwhy.read.formats.chrome_trace.used_names import Use, Uses
    from stepwhy.read.shared.chrome_json import Place

# A device and what may follow its name; a thread that only serves it ('cuda:0 launcher') is none.
_DEVICE = regex(
    r"(?:(?P<host>\S*)/)?(?:device:)?(?P<type>GPU|CUDA|HIP|TPU|NPU|XPU|HPU|AIU|MTIA)"
    r"[ :#_]?(?P<number>\d{1,5})"
    r"(?:[ :]*(?:\(.*\)|stream\b.*|Compute|NVIDIA\b.*|AMD\b.*))?",
    re.IGNORECASE,
)
_STREAM = regex(r"stream\s*[#:]?\s*\d+\b(?!.*\b(?:thread|host)\b).*", re.IGNORECASE)
# Ranges that only a thread of the host can have: calls of a device's API, operators, Python.
_HOST_RANGE = regex(r"(?:cuda|cu|hip)[A-Z]\w+|(?:aten|prim)::.*|.+ \([^()]+:\d+\)", re.DOTALL)
# The row of the devices in torch.autograd.profiler; its threads are their numbers.
_CUDA_FUNCTIONS = "CUDA functions"
# The row of all copies in rocprof, beside rows of GPUs and of calls.
_COPIES, _CALLS = "COPY", frozenset({"CPU HIP API", "CPU HSA API"})
# Categories of device work; the layout is Kineto's, whoever wrote it.
_DEVICE_CATEGORIES = frozenset({"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"})
# Processes of Ascend: the device, its exchanges, and what MindStudio derives from both.
_ASCEND = frozenset({"Ascend Hardware", "Communication", "HCCL", "Overlap Analysis"})
# Of the exchanges, the thread of whole ones; the others ('Plane 0') show their parts.
_EXCHANGES = regex(r".*Communication|Communication.*")
# Since 2023, process ids hold the process, the kind of the row (5 bits) and the device (5 bits).
_FIRST_PACKED, _DEVICE_BITS = 1 << 15, 31
AIU = regex(r".*(?: Cmpt Prep| Cmpt Exec| DmaI| DmaO)", re.DOTALL)
"""What all ranges of an AIU's rows are called."""

# Device numbers from this one on count as one device where rows are shared.
_MOST_SHARED = 64
_XLA_OPS = regex(r"(?:Async )?XLA Ops", re.IGNORECASE)
_KINDS = {
    "GPU": DeviceKind.GPU,
    "CUDA": DeviceKind.GPU,
    "HIP": DeviceKind.GPU,
    "TPU": DeviceKind.TPU,
}


class Row(NamedTuple):
    """A row of ranges.

    Args:
        process, thread: Ids as the file has them.
        title: Its name for people, '' without one.
        device: The device that it belongs to, '' for a thread of the host.
        host: What the file writes before the name of the device.
        kind: What the device is.
        repeats: It shows once more, in other terms, what other rows of its device show.
    """

    process: Hashable
    thread: Hashable
    title: str
    device: str = ""
    host: str = ""
    kind: DeviceKind = DeviceKind.CPU
    repeats: bool = False


def rows_of(titles: Titles, uses: Uses) -> dict[Place, Row]:
    """The row of every process and thread that has a range.

    Args:
        titles: What the file calls its rows.
        uses: The names that ranges have on them.
    """
    held: dict[Place, list[Use]] = defaultdict(list)
    for use in uses.known:
        held[use.place].append(use)
    hosts = {
        place
        for place, own in held.items()
        if place[0] != _CUDA_FUNCTIONS and any(_HOST_RANGE.fullmatch(u.name) for u in own)
    }
    host_processes = {pid for pid, _ in hosts}
    ascend = any("Ascend Hardware" in names for names in titles.processes.values())
    rows = {}
    for place, own in held.items():
        pid, tid = place
        own_titles = [t for t in (titles.threads.get(place, ""), tid) if isinstance(t, str) and t]
        row = Row(pid, tid, own_titles[0] if own_titles else "")
        # A process that is called after the device that it uses is a host all the same.
        names = [] if pid in host_processes else [*titles.processes.get(pid, ()), str(pid)]
        part = next((n for n in names if ascend and n in _ASCEND), "")
        if part:
            rows[place] = _ascend_row(row, part)
        else:
            rows[place] = row if place in hosts else _placed(row, [*own_titles, *names], own)
    if any(not _CALLS.isdisjoint(names) for names in titles.processes.values()):
        rows = _place_copies(rows, {p for p, names in titles.processes.items() if _COPIES in names})
    done = _numbered_hosts(_mark_repeats(rows))
    for place in uses.shared & done.keys():
        done[place] = done[place]._replace(thread=None, title="other threads")
    return done


def sharing_key(titles: Titles, place: Place, category: str) -> tuple[Hashable, ...]:
    """What has to be equal for two places of one process to lie on the same row of many.

    Args:
        titles: What the file calls its rows.
        place: Process and thread.
        category: Category of ranges there.
    """
    pid, tid = place
    title = titles.threads.get(place) or (tid if isinstance(tid, str) else "")
    names = [title, *titles.processes.get(pid, ()), str(pid)]
    found = next((m for m in map(_DEVICE.fullmatch, names) if m), None)
    number = min(int(found["number"]), _MOST_SHARED) if found else -1
    number = tid if pid == _CUDA_FUNCTIONS and tid in range(_MOST_SHARED) else number
    part = next((n for n in names if n in _ASCEND or n in {_COPIES, _CUDA_FUNCTIONS}), "")
    is_stream = _STREAM.fullmatch(title) is not None
    is_whole = bool(part) and _EXCHANGES.fullmatch(title) is not None
    return number, part, is_stream, is_whole, category in _DEVICE_CATEGORIES


def _place_copies(rows: dict[Place, Row], copies: set[Any]) -> dict[Place, Row]:
    """The rows of copies on the GPU; with several GPUs, rocprof does not record which one."""
    gpus = {row.device for row in rows.values() if row.device}
    device = gpus.pop() if len(gpus) == 1 else "GPU"
    return {
        key: row._replace(device=device, kind=DeviceKind.GPU) if row.process in copies else row
        for key, row in rows.items()
    }


def _placed(row: Row, names: Iterable[str], own: Iterable[Use]) -> Row:
    """The row on its device, if its name or all of its ranges show that it is of one."""
    if row.process == _CUDA_FUNCTIONS:
        return row._replace(device=_numbered("GPU", row.thread), kind=DeviceKind.GPU)
    found = next((m for m in map(_DEVICE.fullmatch, names) if m), None)
    if found is not None:
        kind = _KINDS.get(found["type"].upper(), DeviceKind.OTHER)
        label = "GPU" if kind is DeviceKind.GPU else found["type"].upper()
        device = _numbered(label, int(found["number"]))
        return row._replace(device=device, host=found["host"] or "", kind=kind)
    if _STREAM.fullmatch(row.title):
        return row._replace(device=_numbered("accelerator", row.process), kind=DeviceKind.OTHER)
    if all(use.category in _DEVICE_CATEGORIES for use in own):
        return row._replace(device=_numbered("GPU", row.process), kind=DeviceKind.GPU)
    names_of_ranges = [use.name for use in own if use.name]  # without those never looked up
    if names_of_ranges and all(map(AIU.fullmatch, names_of_ranges)):
        return row._replace(device=_numbered("AIU", row.process), kind=DeviceKind.OTHER)
    return row


def _ascend_row(row: Row, part: str) -> Row:
    """The row on its NPU, whose number the process id holds.

    Args:
        row: The row.
        part: Which of `_ASCEND` its process is.
    """
    process = row.process if isinstance(row.process, int) else 0
    device = f"NPU:{process & _DEVICE_BITS if process >= _FIRST_PACKED else 0}"
    is_step = part in {"Communication", "HCCL"} and not _EXCHANGES.fullmatch(row.title)
    repeats = is_step or part == "Overlap Analysis"
    return row._replace(device=device, kind=DeviceKind.OTHER, repeats=repeats)


def _numbered(label: str, number: object) -> str:
    """A device's name with its number; a process that is called by a name may be a host."""
    return f"{label}:{number}" if isinstance(number, int) else label


def _numbered_hosts(rows: dict[Place, Row]) -> dict[Place, Row]:
    """Rows whose device is numbered by host where several hosts have a device of that name."""
    hosts: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows.values():
        hosts[row.device].setdefault(row.host, len(hosts[row.device]))
    return {
        key: row._replace(device=f"{row.device} of host {hosts[row.device][row.host]}")
        if len(hosts[row.device]) > 1
        else row
        for key, row in rows.items()
    }


def _mark_repeats(rows: dict[Place, Row]) -> dict[Place, Row]:
    """Rows of modules, steps and name scopes beside streams or XLA's operations are repetitions."""
    by_process: dict[Any, list[Row]] = defaultdict(list)
    for row in rows.values():
        if row.device:
            by_process[row.process].append(row)
    work = {}
    for process, own in by_process.items():
        streams = [r for r in own if _STREAM.fullmatch(r.title)]
        operations = [r for r in own if _XLA_OPS.fullmatch(r.title)]
        work[process] = set(streams or operations or own)
    return {
        key: row._replace(
            repeats=row.repeats or (bool(row.device) and row not in work[row.process])
        )
        for key, row in rows.items()
    }
