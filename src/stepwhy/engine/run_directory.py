"""A run directory that `stepwhy run` wrote: the step log and the traced windows, as traces.

Layout, version 1: `run.json`; per observed process `process-<pid>/` with `process.json`,
`steps.jsonl`, `events.jsonl`, `levels.jsonl`, `counters.jsonl`, `messages.jsonl` and
`windows/<nnn>/`, which hold what the framework's own profiler wrote. A process that was killed
leaves a log without an end; what was flushed is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.engine.bytes import read_source
from stepwhy.engine.counter_log import add_counters
from stepwhy.engine.event_log import add_events
from stepwhy.engine.formats import read_trace
from stepwhy.engine.level_log import add_levels
from stepwhy.engine.session_windows import RunWindow, join_runs
from stepwhy.engine.stack_log import add_samples
from stepwhy.engine.step_log import marks_of, read_lines, session_steps
from stepwhy.errors import CorruptInputError, InputError, NewerFormatError, NoTracesError
from stepwhy.trace import NULL, Kind, Meta, Trace, TraceBuilder
from stepwhy.trace.merge import concatenate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = "stepwhy.run/1"
# The log and the profiler read one clock, a moment apart.
_CLOCKS_AGREE_NS = 1_000_000
_TRACE_NAMES = ("run_metadata.pb", "trace.json.gz", "trace.json", "*.xplane.pb")


class _RunFile(msgspec.Struct):
    """run.json."""

    schema: str
    command: list[str] = []
    ended_ns: int | None = None
    exit_code: int | None = None


class _Window(msgspec.Struct):
    """window.json."""

    end_ns: int
    start_ns: int = NULL
    kind: str = ""


class _ProcessFile(msgspec.Struct):
    """process.json."""

    framework: str = ""
    framework_version: str = ""
    rank: int | None = None
    world_size: int | None = None


class _Message(msgspec.Struct):
    """One line of messages.jsonl."""

    text: str
    level: str = "info"


@dataclass(frozen=True, slots=True)
class Recording:
    """One observed process.

    Args:
        trace: Its windows joined, with the step log in `marks`.
        format: Name of the format of its windows, or 'step-log'.
        name: Name of the process directory.
    """

    trace: Trace
    format: str
    name: str


def is_run_directory(path: Path) -> bool:
    """Whether a folder is a run directory, or that of one process in it."""
    return (path / "run.json").is_file() or (path / "process.json").is_file()


def read_run_directory(path: Path) -> list[Recording]:
    """The observed processes of a run; of one process when that one's folder is given.

    Raises:
        CorruptInputError: `run.json` is damaged.
        NewerFormatError: A later version of stepwhy wrote it.
        NoTracesError: No training loop was seen in the run.
    """
    if (path / "process.json").is_file():
        run = _run_file(path.parent) if (path.parent / "run.json").is_file() else _RunFile(SCHEMA)
        folders = [path]
    else:
        run = _run_file(path)
        folders = [p for p in sorted(path.glob("process-*")) if p.is_dir()]
    recordings = [_read_process(p, run) for p in folders]
    recordings = [r for r in recordings if len(r.trace.slices) or len(r.trace.marks)]
    if not recordings:
        raise NoTracesError(
            f"{path.name} holds no observed training step" + _why(path),
            "Check that the command trains with TensorFlow, Keras, PyTorch or jitted JAX, under a "
            "Python that reads PYTHONPATH",
        )
    return recordings


def _run_file(path: Path) -> _RunFile:
    data = (path / "run.json").read_bytes()
    try:
        run = msgspec.json.decode(data, type=_RunFile)
    except msgspec.DecodeError as error:
        raise CorruptInputError(f"{path.name}/run.json is damaged ({error})", "Run again") from None
    if run.schema != SCHEMA:
        raise NewerFormatError(
            f"{path.name} is a run directory of version {run.schema}", "Update stepwhy"
        )
    return run


def _why(path: Path) -> str:
    texts = [m.text for p in sorted(path.glob("**/messages.jsonl")) for m in _messages(p)]
    return f" ({texts[-1]})" if texts else ""


def _messages(path: Path) -> Iterator[_Message]:
    for line in _lines(path):
        try:
            yield msgspec.json.decode(line, type=_Message)
        except msgspec.DecodeError:
            continue  # the torn last line of a process that was killed


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError:
        return []


def _read_process(path: Path, run: _RunFile) -> Recording:
    process = _process_file(path)
    traces: list[Trace] = []
    runs: list[RunWindow] = []
    notes = [m.text for m in _messages(path / "messages.jsonl") if m.level != "info"]
    formats: list[str] = []
    for window in sorted((path / "windows").glob("*")):
        try:
            found = _read_window(window)
        except InputError as error:
            notes.append(f"A traced window could not be read: {error}")
            continue
        if found is None:
            continue
        formats.append(found[1])
        about = _window_file(window)
        if about is not None and about.kind == "tf1-run":
            runs.append(RunWindow(found[0], about.start_ns, about.end_ns))
        else:
            traces.append(found[0])
    builder = TraceBuilder()
    lines = _lines(path / "steps.jsonl")
    torn = marks_of(lines, builder)
    traces += join_runs(runs, session_steps(read_lines(lines)[0]))
    if torn:
        notes.append("The step log ends in the middle of a line: the process was killed.")
    if run.exit_code is None:
        notes.append("The run has no recorded end: it was killed, or it is still going.")
    add_events(_lines(path / "events.jsonl"), builder)
    add_levels(_lines(path / "levels.jsonl"), builder)
    add_counters(_lines(path / "counters.jsonl"), builder)
    add_samples(b"\n".join(_lines(path / "stacks.json")), builder)
    log = builder.finish(Meta("step-log"))
    trace = concatenate([*traces, log])
    meta = _meta(trace.meta, process, run, notes, marked=len(log.marks) > 0)
    return Recording(replace(trace, meta=meta), formats[0] if formats else "step-log", path.name)


def _process_file(path: Path) -> _ProcessFile:
    try:
        return msgspec.json.decode((path / "process.json").read_bytes(), type=_ProcessFile)
    except (OSError, msgspec.DecodeError):
        return _ProcessFile()


def _read_window(path: Path) -> tuple[Trace, str] | None:
    for pattern in _TRACE_NAMES:
        for file in sorted(path.glob(pattern)):
            trace, format_name = read_trace(read_source(file))
            _drop_unfinished(trace, _window_file(path))
            return trace, format_name
    return None


def _window_file(path: Path) -> _Window | None:
    try:
        return msgspec.json.decode((path / "window.json").read_bytes(), type=_Window)
    except (OSError, msgspec.DecodeError):
        return None


def _drop_unfinished(trace: Trace, window: _Window | None) -> None:
    """A script that ends inside a window leaves the mark of a step that never finished."""
    if window is None:
        return
    slices = trace.slices
    late = (slices.kind == Kind.STEP) & (
        slices.start_ns + slices.dur_ns > window.end_ns + _CLOCKS_AGREE_NS
    )
    slices.kind[late] = Kind.ANNOTATION


def _meta(
    meta: Meta, process: _ProcessFile, run: _RunFile, notes: list[str], *, marked: bool
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


__all__ = ["NULL", "Recording", "is_run_directory", "read_run_directory"]
