"""Writing what was seen: the run directory, version 1.

::

    DIR/run.json                 stepwhy.run/1, by the launcher: command (redacted), exit code
    DIR/process-<pid>/           one per process in which a training loop was seen
        process.json             stepwhy.process/1: framework, version, rank, observer
        steps.jsonl              one JSON object per step, appended in small batches
        events.jsonl             rare things and why: a trace, a compilation, a graph change
        levels.jsonl             fill levels of queues and buffers
        stacks.json              where the driving thread was, sampled for two seconds
        messages.jsonl           what the observer has to say: level, slug, text
        windows/<nnn>/           one traced stretch: window.json and the framework's own files

Files appear complete (written under another name, then renamed), except the logs, which grow
by whole lines: what was flushed survives a kill. The recorder never raises: at the first failure
it says so once, if it still can, and steps aside for good.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import shutil
import time
from pathlib import Path

from stepwhy.capture.clock import now_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

PROCESS_SCHEMA = "stepwhy.process/1"
WINDOW_SCHEMA = "stepwhy.window/1"

# A kill loses at most this many steps, and at most the steps of this time.
_BATCH_LINES = 64
_BATCH_S = 0.5
# A program that traces anew in every step says the same thing again and again.
_MOST_EVENTS = 2000
_LONGEST_REASON = 400


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that appears complete or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(data)
    draft.replace(path)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one JSON object as a whole file."""
    write_whole(path, json.dumps(value, ensure_ascii=False).encode() + b"\n")


