"""A run directory that `stepwhy run` wrote: the step log and the traced windows, as traces.

Layout, version 1: `run.json`; per observed process `process-<pid>/` with `process.json`,
`steps.jsonl`, `events.jsonl`, `levels.jsonl`, `counters.jsonl`, `messages.jsonl`, `semantic.json`,
`lines.json.gz`, `stall.json.gz`, `collectives.json.gz` and `windows/<nnn>/`, which hold what the
framework's own profiler wrote. A process that was killed leaves a log without an end; what was
flushed is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from stepwhy.base.errors import NoTracesError
from stepwhy.base.redaction.commands import redact_command
from stepwhy.base.units import format_exit
from stepwhy.read.format import Recording
from stepwhy.read.formats.run_directory.collective_log import COLLECTIVES_FILE, add_collectives
from stepwhy.read.formats.run_directory.counter_log import add_constants, add_counters
from stepwhy.read.formats.run_directory.ending import ending_of, untraced
from stepwhy.read.formats.run_directory.event_log import add_events, add_levels, read_events
from stepwhy.read.formats.run_directory.files import (
    SCHEMA,
    ProcessFile,
    RunFile,
    read_messages,
    read_record,
    read_run_file,
)
from stepwhy.read.formats.run_directory.line_log import LINES_FILE, add_lines
from stepwhy.read.formats.run_directory.log_files import read_log
from stepwhy.read.formats.run_directory.notes import gap_notes, notes_of
from stepwhy.read.formats.run_directory.own_evaluations import with_own_evaluations
from stepwhy.read.formats.run_directory.pipeline_log import add_loaders, add_pipeline
from stepwhy.read.formats.run_directory.semantic_log import add_semantics
from stepwhy.read.formats.run_directory.session_windows import join_runs
from stepwhy.read.formats.run_directory.stack_log import add_samples
from stepwhy.read.formats.run_directory.stall_log import STALL_FILE, add_stall
from stepwhy.read.formats.run_directory.step_log import (
    lone_runs,
    marks_of,
    read_steps,
    session_steps,
    untimed_steps,
)
from stepwhy.read.formats.run_directory.windows import read_windows
from stepwhy.read.inputs.folders import RunFolder
from stepwhy.read.inputs.kinds import is_file
from stepwhy.read.inputs.side_files import MOST_RECORD_BYTES
from stepwhy.trace import NULL, Columns, DeviceKind, Kind, Meta, Trace, TraceBuilder
from stepwhy.trace.merge import concatenate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepwhy.read.format import ReadTrace
    from stepwhy.read.formats.run_directory.step_log import Line
    from stepwhy.trace import Trace

# Windows and files that cannot be read make one each.
_MOST_NOTES = 50
_MOST_SETTINGS = 50
_TRAINS_WITH = (
    "Check that the command trains with TensorFlow, Keras, PyTorch or jitted JAX, under a Python "
    "that reads PYTHONPATH"
)
_FIX_FIRST = "Fix what ended it, and run it again"
_MAKE_SPACE = "Free some space, or name a directory on another disk with --out, and run it again"
_WAIT = "If it still runs, wait for more steps: 'stepwhy top' shows when they end"
_RUN_LONGER = "Let it train for 20 steps or more, or call stepwhy.step() once per step"

_ENTRY = "autograd.Function "
_LEAST_ELSEWHERE = 0.05  # of the samples; NumPy's functions that are written in Python are rare
_MOST_IN_ONE_LINE = 0.8  # of the samples; a line that calls a kernel has almost all of them
_FEWEST_SAMPLES = 10  # fewer do not show how a function divides its time


def recognise(path: Path) -> bool:
    """Whether the folder is a run directory, or the folder of one process in it."""
    return is_file(path / "run.json") or is_file(path / "process.json")


def read(path: Path, read_trace: ReadTrace) -> list[Recording]:
    """The observed processes of a run; only one process if `path` is the folder of that process.

    Args:
        path: The run directory, or the folder of a process in it.
        read_trace: Reads the trace in a window.

    Raises:
        CorruptInputError: `run.json` is damaged.
        InputError: `run.json` is no file of the directory, or too large.
        NewerFormatError: A later version of stepwhy wrote it.
        NoTracesError: No training loop was seen in the run.
    """
    if is_file(path / "process.json"):
        inside = is_file(path.parent / "run.json")
        run = read_run_file(path.parent) if inside else RunFile(SCHEMA, exit_code=0)
        top = RunFolder(path, path.parent if inside else path)
        folders = [top]
    else:
        run = read_run_file(path)
        top = RunFolder(path)
        # Each with a list of its own of what was refused.
        found = top.folders("process-*")
        folders = [RunFolder(folder.path, path, [*top.refused]) for folder in found]
    recordings = [_read_process(folder, run, read_trace) for folder in folders]
    recordings = [r for r in recordings if _shows_something(r.trace)]
    if not recordings:
        reason, advice = _why(top, folders, run)
        what = f"{top.path.name} holds no observed training step"
        raise NoTracesError(f"{what}: {reason}" if reason else what, advice or _TRAINS_WITH)
    return recordings


def _shows_something(trace: Trace) -> bool:
    """Whether a process was observed in a step."""
    return any(map(len, (trace.slices, trace.marks, trace.positions)))


def _why(top: RunFolder, folders: Sequence[RunFolder], run: RunFile) -> tuple[str, str]:
    """Why there is no step, and what to do; '' for what is not known."""
    refused = [text for folder in (top, *folders) for text in folder.refused]
    if refused:
        return refused[0].rstrip("."), ""
    if run.why_no_step:
        reason, _, advice = run.why_no_step.partition(". ")
        return reason, advice
    if run.exit_code:
        exception = next((p.exception for p in run.processes.values() if p.exception), "")
        how = format_exit(run.exit_code) + (f" ({exception})" if exception else "")
        return f"the training failed before two steps could be timed: {how}", _FIX_FIRST
    texts = [m.text for folder in folders for m in read_messages(folder)]
    if texts:
        return texts[-1], ""
    if run.exit_code is None and run.ended_ns is None:
        return "the run has not ended, or was killed", _WAIT
    return _few(folders)


def _few(folders: Sequence[RunFolder]) -> tuple[str, str]:
    """Why what was logged is too little to find steps in, and what to do; '' if not known."""
    lines = [line for folder in folders for line in read_steps(read_log(folder, "steps")).records]
    runs, calls = (sum(line.kind == kind for line in lines) for kind in ("run", "call"))
    seen = [_counted(runs, "session run")] if runs else []
    seen += [_counted(calls, "call of a compiled function")] if calls else []
    if not seen and any(folder.names("process.json") for folder in folders):
        reason = "a loop was seen, but its steps could not be written; the disk may be full"
        return reason, _MAKE_SPACE
    if not seen:
        return "", ""
    return f"too little was seen to find steps in: {' and '.join(seen)}", _RUN_LONGER


def _counted(count: int, what: str) -> str:
    """'1 session run', '2 session runs'."""
    first, _, rest = what.partition(" of ")
    noun = first if count == 1 else f"{first}s"
    return f"{count} {noun} of {rest}" if rest else f"{count} {noun}"


def _read_process(folder: RunFolder, run: RunFile, read_trace: ReadTrace) -> Recording:
    process = read_record(folder, "process.json", ProcessFile) or ProcessFile()
    windows = read_windows(folder, read_trace)
    lines = read_log(folder, "steps")
    steps = read_steps(lines)
    left_out: list[str] = []
    log = _log(folder, process, steps.records, left_out, run)
    untimed = untimed_steps(steps.records, process.observer) if run.exit_code else 0
    traces = [*windows.traces, *join_runs(windows.runs, session_steps(steps.records))]
    trace = mark_functions(concatenate([*traces, log]))
    messages = read_messages(folder)
    notes = [
        *folder.refused,
        *windows.notes,
        *gap_notes(lines.gaps, steps.torn),
        *left_out,
        *notes_of(folder, run, process, messages, log, untimed),
    ]
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [f"{len(notes) - _MOST_NOTES} more notes are left out."]
    listed = len(log.collective_calls) > 0
    meta = _meta(trace.meta, process, run, notes, marked=len(log.marks) > 0, listed=listed)
    ending = ending_of(run, process, log, untimed)
    meta = replace(
        meta, exit_code=ending.exit_code, exception=ending.exception, ending=ending.sentence
    )
    if not len(trace.slices) and meta.framework:
        lone = bool(lone_runs(steps.records))
        why = untraced(run, process, messages, log, unfinished=windows.unfinished, lone=lone)
        meta = replace(meta, untraced=why.reason, untraced_advice=why.advice)
    return Recording(replace(trace, meta=meta), windows.format or "step-log", folder.path.name)


def _log(
    folder: RunFolder,
    process: ProcessFile,
    steps: Sequence[Line],
    left_out: list[str],
    run: RunFile,
) -> Trace:
    """What the observer and the sampler wrote down of a process; `left_out` gets what is lost."""
    builder = TraceBuilder()
    marks_of(steps, builder)
    events = read_events(read_log(folder, "events").lines)
    add_events(with_own_evaluations(events, steps, process.framework), builder)
    add_levels(read_log(folder, "levels").lines, builder)
    add_pipeline(folder.read("pipeline.json"), builder)
    add_loaders(read_log(folder, "loaders").lines, builder)
    if steps:
        add_constants(process, steps[0].start_ns, builder)
    add_counters(read_log(folder, "counters").lines, builder)
    add_samples(folder.read("stacks.json"), builder)
    left_out += add_semantics(folder.read("semantic.json", MOST_RECORD_BYTES), builder)
    left_out += add_lines(folder.read(LINES_FILE, MOST_RECORD_BYTES), builder)
    if run.exit_code == 0:
        # All processes of one directory ran on one machine.
        processes = len(RunFolder(folder.path.parent, folder.root).names("process-*"))
        one_clock = 0 < (process.world_size or 0) <= processes
        calls = folder.read(COLLECTIVES_FILE, MOST_RECORD_BYTES)
        left_out += add_collectives(calls, builder, one_clock=one_clock)
    else:  # what ended well did not hang
        last_end_ns = max((step.end_ns for step in steps), default=NULL)
        stall = folder.read(STALL_FILE, MOST_RECORD_BYTES)
        left_out += add_stall(stall, last_end_ns, builder)
    return builder.finish(Meta("step-log"))


def _meta(
    meta: Meta, process: ProcessFile, run: RunFile, notes: list[str], *, marked: bool, listed: bool
) -> Meta:
    signals: set[Any] = set(meta.signals) | ({"step-log"} if marked else set())
    signals |= {"collective-calls", "open-collectives"} if listed else set()
    # Start and end of the command; None if either is unknown.
    started, ended = run.started_ns, run.ended_ns
    span = None if started is None or ended is None else (started, ended)
    return replace(
        meta,
        framework=process.framework or meta.framework,
        framework_version=process.framework_version or meta.framework_version,
        rank=meta.rank if process.rank is None else process.rank,
        world_size=meta.world_size if process.world_size is None else process.world_size,
        command=" ".join(redact_command(run.command)),
        python=process.python or run.python,
        cpu=run.cpu,
        signals=frozenset(signals),
        run_ns=span,
        notes=(*meta.notes, *notes),
        settings=tuple(sorted(process.settings.items()))[:_MOST_SETTINGS],
    )


def mark_functions(trace: Trace) -> Trace:
    """The trace with autograd functions that run Python as slices of Python, not as operations.

    PyTorch records a `torch.autograd.Function` as one operation, whether it calls operations, a
    kernel of an extension, or NumPy. What it spends outside of other operations is Python if it was
    sampled in several of its lines, or in a package other than PyTorch. In one line alone, it may
    be in a kernel.

    With an accelerator nothing is changed: there, such functions mostly launch kernels.

    Args:
        trace: The trace, with `samples`.
    """
    names = _python_functions(trace)
    if not names or (trace.devices.kind != DeviceKind.CPU).any():
        return trace
    called = trace.strings_where([*names, *(f"{name}Backward" for name in names)])
    is_called = np.isin(trace.slices.name, called) & trace.is_kind(Kind.OP)
    kinds = np.where(is_called, np.int8(Kind.PYTHON), trace.slices.kind)
    return replace(trace, slices=Columns(**{**vars(trace.slices), "kind": kinds}))


def _python_functions(trace: Trace) -> list[str]:
    """Classes of the program whose functions run Python."""
    samples, text = trace.samples, trace.string
    lines: defaultdict[str, Counter[int]] = defaultdict(Counter)
    elsewhere: Counter[str] = Counter()
    columns = (samples.entry, samples.line, samples.package, samples.count)
    for entry, line, package, count in zip(*(c.tolist() for c in columns), strict=True):
        if entry != NULL and text(entry).startswith(_ENTRY):
            name = text(entry).removeprefix(_ENTRY)
            lines[name][line] += count
            elsewhere[name] += count if text(package) not in {"", "torch"} else 0
    return [name for name in lines if _runs_python(lines[name], elsewhere[name])]


def _runs_python(lines: Counter[int], elsewhere: int) -> bool:
    total = lines.total()
    in_one_line = max(lines.values()) / total
    varied = elsewhere >= _LEAST_ELSEWHERE * total or in_one_line <= _MOST_IN_ONE_LINE
    return total >= _FEWEST_SAMPLES and varied
