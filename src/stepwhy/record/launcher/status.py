"""Show the progress of the run in the terminal's title.

The training owns every line of its terminal. A title never scrolls, and leaves no trace in logs. It
is written to terminals only.

Source: "Xterm Control Sequences", OSC 0 (title), CSI 22/23 t (keep and restore it).
"""

from __future__ import annotations

import json
import os
import sys
import threading

from stepwhy.base.regular_files import open_regular
from stepwhy.base.text import visible
from stepwhy.base.units import format_fraction, format_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any, Self, TextIO

_INTERVAL_S = 2.0
# Only the end of the log is read, so that the cost does not grow with the run.
_TAIL_BYTES = 16_384
_KEEP, _RESTORE = "\x1b[22;0t", "\x1b[23;0t"


class Status:
    """Shows the progress of the training in the title until it is stopped.

    Args:
        run_dir: The run directory.
        terminal: Output stream; ignored unless it is a terminal.
    """

    def __init__(self, run_dir: Path, terminal: TextIO | None = None) -> None:
        self._run_dir = run_dir
        self._terminal: TextIO | None = terminal if terminal is not None else sys.stderr
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="stepwhy-status", daemon=True)
        self._shown = False

    def __enter__(self) -> Self:
        if self._is_terminal() and os.environ.get("TERM", "dumb") != "dumb":
            self._thread.start()
        return self

    def _is_terminal(self) -> bool:
        """Whether there is a terminal; in Python a closed standard error is None."""
        try:
            return self._terminal is not None and self._terminal.isatty()
        except (OSError, ValueError):
            return False

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1)
        if self._shown:
            self._write(_RESTORE)

    def _loop(self) -> None:
        while not self._stopped.wait(_INTERVAL_S):
            text = summary(self._run_dir)
            if text:
                self._write(("" if self._shown else _KEEP) + f"\x1b]0;stepwhy: {visible(text)}\x07")
                self._shown = True

    def _write(self, text: str) -> None:
        try:
            if self._terminal is not None:
                self._terminal.write(text)
                self._terminal.flush()
        except (OSError, ValueError):
            self._stopped.set()  # the terminal is gone


def summary(run_dir: Path) -> str:
    """The run in a few words: 'step 120 · 84.2 ms · 40 % input'; '' before the first step.

    Args:
        run_dir: The run directory.
    """
    logs = sorted(run_dir.glob("process-*/steps.jsonl"), key=_modified)
    if not logs:
        return ""
    steps = list(_last_steps(logs[-1]))
    if not steps:
        return ""
    walls = sorted(step["end_ns"] - step["start_ns"] for step in steps)
    words = [f"step {_count(logs[-1])}", format_ns(walls[len(walls) // 2])]
    waits = [step["input_wait_ns"] for step in steps if _is_time(step.get("input_wait_ns"))]
    if len(waits) == len(steps) and sum(walls):
        words.append(f"{format_fraction(sum(waits) / sum(walls))} input")
    return " · ".join(words)


def _is_time(value: object) -> bool:
    """Whether a logged value is a time or duration in ns; the file may contain anything."""
    return isinstance(value, int) and 0 <= value < 1 << 63


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _last_steps(path: Path) -> Iterator[dict[str, Any]]:
    """The complete lines at the end of a log."""
    try:
        with os.fdopen(open_regular(path), "rb") as log:
            start = max(path.stat().st_size - _TAIL_BYTES, 0)
            log.seek(start)
            lines = log.read(_TAIL_BYTES).split(b"\n")
    except OSError:
        return
    for line in lines[1 if start else 0 : -1]:
        try:
            step = json.loads(line)
            if _is_time(step["start_ns"]) and _is_time(step["end_ns"] - step["start_ns"]):
                yield step
        except (ValueError, KeyError, TypeError):
            continue


def _count(path: Path) -> int:
    """Number of lines of a log, estimated from its size and the length of its first line.

    The name of the newest full file has the number of lines before it.
    """
    full = max(path.parent.glob("steps-*.jsonl"), default=None)
    before = 0
    if full is not None:
        first = full.stem.removeprefix("steps-")
        before = (int(first) if first.isdecimal() else 0) + _estimate(full)
    return before + _estimate(path)


def _estimate(path: Path) -> int:
    """Estimated number of lines of one file."""
    try:
        with os.fdopen(open_regular(path), "rb") as log:
            first = len(log.readline(_TAIL_BYTES))
        return round(path.stat().st_size / first) if first else 0
    except OSError:
        return 0
