"""Reduce a recorded run to what explaining it again needs.

    python slim.py TRACE...

removes from traces of PyTorch what nobody reads.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any

from store import write_whole

_MADE_AGAIN = ("report.html", "report.txt", "result.json")
# The arguments of an event that `stepwhy explain` reads; a test compares them with its importer.
ARGUMENTS = frozenset({
    "device", "stream", "correlation", "bytes", "size", "name", "Sequence number", "Fwd thread id",
    "Call stack", "Device Type", "Device Id", "Bytes", "Addr", "Total Allocated", "Total Reserved",
    "wait_on_stream", "wait_on_cuda_event_record_corr_id", "Collective name", "Process Group Name",
    "Process Group Ranks", "Process Group Description", "Group size", "In msg nelems",
    "Out msg nelems", "dtype", "Input type", "Input Dims",
})  # fmt: skip
# Flow arrows: the correlation ids of launches and kernels hold the same.
_ARROWS = frozenset("stf")
# Numbers are written back as they were read: times have more digits than a float.
_MARK = "\x00"
_MARKED = re.compile(r'"\\u0000([^"]*)"')


def slim_trace(file: Path) -> None:
    """Remove arguments and arrows that nobody reads from a trace of PyTorch; damaged ones stay.

    Args:
        file: The compressed trace, which is replaced.
    """
    before = file.read_bytes()
    try:
        trace = json.loads(gzip.decompress(before), parse_float=_MARK.__add__)
        events = trace["traceEvents"]
    except (OSError, ValueError, EOFError, KeyError, TypeError, zlib.error):
        return
    # Without kernels, arrows alone show that there was a device.
    has_kernels = any(isinstance(e, dict) and e.get("cat") == "kernel" for e in events)
    trace["traceEvents"] = [
        _slim(event) for event in events
        if not (has_kernels and isinstance(event, dict) and event.get("ph") in _ARROWS)
    ]  # fmt: skip
    text = _MARKED.sub(r"\1", json.dumps(trace, separators=(",", ":")))
    packed = gzip.compress(text.encode(), mtime=0)
    if len(packed) < len(before):
        write_whole(file, packed)


def _slim(event: Any) -> Any:
    arguments = event.get("args") if isinstance(event, dict) else None
    if not isinstance(arguments, dict) or event.get("ph") == "M":
        return event
    return {**event, "args": {k: v for k, v in arguments.items() if k in ARGUMENTS}}


def reduce(run: Path, most_bytes: float, left_bytes: float) -> list[str]:
    """Leave out what is made again, and large windows; returns which ones these were.

    Args:
        run: A run directory.
        most_bytes: Size of a window above which it is left out.
        left_bytes: Size of all of its windows together above which further ones are left out.
    """
    for name in _MADE_AGAIN:
        (run / name).unlink(missing_ok=True)
    left_out = []
    for file in sorted(run.glob("process-*/windows/*/*")):
        if not file.is_file() or file.name == "window.json":
            continue
        size = file.stat().st_size
        if size > min(most_bytes, left_bytes):
            left_out.append(f"{file.parent.name}: {size / 2**20:.1f} MiB")
            file.unlink()
        else:
            left_bytes -= size
    return left_out


if __name__ == "__main__":
    for name in sys.argv[1:]:
        slim_trace(Path(name))
