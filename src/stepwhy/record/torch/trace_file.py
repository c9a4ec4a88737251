"""Write the trace of a window: exported, masked and compressed, without host name and path."""

from __future__ import annotations

import gzip
import mmap
import re
from typing import TYPE_CHECKING

from stepwhy.record.core.masking import mask_file
from stepwhy.record.torch.window_limits import check_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO, Any

    from _typeshed import SupportsWrite

TRACE_FILE = "trace.json.gz"
# A fifth of the time of the default level, for a file that is a quarter larger.
_COMPRESSION = 1
# Kineto writes the host name among the first members, and the path of the file as the last.
_EDGE_BYTES = 1 << 16
# Kineto writes it like this; source: libkineto/src/output_json.cpp.
_KERNEL = re.compile(rb'"cat": ?"kernel"')
_PRIVATE = re.compile(rb'("(?:host_name|traceName)")\s*:\s*"(?:[^"\\]|\\.)*"')


def write_trace(profiler: Any, folder: Path) -> bool:
    """Write the trace of a stopped profiler.

    Args:
        profiler: A `torch.profiler.profile`.
        folder: Destination folder.

    Returns:
        Whether it has a kernel of an accelerator.

    Raises:
        WindowTooLargeError: The trace is too large.
        OSError: It cannot be written.
    """
    plain = folder / "trace.json"
    try:
        profiler.export_chrome_trace(str(plain))
        check_file(plain)
        has_kernels = _has_kernels(plain)
        compress(plain, folder / TRACE_FILE)
    finally:
        plain.unlink(missing_ok=True)
    return has_kernels


def _has_kernels(plain: Path) -> bool:
    """Whether an exported trace has a kernel; True if it cannot be searched."""
    with plain.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _KERNEL.search(data) is not None
        except (OSError, ValueError):
            return True


def compress(plain: Path, target: Path) -> None:
    """Write a compressed trace without secrets, host name and path.

    Args:
        plain: The exported trace, which is masked in place.
        target: The file to write.

    Raises:
        OSError: It cannot be written.
    """
    mask_file(plain)
    with plain.open("rb") as source, gzip.open(target, "wb", _COMPRESSION) as out:
        _copy(source, out, plain.stat().st_size)


def _copy(source: IO[bytes], out: SupportsWrite[bytes], size: int) -> None:
    """Copy a trace without the private members near its start and end."""
    inside = size - 2 * _EDGE_BYTES
    if inside > 0:
        out.write(_PRIVATE.sub(rb'\1:""', source.read(_EDGE_BYTES)))
        while inside > 0:
            chunk = source.read(min(inside, _EDGE_BYTES))
            out.write(chunk)
            inside -= len(chunk) or inside
    out.write(_PRIVATE.sub(rb'\1:""', source.read()))
