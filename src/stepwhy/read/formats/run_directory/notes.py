"""What is missing in an observed run: sentences for the person."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base.units import format_ns
from stepwhy.read.formats.run_directory.ending import ending_of, stopped_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.read.formats.run_directory.files import Message, ProcessFile, RunFile
    from stepwhy.read.formats.run_directory.log_files import Gap
    from stepwhy.read.inputs.folders import RunFolder
    from stepwhy.trace import Trace

_SIGNAL_BASE = 128
_STOPPED = "observer-stopped"
# A process of that number that has logged nothing for so long may be another one by now.
_FRESH_S = 600
# A log is written at least twice a second of steps; what follows is more than a late batch.
_BREAK_NS = 2_000_000_000
_LAST_STEPS = "Steps of the last half second may be missing."


def notes_of(  # noqa: PLR0917 - one process
    folder: RunFolder,
    run: RunFile,
    process: ProcessFile,
    messages: Sequence[Message],
    log: Trace,
    untimed: int = 0,
) -> Iterator[str]:
    """What the person should know before the numbers are read.

    Args:
        folder: The folder of the process.
        run: `run.json`.
        process: `process.json`.
        messages: Messages of the observer.
        log: Its steps and samples, as a trace.
        untimed: Number of steps beyond those in the log.
    """
    ending = ending_of(run, process, log, untimed).sentence
    if ending:
        yield ending
    word = stopped_note(run, process, log)
    shown = [m for m in messages if m.level != "info" and not (word and m.slug == _STOPPED)]
    yield from (m.text for m in shown)
    if run.exit_code is None:
        yield _unfinished(folder, process)
        return
    if word:
        yield word
        return
    stopped = any(m.slug == _STOPPED for m in messages)
    if process.ended_ns is None and run.exit_code < _SIGNAL_BASE and not stopped:
        yield from _broken_off(run, log)


def gap_notes(gaps: Sequence[Gap], torn: int) -> Iterator[str]:
    """What of the step log is missing.

    Args:
        gaps: Where lines were dropped.
        torn: How many lines cannot be read.
    """
    for gap in gaps:
        yield (
            f"Lines {gap.first + 1:,} to {gap.last + 1:,} of the step log are not there: a log of "
            "a long run keeps its beginning and its end. Medians are those of the steps that are."
        )
    if torn == 1:
        yield (
            "The step log ends in the middle of a line: the process was killed, or the disk full."
        )
    elif torn:
        yield f"The step log is damaged: {torn:,} of its lines cannot be read and were left out."


def _unfinished(folder: RunFolder, process: ProcessFile) -> str:
    """About a run without a recorded end."""
    if process.pid is not None and _goes_on(folder, process.pid):
        return "The run is still going: this explains the steps so far."
    return (
        "The run has no recorded end: it was killed together with stepwhy, or it is still going "
        f"elsewhere. {_LAST_STEPS}"
    )


def _goes_on(folder: RunFolder, pid: int) -> bool:
    """Whether the process runs here and has logged something lately."""
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    if _is_zombie(pid):
        return False
    logs = (folder.path / name for name in folder.names("*.jsonl"))
    written = max(map(_modified, logs), default=0.0)
    return time.time() - written < _FRESH_S


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended and its parent has not asked how, as in a container without init.

    Source: proc(5), ``/proc/<pid>/stat``: the state follows the name in parentheses.
    """
    try:
        about = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return about.rpartition(b")")[2].split()[:1] == [b"Z"]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _broken_off(run: RunFile, log: Trace) -> Iterator[str]:
    """About a log that ends although its process went on."""
    if run.ended_ns is None or not len(log.marks):
        return
    last_ns = int((log.marks.start_ns + log.marks.dur_ns).max())
    silent_ns = run.ended_ns - last_ns
    if silent_ns > _BREAK_NS:
        yield (
            f"The step log breaks off {format_ns(silent_ns)} before the run ended. Its process was "
            "killed, left without Python's clean-up, or could not write (a full disk)."
        )
