"""The traced windows of an observed process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.base.errors import InputError
from stepwhy.base.units import format_ns
from stepwhy.read.formats.run_directory.files import WindowFile, read_record
from stepwhy.read.formats.run_directory.session_windows import RunWindow
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.shared.missing_kernels import count_missing_kernels
from stepwhy.trace import Kind
from stepwhy.trace.health import KERNELS_MISSING

if TYPE_CHECKING:
    from stepwhy.read.format import ReadTrace
    from stepwhy.read.inputs.folders import RunFolder
    from stepwhy.trace import Trace

# The log and the profiler read one clock, a moment apart.
_CLOCKS_AGREE_NS = 1_000_000
_DRAFTS = ".[0-9]*"
_UNFINISHED = (
    "A traced window was left unfinished and is ignored: the training was killed while the window "
    "was traced or written, or it is still being traced."
)
_WITHOUT_KERNELS = (
    "A traced window was left out because the profiler recorded no kernel of the device in it."
)
_TRACE_NAMES = ("run_metadata.pb", "trace.json.gz", "trace.json", "*.xplane.pb")


class Windows(msgspec.Struct):
    """What was traced of one process.

    Args:
        traces: Stretches of steps.
        runs: Single runs of sessions.
        format: Name of the format of the first; '' without any.
        notes: What the person should know.
        unfinished: Whether a window was begun and never finished.
    """

    traces: list[Trace] = msgspec.field(default_factory=list)
    runs: list[RunWindow] = msgspec.field(default_factory=list)
    format: str = ""
    notes: list[str] = msgspec.field(default_factory=list)
    unfinished: bool = False


def read_windows(folder: RunFolder, read_trace: ReadTrace) -> Windows:
    """Read the windows of a process; one that cannot be read is noted, not fatal.

    Args:
        folder: The folder of the process.
        read_trace: Reads the trace in a window.
    """
    windows = Windows()
    inside = folder.inside("windows")
    # A window may have a draft ('.000', '.000.profile') and never have been finished ('000').
    drafts = {name[1:].partition(".")[0] for name in inside.names(_DRAFTS)}
    if not drafts <= set(inside.names("[0-9]*")):
        windows.unfinished = True
        windows.notes.append(_UNFINISHED)
    for window in inside.folders("[0-9]*"):
        try:
            _add(windows, window, read_trace)
        except InputError as error:
            windows.notes.append(f"A traced window could not be read: {error}")
    # Leave out windows without kernels beside others, where their device would seem idle.
    kept = [t for t in windows.traces if not t.health.has(KERNELS_MISSING)]
    if kept and len(kept) < len(windows.traces):
        windows.notes += [_WITHOUT_KERNELS] * (len(windows.traces) - len(kept))
        windows.traces = kept
    return windows


def _add(windows: Windows, folder: RunFolder, read_trace: ReadTrace) -> None:
    """Read one window; a folder without a trace is none."""
    file = next((f for name in _TRACE_NAMES for f in folder.names(name)), None)
    if file is None:
        return
    trace, format_name = read_trace(read_source(folder.path / file, folder.root))
    windows.format = windows.format or format_name
    about = read_record(folder, "window.json", WindowFile)
    if about is not None:
        _follow_the_log(trace, about, windows.notes)
        _fit_steps(trace, about)
        if about.ran_ahead:
            meta = replace(trace.meta, signals=trace.meta.signals | {"host-ahead"})
            trace = replace(trace, meta=meta)
        if about.kernels_missing and not trace.health.has(KERNELS_MISSING):
            count_missing_kernels(trace.health)
            meta = replace(trace.meta, device_expected=True, idle_accelerator="")
            trace = replace(trace, meta=meta)
    if about is not None and about.kind == "tf1-run":
        windows.runs.append(RunWindow(trace, about.start_ns, about.end_ns))
    else:
        windows.traces.append(trace)


def _follow_the_log(trace: Trace, about: WindowFile, notes: list[str]) -> None:
    """Move a trace back by what the machine's clock was set since the process started.

    Profilers stamp by that clock, the log by one that cannot be set.
    """
    set_ns = about.clock_set_ns
    if abs(set_ns) <= _CLOCKS_AGREE_NS:
        return
    for columns, name in ((trace.slices, "start_ns"), (trace.counters, "time_ns")):
        setattr(columns, name, getattr(columns, name) - set_ns)
    way = "forward" if set_ns > 0 else "back"
    notes.append(
        f"The machine's clock was set {way} by {format_ns(abs(set_ns))} while the training ran; "
        "the traced window was moved by as much."
    )


def _fit_steps(trace: Trace, window: WindowFile) -> None:
    """Let the marks of steps be those of the window.

    A script that ends inside a window leaves the mark of a step that never finished. Before the
    window, there are marks of the warm-up, of steps that led up to a wait for the device, and
    those that the training sets itself. The latter may leave out a part of each step, which then
    ends where the next one begins. The last mark may end with the process, although the device had
    finished before.
    """
    slices = trace.slices
    steps = slices.kind == Kind.STEP
    if window.drained:
        last = steps & (slices.start_ns < window.end_ns)
        longest = np.where(last, window.end_ns - slices.start_ns, slices.dur_ns)
        slices.dur_ns = np.minimum(slices.dur_ns, longest)
    ends = slices.start_ns + slices.dur_ns
    inside = ends <= window.end_ns + _CLOCKS_AGREE_NS
    if window.ran_ahead or window.annotated or window.kind == "torch-profiler":
        inside &= slices.start_ns + slices.dur_ns // 2 >= window.start_ns
    # The columns may be read-only.
    slices.kind = np.where(steps & ~inside, np.int8(Kind.ANNOTATION), slices.kind)
    if window.annotated:
        rows = np.flatnonzero(steps & inside)
        starts = slices.start_ns[rows]
        slices.dur_ns = slices.dur_ns.copy()
        slices.dur_ns[rows] = np.maximum(np.diff(starts, append=window.end_ns), slices.dur_ns[rows])