def append_lines(path: Path, lines: list[str]) -> None:
    """Append whole lines in one write."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, ("\n".join(lines) + "\n").encode())
    finally:
        os.close(handle)


def _integer(name: str) -> int | None:
    """An integer from the environment, as launchers of ranks set them."""
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None


class Recorder:
    """The process directory of this process; it appears with the first step.

    Args:
        run_dir: The run directory, absolute.
        framework: 'tensorflow' or 'pytorch'.
        framework_version: Its version.
        observer: What sees the steps: 'tf1-session' or 'torch-optimizer'.

    Attributes:
        alive: False once a failure has made the recorder step aside.
    """

    def __init__(self, run_dir: str, framework: str, framework_version: str, observer: str) -> None:
        self.alive = True
        self._run_dir = Path(run_dir)
        self._about = {
            "framework": framework,
            "framework_version": framework_version,
            "rank": _integer("RANK"),
            "world_size": _integer("WORLD_SIZE"),
            "observer": observer,
            "python": platform.python_version(),
        }
        self._start_over()
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._start_over)

    def _start_over(self) -> None:
        """Begin as a process that has seen nothing: a fork inherits its parent's lines."""
        self._pid = os.getpid()
        self._dir = self._run_dir / f"process-{self._pid}"
        self._lines: list[str] = []
        self._events: list[str] = []
        self._levels: list[str] = []
        self._told_events = 0
        self._flushed_s = time.monotonic()
        self._windows = 0
        self._opened = False

    def _open(self) -> None:
        """Make the process directory; the run directory itself must still be there."""
        self._dir.mkdir(exist_ok=True)
        (self._dir / "windows").mkdir(exist_ok=True)
        write_json(
            self._dir / "process.json", {"schema": PROCESS_SCHEMA, "pid": self._pid, **self._about}
        )
        self._opened = True

    def guard(self, work: Callable[[], None]) -> None:
        """Do a piece of the observer's work; when it fails, step aside."""
        if not self.alive:
            return
        try:
            work()
        except Exception as error:
            self.step_aside(error)

    def step_aside(self, error: BaseException) -> None:
        """Stop observing for good and leave one message about the reason."""
        self.alive = False
        text = f"the observer stopped after an internal failure: {type(error).__name__}"
        try:
            if self._lines:
                self._flush()
            self._say("warning", "observer-stopped", f"{text} in {_last_function(error)}")
        except OSError:
            pass

    def _say(self, level: str, slug: str, text: str) -> None:
        """Append one message."""
        if not self._opened:
            self._open()
        line = json.dumps({"level": level, "slug": slug, "text": text}, ensure_ascii=False)
        append_lines(self._dir / "messages.jsonl", [line])

    def message(self, level: str, slug: str, text: str) -> None:
        """Leave a message for the person; level 'info' or 'warning'."""
        self.guard(lambda: self._say(level, slug, text))

    def window_failed(self, error: BaseException) -> None:
        """Leave a message about a window that could not be traced or written; steps go on."""
        self.message(
            "warning",
            "window-lost",
            f"a traced window was lost: {type(error).__name__} in {_last_function(error)}",
        )

    def step(self, line: str) -> None:
        """Log one step, given as a line of JSON; it is written with the next batch."""
        self._lines.append(line)
        late = time.monotonic() - self._flushed_s > _BATCH_S
        if late or len(self._lines) >= _BATCH_LINES or not self._opened:
            self.guard(self._flush)

    def event(
        self,
        kind: str,
        *,
        name: str,
        start_ns: int,
        end_ns: int,
        reason: str = "",
        source: str = "",
        count: int | None = None,
    ) -> None:
        """Log something rare that costs time, with its reason; written with the next steps.

        Args:
            kind: 'trace' (a function was traced), 'compile' (something was compiled), 'graph' (a
                session's graph has grown) or 'change' (the step time has changed for good).
            name: What was traced or compiled, in the framework's words.
            start_ns: When it began.
            end_ns: When it ended.
            reason: Why, in the framework's words; '' where it does not say.
            source: Line of the program that caused it, 'train.py(41): step'; '' when unknown.
            count: How many: traces of this function so far, ops added to the graph.
        """
        self._told_events += 1
        if self._told_events > _MOST_EVENTS or not self.alive:
            return
        said = {"reason": reason[:_LONGEST_REASON], "source": source, "count": count}
        about = {k: v for k, v in said.items() if v not in ("", None)}
        event = {"kind": kind, "start_ns": start_ns, "end_ns": end_ns, "name": name, **about}
        self._events.append(json.dumps(event, ensure_ascii=False, separators=(",", ":")))

    def level(
        self, kind: str, name: str, value: int, capacity: int | None = None, reserve: int = 0
    ) -> None:
        """Log how full a queue or buffer is; written with the next steps.

        Args:
            kind: 'tf1-queue', 'tf.data' or 'dataloader'.
            name: Of the queue or buffer.
            value: Elements in it.
            capacity: How many it holds; None when it has no bound, or none that is known.
            reserve: How many of them cannot be taken out (`min_after_dequeue`).
        """
        bound = "" if capacity is None else f',"capacity":{capacity}'
        held = f',"reserve":{reserve}' if reserve else ""
        self._levels.append(
            f'{{"kind":"{kind}","time_ns":{now_ns()},"name":{json.dumps(name)},"value":{value}'
            f"{bound}{held}}}"
        )

    def _flush(self) -> None:
        """Write what waits."""
        if not self._opened:
            self._open()
        self._flushed_s = time.monotonic()
        waiting = {"steps": self._lines, "events": self._events, "levels": self._levels}
        self._lines, self._events, self._levels = [], [], []
        for name, lines in waiting.items():
            if lines:
                append_lines(self._dir / f"{name}.jsonl", lines)

    def close(self) -> None:
        """Write what waits; the process ends."""
        if self._lines:
            self.guard(self._flush)

    def window(self, about: Mapping[str, Any], fill: Callable[[Path], None]) -> Path:
        """Add a traced window; it appears once `fill` has put its files into the given folder.

        Args:
            about: What `window.json` says beside its schema.
            fill: Writes the framework's own files.

        Returns:
            The window's directory.

        Raises:
            OSError: When it cannot be written. What `fill` raises passes through, too.
        """
        if not self._opened:
            self._open()
        final = self._dir / "windows" / f"{self._windows:03d}"
        draft = final.with_name(f".{final.name}")
        try:
            draft.mkdir()
            fill(draft)
            write_json(draft / "window.json", {"schema": WINDOW_SCHEMA, **about})
            draft.rename(final)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        self._windows += 1
        return final


def _last_function(error: BaseException) -> str:
    """Where the failure happened, without a path: 'module.function'."""
    trace, place = error.__traceback__, "unknown"
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{Path(code.co_filename).stem}.{code.co_name}"
        trace = trace.tb_next
    return place
