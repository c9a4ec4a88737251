"""MegaScan's own files: one rank, ranges as begin and end with times from the iteration's begin.

Iterations follow each other on the clock of the rank: one lasts `duration_wall`, and `pad_before`
lies between two.

Source: MegatronApp, `megatron/training/trace.py`; the clock is that of `scripts/aggregate.py`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.errors import CorruptInputError
from stepwhy.importers.chrome_json import LARGEST_NS
from stepwhy.importers.chrome_json.text import valid_text
from stepwhy.importers.megascan.ranges import (
    Iteration,
    Range,
    add_gaps,
    add_iterations,
    add_ranges,
    gpu_name,
)
from stepwhy.importers.megascan.run import meta_of_rank
from stepwhy.patterns import regex
from stepwhy.trace import NULL, DeviceKind, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.importers.source import Source
    from stepwhy.trace import Health, Trace

_FIRST = regex(rb'\{[^{}]*"name"\s*:\s*"iteration"[^{}]*"pad_before"[^{}]*\}')
# Records hold no objects, so that those of a torn file can be told one by one.
_RECORD = regex(r"\{[^{}]*\}")
_Time = Any


class Event(msgspec.Struct, gc=False):
    """One record; `pp_rank` stands in old files, `pp_rk` and `g_rk` in newer ones."""

    name: str = ""
    ph: str = ""
    rel_ts: _Time = None
    pad_before: _Time = None
    duration_wall: _Time = None
    model_chunk: Any = None
    pp_rank: Any = None
    pp_rk: Any = None
    g_rk: Any = None
    dev: Any = None


def recognise(head: bytes) -> bool:
    """Whether a file begins with an iteration as MegaScan writes it."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text[:1] == b"[" and b'"rel_ts"' in text and _FIRST.search(text) is not None


def read(source: Source) -> Trace:
    """Read the file of one rank.

    Raises:
        CorruptInputError: It holds not a single whole range.
    """
    builder = TraceBuilder()
    events, complete = _events(source, builder.health)
    run = _Run(builder.health)
    for event in events:
        run.add(event)
    run.finish()
    if not run.ranges:
        raise CorruptInputError(
            f"{source.origin} is a MegaScan trace without a single whole range",
            "Copy the file again, or trace again with Megatron-LM's --trace",
        )
    return _build(builder, run, complete=complete)


def _build(builder: TraceBuilder, run: _Run, *, complete: bool) -> Trace:
    rank = max(run.rank, 0)
    ranges = [r._replace(rank=rank, stage=run.stage) for r in run.ranges]
    iterations = [i._replace(rank=rank) for i in run.iterations]
    devices = {rank: builder.device(gpu_name(run.device), DeviceKind.GPU)}
    add_ranges(builder, ranges, devices)
    add_iterations(builder, iterations)
    add_gaps(builder, ranges, iterations, devices)
    return builder.finish(meta_of_rank(run.rank, ranges, complete=complete))


def _events(source: Source, health: Health) -> tuple[list[Event], bool]:
    """The records that could be read, and whether the file is whole."""
    data = source.data.removeprefix(b"\xef\xbb\xbf")
    try:
        events, complete = msgspec.json.decode(data, type=list[Event]), True
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        events, complete = _forgiving(valid_text(data, health)[:].decode(), health)
    health.events_read += len(events)
    return events, complete


def _forgiving(text: str, health: Health) -> tuple[list[Event], bool]:
    """Record by record: a value may be NaN or of another type, and the file may end early."""
    events, malformed = [], 0
    for match in _RECORD.finditer(text):
        try:
            events.append(msgspec.convert(json.loads(match[0], strict=False), Event))
        except (ValueError, RecursionError, msgspec.ValidationError):
            malformed += 1
    complete = text.rstrip().endswith("]")
    health.events_read += malformed
    health.count(
        "malformed-record",
        "warning",
        "Records whose fields have the wrong type were left out.",
        count=malformed,
        dropped=True,
    )
    if not complete:
        health.count(
            "json-truncated",
            "error",
            "The file ends before its list of events does: later iterations are missing. Copy it "
            "again.",
            dropped=False,
        )
    return events, complete


class _Run:
    """Pairs begins and ends, and lays the iterations one after the other; times in ns."""

    def __init__(self, health: Health) -> None:
        self.ranges: list[Range] = []
        self.iterations: list[Iteration] = []
        self.rank = self.stage = self.device = NULL
        self._health = health
        self._base: int | None = None
        self._cursor = 0
        self._open: dict[str, list[int | None]] = defaultdict(list)

    def add(self, event: Event) -> None:
        """Take the next record of the file, or count why it is left out."""
        self._note_rank(event)
        if event.name == "iteration" and event.ph in {"B", "E"}:
            (self._begin if event.ph == "B" else self._end)(event)
        elif self._base is None:
            self._drop("outside-iteration", "info", "Ranges of an evaluation, in no iteration.")
        elif event.ph == "B":
            self._open[event.name].append(_whole(event.rel_ts))
        elif event.ph == "E":
            self._close(event, self._base)
        else:
            self._drop("instant-mark", "info", "Marks without a duration.")

    def finish(self) -> None:
        """Count what never ended."""
        self._abandon()
        if self._base is not None:
            self._unended(1)

    def _begin(self, event: Event) -> None:
        self._abandon()
        if self._base is not None:
            self._unended(1)
        self._base = self._cursor + (_whole(event.pad_before) or 0)

    def _end(self, event: Event) -> None:
        if self._base is None:
            self._drop("end-without-begin", "warning", "Ends whose begin is missing.")
            return
        self._abandon()
        base, self._base = self._base, None
        length = _whole(event.duration_wall)
        length = _whole(event.rel_ts) if length is None else length
        if length is None:
            self._drop("unusable-time", "warning", _UNTIMED, count=2)
            self._cursor = max([base, *(r.end_ns for r in self.ranges[-1:])])
            return
        number = len(self.iterations)
        self._cursor = base + length
        self.iterations.append(Iteration(NULL, number, base, self._cursor, NULL))
        self._health.events_kept += 2

    def _close(self, event: Event, base: int) -> None:
        begins = self._open[event.name]
        if not begins:
            self._drop("end-without-begin", "warning", "Ends whose begin is missing.")
            return
        begin, end = begins.pop(0), _whole(event.rel_ts)
        if begin is None or end is None or end < begin:
            self._drop("unusable-time", "warning", _UNTIMED, count=2)
            return
        number, chunk = len(self.iterations), _number(event.model_chunk)
        self.ranges.append(
            Range(NULL, 0, event.name, base + begin, base + end, number, chunk=chunk)
        )
        self._health.events_kept += 2

    def _abandon(self) -> None:
        self._unended(sum(map(len, self._open.values())))
        self._open.clear()

    def _unended(self, count: int) -> None:
        self._drop("begin-without-end", "warning", "Begins whose end is missing.", count=count)

    def _drop(self, counter: str, severity: Any, text: str, *, count: int = 1) -> None:
        self._health.count(counter, severity, text, count=count, dropped=True)

    def _note_rank(self, event: Event) -> None:
        """The rank of the whole job, where it is told; else the pipeline stage."""
        stage = _number(event.pp_rk if event.pp_rk is not None else event.pp_rank)
        if stage != NULL:
            self.stage = stage
        told = _number(event.g_rk)
        if told != NULL:
            self.rank = told
        elif self.rank == NULL:
            self.rank = stage
        if _number(event.dev) != NULL:
            self.device = _number(event.dev)


_UNTIMED = "Ranges without a time, or with a negative or absurd one, were left out."


def _whole(value: _Time) -> int | None:
    """A time in ns; None for anything but a whole number that is not negative or absurd."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < LARGEST_NS else None


def _number(value: Any) -> int:
    is_id = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
    return int(value) if is_id else NULL
