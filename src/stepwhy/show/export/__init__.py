"""Write runs and traces in formats of other programs.

| format | what it is |
| --- | --- |
| `chrome-trace` | Chrome trace JSON, for chrome://tracing, Perfetto and `stepwhy explain` |
| `perfetto` | the same, because Perfetto reads this JSON |
| `speedscope` | the call tree of the steady steps, for speedscope |
| `parquet` | a folder with a Parquet file per table, for data frames and SQL |
| `stepwhy` | the trace in one file, to keep it |
| `tensorboard` | a folder with curves by step, and the report as text, for TensorBoard |
| `prometheus` | metrics as text, for Prometheus |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.show.export.chrome_trace import write_chrome_trace
from stepwhy.show.export.parquet import write_parquet
from stepwhy.show.export.prometheus import write_prometheus
from stepwhy.show.export.speedscope import write_speedscope
from stepwhy.show.export.tensorboard import write_tensorboard
from stepwhy.trace.store import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepwhy.show.export.explained import Explained
    from stepwhy.trace import Trace


WRITERS: dict[str, tuple[str, Callable[[Trace, Path], None]]] = {
    "chrome-trace": (".trace.json.gz", write_chrome_trace),
    "perfetto": (".trace.json.gz", write_chrome_trace),
    "speedscope": (".speedscope.json", write_speedscope),
    "parquet": (".parquet", write_parquet),
    "stepwhy": (".stepwhy", save),
}
"""File name extension and writer of a trace, by name of the format."""

EXPLAINED_WRITERS: dict[str, tuple[str, Callable[[Explained, Path], None]]] = {
    "tensorboard": (".tensorboard", write_tensorboard),
    "prometheus": (".prom", write_prometheus),
}
"""The same, of a run that was explained."""

__all__ = ["EXPLAINED_WRITERS", "WRITERS"]
