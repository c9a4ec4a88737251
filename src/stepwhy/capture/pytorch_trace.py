"""The file of a window: what the profiler exports, without the name of the machine, compressed."""

from __future__ import annotations

import gzip
import re
import shutil
from typing import TYPE_CHECKING

from stepwhy.capture.pytorch_bounds import check_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

TRACE_FILE = "trace.json.gz"
# A fifth of the time of the usual level, for a file that is a quarter larger.
_COMPRESSION = 1
# Kineto writes the host's name among the first members.
_HEAD_BYTES = 1 << 16
_HOST_NAME = re.compile(rb'"host_name"\s*:\s*"(?:[^"\\]|\\.)*"')


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
        with plain.open("rb") as source, gzip.open(folder / TRACE_FILE, "wb", _COMPRESSION) as out:
            out.write(_HOST_NAME.sub(b'"host_name":""', source.read(_HEAD_BYTES)))
            shutil.copyfileobj(source, out)
    finally:
        plain.unlink(missing_ok=True)
