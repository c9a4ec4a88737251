"""Traces in forms that other programs read.

| format | what it is |
| --- | --- |
| `chrome-trace` | Chrome trace JSON, for chrome://tracing, Perfetto and `stepwhy explain` |
| `perfetto` | the same: Perfetto reads this JSON, so that a second format would only be another |
| `parquet` | a folder with a Parquet file per table, for data frames and SQL |
| `stepwhy` | the trace itself in one file, for keeping |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.export.chrome_trace import write_chrome_trace
from stepwhy.export.parquet import write_parquet
from stepwhy.trace.store import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepwhy.trace import Trace


WRITERS: dict[str, tuple[str, Callable[[Trace, Path], None]]] = {
    "chrome-trace": (".trace.json.gz", write_chrome_trace),
    "perfetto": (".trace.json.gz", write_chrome_trace),
    "parquet": (".parquet", write_parquet),
    "stepwhy": (".stepwhy", save),
}
"""Ending of a file's name, and what writes it, by the name of a format."""

__all__ = ["WRITERS"]
