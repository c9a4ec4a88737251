"""A run directory that `stepwhy run` wrote: the step log and the traced windows, as traces.

Layout, version 1: `run.json`; per observed process `process-<pid>/` with `process.json`,
`steps.jsonl`, `events.jsonl`, `levels.jsonl`, `counters.jsonl`, `messages.jsonl` and
`windows/<nnn>/`, which hold what the framework's own profiler wrote. A process that was killed
leaves a log without an end; what was flushed is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from stepwhy.engine.counter_log import add_counters
from stepwhy.engine.event_log import add_events
from stepwhy.engine.level_log import add_levels
from stepwhy.engine.log_files import read_log
from stepwhy.engine.pipeline_log import add_loaders, add_pipeline
from stepwhy.engine.run_files import (
    SCHEMA,
    ProcessFile,
    RunFile,
    read_messages,
    read_record,
    read_run_file,
)
from stepwhy.engine.run_notes import gap_notes, notes_of
from stepwhy.engine.run_windows import read_windows
from stepwhy.engine.session_windows import join_runs
from stepwhy.engine.stack_log import add_samples
from stepwhy.engine.step_log import marks_of, read_steps, session_steps
from stepwhy.errors import NoTracesError
from stepwhy.trace import NULL, Meta, Trace, TraceBuilder
from stepwhy.trace.merge import concatenate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepwhy.engine.step_log import Line


class Recording(msgspec.Struct, frozen=True):
    """One observed process.

    Args:
        trace: Its windows joined, with the step log in `marks`.
        format: Name of the format of its windows, or 'step-log'.
        name: Name of the process directory.
    """

    trace: Trace
    format: str
    name: str


def read_run_directory(path: Path) -> list[Recording]:
    """The observed processes of a run; of one process when that one's folder is given.

    Raises:
        CorruptInputError: `run.json` is damaged.
        NewerFormatError: A later version of stepwhy wrote it.
        NoTracesError: No training loop was seen in the run.
    """
    if (path / "process.json").is_file():
        inside = (path.parent / "run.json").is_file()
        run = read_run_file(path.parent) if inside else RunFile(SCHEMA, exit_code=0)
        folders = [path]
    else:
        run = read_run_file(path)
        folders = [p for p in sorted(path.glob("process-*")) if p.is_dir()]
    recordings = [_read_process(p, run) for p in folders]
    recordings = [r for r in recordings if len(r.trace.slices) or len(r.trace.marks)]
    if not recordings:
        raise NoTracesError(
            f"{path.name} holds no observed training step" + _why(path, run),
            "Check that the command trains with TensorFlow, Keras, PyTorch or jitted JAX, under a "
            "Python that reads PYTHONPATH",
        )
    return recordings


def _why(path: Path, run: RunFile) -> str:
    folders = sorted(p.parent for p in path.glob("**/messages.jsonl"))
    texts = [m.text for folder in folders for m in read_messages(folder)]
    if texts:
        return f" ({texts[-1]})"
    if run.exit_code:
        return f" (the command ended with exit code {run.exit_code} before a step was complete)"
    if any(path.glob("**/process.json")):
        return " (a loop was seen, but its steps could not be written down: is the disk full?)"
    return ""


def _read_process(path: Path, run: RunFile) -> Recording:
    process = read_record(path / "process.json", ProcessFile) or ProcessFile()
    windows = read_windows(path)
    lines = read_log(path, "steps")
    steps = read_steps(lines)
    log = _log(path, steps.records)
    traces = [*windows.traces, *join_runs(windows.runs, session_steps(steps.records))]
    trace = concatenate([*traces, log])
    notes = [
        *windows.notes,
        *gap_notes(lines.gaps, steps.torn),
        *notes_of(path, run, process, read_messages(path), log),
    ]
    meta = _meta(trace.meta, process, run, notes, marked=len(log.marks) > 0)
    return Recording(replace(trace, meta=meta), windows.format or "step-log", path.name)


def _log(path: Path, steps: Sequence[Line]) -> Trace:
    """What the observer and the sampler wrote down of a process."""
    builder = TraceBuilder()
    marks_of(steps, builder)
    add_events(read_log(path, "events").lines, builder)
    add_levels(read_log(path, "levels").lines, builder)
    add_pipeline(_bytes(path / "pipeline.json"), builder)
    add_loaders(read_log(path, "loaders").lines, builder)
    add_counters(read_log(path, "counters").lines, builder)
    add_samples(_bytes(path / "stacks.json"), builder)
    return builder.finish(Meta("step-log"))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _meta(
    meta: Meta, process: ProcessFile, run: RunFile, notes: list[str], *, marked: bool
) -> Meta:
    signals: set[Any] = set(meta.signals) | ({"step-log"} if marked else set())
    return replace(
        meta,
        framework=process.framework or meta.framework,
        framework_version=process.framework_version or meta.framework_version,
        rank=meta.rank if process.rank is None else process.rank,
        world_size=meta.world_size if process.world_size is None else process.world_size,
        command=" ".join(run.command),
        signals=frozenset(signals),
        notes=(*meta.notes, *notes),
    )


__all__ = ["NULL", "Recording", "read_run_directory"]
