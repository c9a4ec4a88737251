"""Write what was observed in a process, in the format of a run directory, version 1.

::

    DIR/run.json                 stepwhy.run/1, by the launcher: command (redacted), exit code
    DIR/process-<pid>/           one per process in which a training loop was seen
        process.json             stepwhy.process/1: framework, version, rank, observer
        steps.jsonl              one JSON object per step, appended in small batches
        events.jsonl             rare events with reasons: a trace, a compilation, a graph change
        levels.jsonl             fill levels of queues and buffers
        loaders.jsonl            configuration of data loaders
        stall.json.gz            where it stood in a step that took much longer than usual
        answer.json              its answer to a request for a window, see `requests`
        stacks.json              where the driving thread, its workers and other threads were
        messages.jsonl           messages for the user: level, slug, text
        windows/<nnn>/           one traced window: window.json and the framework's own files

Files appear complete (written under another name, then renamed), except for logs, which grow by
whole lines, so that flushed lines survive a kill. The recorder never raises: at the first failure
it leaves one message, if it can, and stops for good. It keeps no file open.
"""

from __future__ import annotations

import contextlib
import platform
import time
from pathlib import Path

from stepwhy.record.core import registry
from stepwhy.record.core.clock import clock_set_ns, now_ns
from stepwhy.record.core.masking import masked
from stepwhy.record.core.pacing import WritePace
from stepwhy.record.core.process import lifetime
from stepwhy.record.core.process.folder import append_lines, encode, folder_of, write_json
from stepwhy.record.core.process.ranks import rank_members
from stepwhy.record.core.registry import reason_of
from stepwhy.record.core.requests import Requests
from stepwhy.record.core.settings import SETTING, process_settings, setting_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from stepwhy.record.core.requests import Request

WINDOW_SCHEMA = "stepwhy.window/1"
STOPPED = "the observer stopped"

# Most lines that are pending; see `pacing.WritePace` for how long.
_BATCH_LINES = 512
# A program that traces a function in every step repeats the same events and messages.
_MOST_EVENTS = 2000
_MOST_OF_A_KIND = 3
_MOST_MESSAGES = 100
_LONGEST_NAME = 200
_LONGEST_REASON = 400
# Two clocks that are read one after the other differ by less.
_CLOCK_SET_NS = 1_000_000


