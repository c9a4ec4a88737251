"""The file of a window: what the profiler exports, compressed, without the machine and the path."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

from stepwhy.capture.masking import blank
from stepwhy.capture.torch.window_limits import check_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO, Any

    from _typeshed import SupportsWrite

TRACE_FILE = "trace.json.gz"
# A fifth of the time of the usual level, for a file that is a quarter larger.
_COMPRESSION = 1
# Kineto writes the host's name among the first members, the file's own path as the last one.
_EDGE_BYTES = 1 << 16
_PRIVATE = re.compile(rb'("(?:host_name|traceName)")\s*:\s*"(?:[^"\\]|\\.)*"')


def write_trace(profiler: Any, folder: Path) -> None:
    """Write what a stopped profiler has seen.

    Args:
        profiler: A `torch.profiler.profile`.
        folder: Where to write.

    Raises:
        WindowTooLargeError: The trace is larger than one may be.
        OSError: It cannot be written.
    """
    plain = folder / "trace.json"
    try:
        profiler.export_chrome_trace(str(plain))
        check_file(plain)
        blank(plain)
        with plain.open("rb") as source, gzip.open(folder / TRACE_FILE, "wb", _COMPRESSION) as out:
            _copy(source, out, plain.stat().st_size)
    finally:
        plain.unlink(missing_ok=True)


def _copy(source: IO[bytes], out: SupportsWrite[bytes], size: int) -> None:
    """Copy a trace, but for what is private at both of its edges."""
    inside = size - 2 * _EDGE_BYTES
    if inside > 0:
        out.write(_PRIVATE.sub(rb'\1:""', source.read(_EDGE_BYTES)))
        while inside > 0:
            chunk = source.read(min(inside, _EDGE_BYTES))
            out.write(chunk)
            inside -= len(chunk) or inside
    out.write(_PRIVATE.sub(rb'\1:""', source.read()))