class Recorder:
    """Writes the process directory of this process, which appears with the first step.

    Args:
        run_dir: The run directory, absolute.
        framework: 'tensorflow', 'pytorch', ...
        framework_version: Its version.
        observer: Source of the steps: 'tf1-session', 'torch-optimizer', ...

    Attributes:
        alive: False after a failure, or after the end of the observation.
        requests: Requests for windows, looked for when steps are written.
    """

    def __init__(self, run_dir: str, framework: str, framework_version: str, observer: str) -> None:
        self._run_dir = Path(run_dir)
        self._about: dict[str, Any] = {
            "framework": framework,
            "framework_version": framework_version,
            "place": rank_members,
            "observer": observer,
            "python": platform.python_version(),
            "settings": process_settings,
        }
        self.requests = Requests()
        self._start_over()
        lifetime.on_end(self._suspend)
        lifetime.on_flush(self.close)
        lifetime.on_begin(self._start_over)

    def _start_over(self) -> None:
        """Drop all pending lines: a fork inherits those of its parent."""
        self.alive = lifetime.is_active()
        self._run_dir = lifetime.run_dir(self._run_dir)
        self._lines: list[str] = []
        self._events: list[str] = []
        self._levels: list[str] = []
        self._loaders: list[str] = []
        self._event_count = 0
        self._made: set[tuple[str, ...]] = set()
        self._message_counts: dict[str, int] = {}
        self._due_ns = 0
        self._pace = WritePace()
        self._has_end = self._has_settings = False
        self._logged = 0
        self._folder = folder_of(self._run_dir)

    def guard(self, work: Callable[[], None]) -> None:
        """Run part of the observer's work; if it fails, stop observing for good."""
        if not self.alive:
            return
        try:
            work()
        except Exception as error:
            self.stop(error)

    def stop(self, error: BaseException) -> None:
        """Stop observing for good, and leave one message with the reason."""
        self.alive = False
        with contextlib.suppress(OSError):
            self._flush()
        with contextlib.suppress(OSError):
            text = f"{STOPPED}: {reason_of(error)}. The training went on"
            self._write_message("warning", "observer-stopped", text)
        # On a full disk this may be all that can be written.
        registry.report(str(self._run_dir), stopped=reason_of(error), steps=self._logged)

    def _write_message(self, level: str, slug: str, text: str) -> None:
        """Append one message, unless enough of its kind were written."""
        self._message_counts[slug] = self._message_counts.get(slug, 0) + 1
        if (
            self._message_counts[slug] > _MOST_OF_A_KIND
            or len(self._message_counts) > _MOST_MESSAGES
        ):
            return
        self._folder.open(self._about)
        line = encode({"level": level, "slug": slug, "text": text})
        append_lines(self._folder.path / "messages.jsonl", [line])

    def message(self, level: str, slug: str, text: str) -> None:
        """Leave a message for the user; level 'info' or 'warning'.

        At most three messages per slug are kept.
        """
        self.guard(lambda: self._write_message(level, slug, text))

    def window_failed(self, error: BaseException) -> None:
        """Leave a message about a window that could not be traced or written; logging continues."""
        self.message("warning", "window-lost", f"a traced window was lost: {reason_of(error)}")

    def describe(self, **about: int | Callable[[], dict[str, int]]) -> None:
        """Add facts about the process, before its directory appears with the first step.

        A function returns facts, and is called when the directory appears.
        """
        self._about |= about

    def step(self, line: str) -> None:
        """Log one step, a line of JSON; it is written with the next batch."""
        lines = self._lines
        lines.append(line)
        self._logged += 1
        if len(lines) >= _BATCH_LINES or time.monotonic_ns() > self._due_ns:
            self.guard(self._flush)
            if not self.alive:
                lines.clear()

    def steps(self, lines: list[str]) -> None:
        """Log a batch of steps, lines of JSON, and write everything pending."""
        self._lines += lines
        self._logged += len(lines)
        self.guard(self._flush)
        if not self.alive:
            self._lines.clear()

    def loader(self, about: Mapping[str, Any]) -> None:
        """Log the configuration of a data loader; written with the next steps.

        Args:
            about: Members of its line.
        """
        if self.alive and len(self._loaders) < _BATCH_LINES:
            self._loaders.append(encode(about))

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
        """Log a rare event that costs time, with its reason; written with the next steps.

        Args:
            kind: 'trace' (a function was traced), 'compile' (something was compiled), 'graph' (a
                session's graph has grown), 'change' (the step time has changed for good),
                'workers' (a loader started its worker processes), 'epoch' (a loader was asked
                for its first batch of an epoch), 'iterator' (one was made although the previous
                one had batches left), 'save' (a checkpoint was saved), 'polled-save' (a child that
                the program polls has saved one), 'child' (the main thread waited for another one),
                'gc' (Python's garbage collector has paused the process; the `reason` is the
                program's call of it, if it made one), 'profiler' (the training's
                own profiler ran), 'parameters' (the model has parameters of a type), 'copy' (JAX
                was passed a large array of NumPy), 'fsync' (the main thread waited for a disk),
                'session' (a session runs for the first time), 'evaluation' (Keras or a trainer
                of PyTorch evaluated or predicted), 'gradient-use' (see `torch.gradient_use`),
                'gradient-walk', 'unowned-parameters', 'unowned-call' or 'dropped-parameters' (see
                `torch.gradient_walk`), 'batch-line' or 'pair-line' (see `batch_lines`),
                'made' (see `made`; the call is the `reason`),
                'same-arguments', 'batch-arguments' or 'zero-argument' (see `jax.same_arguments`),
                'stable-functions' or 'changing-lines' (see `torch.item_functions`),
                'generator' (see `tf2.generators`),
                'hooks' (see `torch.repeated_hooks`; callbacks of Keras as well), 'setting' (a line
                of the program names a setting, see `settings`), 'independent-calls' (see
                `jax.independent_calls`), or 'batched-branches' (see `jax.batched_branches`).
            name: The framework's name of what was traced or compiled; the loader's name.
            start_ns: When it began.
            end_ns: When it ended.
            reason: Why; '' if unknown.
            source: Line of the program that caused it, 'train.py(41): step'; '' if unknown.
            count: How many: traces of this function so far, ops added to the graph, steps since a
                change that was noticed from outside, workers started, epochs started, iterators
                made, objects freed, elements of parameters, bytes of an array, batches evaluated,
                steps in which arguments were compared.
        """
        self._event_count += 1
        if self._event_count > _MOST_EVENTS or not self.alive:
            return
        optional = {
            "reason": masked(reason)[:_LONGEST_REASON],
            "source": masked(source)[:_LONGEST_NAME],
            "count": count,
        }
        about = {k: v for k, v in optional.items() if v not in ("", None)}
        named = {"name": masked(name)[:_LONGEST_NAME], **about}
        event = {"kind": kind, "start_ns": start_ns, "end_ns": end_ns, **named}
        self._events.append(encode(event))

    def made(self, name: str, call: tuple[str, str]) -> None:
        """Log how the program calls what a fix may change, once for each line.

        Args:
            name: Name of the loader, class of the optimizer, or kind of the call; 'tf.data[1]' for
                the second call of a chain.
            call: Its line, and the call as the program writes it, see `user_call`; of a chain, its
                statement, see `user_chain`; '' if unknown.
        """
        source, text = call
        if text and (name, *call) not in self._made:
            self._made.add((name, *call))
            now = now_ns()
            self.event("made", name=name, start_ns=now, end_ns=now, source=source, reason=text)

    def requested(self, request: Request, steps: int) -> None:
        """Log that a window was requested from outside.

        Args:
            request: The request, which says since when something is different.
            steps: Number of steps so far.
        """
        time_ns, since = now_ns(), max(steps - request.since, 0)
        self.event("change", name="request", start_ns=time_ns, end_ns=time_ns, count=since)

    def write_events(self) -> None:
        """Write the pending events, once the process directory is there; else they stay pending."""
        if self._folder.opened:
            self.guard(self._flush)

    def level(
        self, kind: str, name: str, value: int, capacity: int | None = None, reserve: int = 0
    ) -> None:
        """Log the fill level of a queue or buffer; written with the next steps.

        Args:
            kind: 'tf1-queue', 'tf.data' or 'dataloader'.
            name: Name of the queue or buffer.
            value: Number of elements in it.
            capacity: Maximum number of elements; None if unbounded or unknown.
            reserve: Elements that must remain in it (`min_after_dequeue`).
        """
        if not self.alive or len(self._levels) >= _BATCH_LINES:
            return
        bound = "" if capacity is None else f',"capacity":{capacity}'
        held = f',"reserve":{reserve}' if reserve else ""
        named = encode(name)
        self._levels.append(
            f'{{"kind":"{kind}","time_ns":{now_ns()},"name":{named},"value":{value}{bound}{held}}}'
        )

    def keep(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file into the process directory, replacing an earlier one.

        Args:
            name: Name of the file; compressed if it ends in '.gz'.
            value: Its content.
        """
        self.guard(lambda: self._write_file(name, value))

    def note(self, name: str, value: Mapping[str, Any]) -> None:
        """Like `keep`, from another thread than the driving one; never raises.

        A failure, such as a full disk, does not end the observation.

        Args:
            name: Name of the file.
            value: Its content.
        """
        if self.alive:
            with contextlib.suppress(Exception):
                self._write_file(name, value)

    def _write_file(self, name: str, value: Mapping[str, Any]) -> None:
        self._folder.open(self._about)
        write_json(self._folder.path / name, value)

    def _flush(self) -> None:
        """Write everything pending."""
        if self._lines and not self._has_settings:
            self._has_settings = True
            with contextlib.suppress(Exception):
                for name, line in setting_lines():
                    now = now_ns()
                    self.event(SETTING, name=name, start_ns=now, end_ns=now, source=line)
        self._due_ns = self._pace.next_ns(time.monotonic_ns())
        pending = {
            "steps": self._lines,
            "events": self._events,
            "levels": self._levels,
            "loaders": self._loaders,
        }
        self._lines, self._events, self._levels, self._loaders = [], [], [], []
        for name, lines in pending.items():
            if lines:
                self._has_end = False
                self._folder.open(self._about)
                self._folder.append(name, lines)
        if pending["steps"]:
            self.requests.look(self._folder.path)

    def close(self) -> None:
        """Write everything pending."""
        self.guard(self._end)

    def _suspend(self) -> None:
        """End the observation: write everything pending, and accept nothing more."""
        self.close()
        self.alive = False

    def _end(self) -> None:
        """Write everything pending, and record that nothing is missing."""
        if self._lines or self._folder.opened:
            self._flush()
            if not self._has_end:
                self._folder.end(now_ns())
                self._has_end = True

    def scratch(self) -> Path:
        """A folder for the files of a running profiler; removed when the run ends.

        Raises:
            OSError: It cannot be made.
        """
        self._folder.open(self._about)
        folder = self._folder.path / "windows" / f".{self._folder.windows:03d}.profile"
        folder.mkdir(exist_ok=True)
        return folder

    def window(self, about: Mapping[str, Any], fill: Callable[[Path], None]) -> Path:
        """Add a traced window, which appears once `fill` has written its files.

        Args:
            about: Members of `window.json` beside its schema.
            fill: Writes the framework's own files into the given folder.

        Returns:
            The window's directory.

        Raises:
            OSError: It cannot be written. Exceptions from `fill` pass through, too.
        """
        self._flush()
        self._folder.open(self._about)
        return self._folder.add_window(lambda: {"schema": WINDOW_SCHEMA, **about, **_clock()}, fill)


def _clock() -> dict[str, int]:
    """By how much the clock that profilers use was set; empty if it was not."""
    set_ns = clock_set_ns()
    return {"clock_set_ns": set_ns} if abs(set_ns) > _CLOCK_SET_NS else {}


__all__ = ["Recorder", "append_lines", "write_json"]
