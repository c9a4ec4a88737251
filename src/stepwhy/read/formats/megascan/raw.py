"""Reads MegaScan's own files: one rank, with begins and ends relative to their iteration.

Iterations follow each other on the clock of the rank: each lasts `duration_wall`, and `pad_before`
is the time before it.

Source: MegatronApp, `megatron/training/trace.py`; the clock is that of `scripts/aggregate.py`.
"""

from __future__ import annotations

import json
from array import array
from collections import defaultdict, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.errors import CorruptInputError
from stepwhy.base.patterns import regex
from stepwhy.read.formats.megascan.iterations import Iteration, add_gaps, add_iterations
from stepwhy.read.formats.megascan.ranges import Ranges, add_ranges, gpu_name
from stepwhy.read.formats.megascan.run import meta_of_rank
from stepwhy.read.inputs.source import let_go
from stepwhy.read.shared.chrome_json import LARGEST_NS, Codes
from stepwhy.read.shared.chrome_json.cuts import cuts
from stepwhy.read.shared.chrome_json.text import valid_text
from stepwhy.read.shared.several_files import count_further, count_text_after
from stepwhy.trace import NULL, DeviceKind, Health, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

_FIRST = regex(rb'\{[^{}]*"name"\s*:\s*"iteration"[^{}]*"pad_before"[^{}]*\}')
# Records contain no objects, so that those of a damaged file can be found one by one.
_RECORD = regex(r"\{[^{}]*\}")
_END = regex(r"(?:\}|null)[\s,]*\]")
_Time = Any


class Event(msgspec.Struct, gc=False):
    """One record; old files have `pp_rank`, newer ones `pp_rk` and `g_rk`."""

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
    """Whether a file begins with an iteration in the format of MegaScan."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text[:1] == b"[" and b'"rel_ts"' in text and _FIRST.search(text) is not None


def read(source: Source) -> Trace:
    """Read the file of one rank.

    Raises:
        CorruptInputError: It contains no complete range.
    """
    run = _read(source)
    if not len(run.ranges):
        raise CorruptInputError(
            f"{source.origin} is a MegaScan trace without a single whole range",
            "Copy the file again, or trace again with Megatron-LM's --trace",
        )
    return _build(run)


def _build(run: _Run) -> Trace:
    builder = TraceBuilder(run.health)
    rank = max(run.rank, 0)
    ranges = run.ranges.finish(rank, run.stage)
    run.ranges = _RangeColumns()
    iterations = [i._replace(rank=rank) for i in run.iterations]
    devices = {rank: builder.device(gpu_name(run.device), DeviceKind.GPU)}
    add_ranges(builder, ranges, devices)
    add_iterations(builder, iterations)
    add_gaps(builder, ranges, iterations, devices)
    meta = meta_of_rank(run.rank, ranges, complete=run.complete)
    del ranges  # the builder has its own columns, and needs the memory
    return builder.finish(meta)


def _read(source: Source) -> _Run:
    """Read a file; record by record if it is damaged."""
    run = _Run(Health())
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        for events in _chunks(source):
            run.add_all(events)
        run.finish()
        return run
    run = _Run(Health())
    _read_damaged(valid_text(source.data, run.health)[:].decode(), run)
    run.finish()
    return run


def _chunks(source: Source) -> Iterator[list[Event]]:
    """The records of an undamaged file, in chunks.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError, RecursionError: The file is damaged.
    """
    data = source.mapped
    decode = msgspec.json.Decoder(list[Event]).decode
    position = data.find(b"[") + 1
    if data[:position].removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n") != b"[":
        raise msgspec.DecodeError
    while (cut := next(cuts(data, position, len(data)), None)) is not None:
        yield decode(b"[" + data[position : cut.end] + b"]")
        let_go(data, position, cut.begin)
        position = cut.begin
    yield decode(b"[" + data[position:])


def _read_damaged(text: str, run: _Run) -> None:
    """Read record by record: a value may be NaN or of another type, and the file may end early."""
    malformed = records = 0
    text, is_whole = _first_list(text, run.health)
    for match in _RECORD.finditer(text):
        records += 1
        try:
            event = msgspec.convert(json.loads(match[0], strict=False), Event)
        except (ValueError, RecursionError, msgspec.ValidationError):
            malformed += 1
        else:
            run.add_all([event])
    run.complete = is_whole
    broken = text.count("{") - records
    run.health.events_read += malformed + broken
    run.health.count(
        "unreadable-record",
        "error",
        "Damaged records were left out, and whatever they covered is missing.",
        count=broken,
        dropped=True,
    )
    run.health.count(
        "malformed-record",
        "warning",
        "Records whose fields have the wrong type were left out.",
        count=malformed,
        dropped=True,
    )
    if not run.complete:
        run.health.count(
            "json-truncated",
            "error",
            "The file ends before its list of events does: later iterations are missing. Copy it "
            "again.",
            dropped=False,
        )


def _first_list(text: str, health: Health) -> tuple[str, bool]:
    """The first list of a text, and whether it is closed; what follows it is counted.

    Records hold no lists, so that the bracket after a record closes that of the records.
    """
    end = _END.search(text)
    if end is None:
        return text, False
    rest = text[end.end() :].strip(" \t\r\n,\x00\x1e")
    if rest:
        (count_further if rest[:1] == "[" else count_text_after)(health, len(rest.encode()))
    return text[: end.end()], True


class _RangeColumns:
    """Collects the ranges of one rank."""

    def __init__(self) -> None:
        self._names = Codes()
        self._name, self._iteration, self._chunk = array("i"), array("i"), array("i")
        self._start_ns, self._end_ns = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._name)

    def add(self, name: str, start_ns: int, end_ns: int, iteration: int, chunk: int) -> None:
        """Append a range."""
        self._name.append(self._names[name])
        self._start_ns.append(start_ns)
        self._end_ns.append(end_ns)
        self._iteration.append(iteration)
        self._chunk.append(chunk)

    @property
    def last_end_ns(self) -> int:
        """End of the latest range, 0 without any."""
        return self._end_ns[-1] if self._end_ns else 0

    def finish(self, rank: int, stage: int) -> Ranges:
        """All ranges.

        Args:
            rank: Their rank.
            stage: Pipeline stage of the rank.
        """
        return Ranges(
            list(self._names),
            np.frombuffer(self._name, dtype=np.int32),
            np.broadcast_to(np.int32(rank), len(self)),
            np.broadcast_to(np.int32(0), len(self)),
            np.frombuffer(self._start_ns, dtype=np.int64),
            np.frombuffer(self._end_ns, dtype=np.int64),
            np.frombuffer(self._iteration, dtype=np.int32),
            np.broadcast_to(np.int32(stage), len(self)),
            np.frombuffer(self._chunk, dtype=np.int32),
        )


class _Run:
    """Pairs begins and ends, and puts the iterations on one clock, ns."""

    def __init__(self, health: Health) -> None:
        self.health = health
        self.complete = True
        self.ranges = _RangeColumns()
        self.iterations: list[Iteration] = []
        self.rank = self.stage = self.device = NULL
        self._base: int | None = None
        self._cursor = 0
        self._open: dict[str, deque[int | None]] = defaultdict(deque)
        self._outside: list[Event] = []

    def add_all(self, events: list[Event]) -> None:
        """Add records, in the order of the file."""
        self.health.events_read += len(events)
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Add the next record; those that are left out are counted."""
        self._note_rank(event)
        if event.name == "iteration" and event.ph in {"B", "E"}:
            (self._begin if event.ph == "B" else self._end)(event)
        elif self._base is None:
            self._outside.append(event)
        elif event.ph == "B":
            self._open[event.name].append(_whole(event.rel_ts))
        elif event.ph == "E":
            self._close(event, self._base)
        else:
            self._drop("instant-mark", "info", "Marks without a duration.")

    def finish(self) -> None:
        """Count the begins without an end."""
        self._abandon()
        self._drop_outside()
        if self._base is not None:
            self._unended(1)

    def _begin(self, event: Event) -> None:
        self._abandon()
        self._drop_outside()
        if self._base is not None:
            self._unended(1)
        self._base = self._cursor + (_whole(event.pad_before) or 0)

    def _end(self, event: Event) -> None:
        has_begin = self._base is not None
        if not has_begin:
            self._begin_late()
        if self._base is None:
            self._drop("end-without-begin", "warning", "Ends whose begin is missing.")
            return
        self._abandon()
        base, self._base = self._base, None
        length = _whole(event.duration_wall)
        length = _whole(event.rel_ts) if length is None else length
        if length is None:
            self._drop("unusable-time", "warning", _UNTIMED, count=1 + has_begin)
            self._cursor = max(base, self.ranges.last_end_ns)
            return
        number = len(self.iterations)
        self._cursor = base + length
        self.iterations.append(Iteration(NULL, number, base, self._cursor, NULL))
        self.health.events_kept += 1 + has_begin

    def _begin_late(self) -> None:
        """Begin an iteration whose begin is missing before its ranges, at the end of the last."""
        if not self._outside:
            return
        events, self._outside = self._outside, []
        self._base = self._cursor
        for event in events:
            self.add(event)
        self.health.count(
            "begin-missing",
            "warning",
            "The begin of an iteration is missing: it is shown directly after the one before.",
            dropped=False,
        )

    def _drop_outside(self) -> None:
        count, self._outside = len(self._outside), []
        text = "Ranges of an evaluation, in no iteration."
        self._drop("outside-iteration", "info", text, count=count)

    def _close(self, event: Event, base: int) -> None:
        begins = self._open[event.name]
        if not begins:
            self._drop("end-without-begin", "warning", "Ends whose begin is missing.")
            return
        begin, end = begins.popleft(), _whole(event.rel_ts)
        if begin is None or end is None or end < begin:
            self._drop("unusable-time", "warning", _UNTIMED, count=2)
            return
        number, chunk = len(self.iterations), _number(event.model_chunk)
        self.ranges.add(event.name, base + begin, base + end, number, chunk)
        self.health.events_kept += 2

    def _abandon(self) -> None:
        self._unended(sum(map(len, self._open.values())))
        self._open.clear()

    def _unended(self, count: int) -> None:
        self._drop("begin-without-end", "warning", "Begins whose end is missing.", count=count)

    def _drop(self, counter: str, severity: Any, text: str, *, count: int = 1) -> None:
        self.health.count(counter, severity, text, count=count, dropped=True)

    def _note_rank(self, event: Event) -> None:
        """Update the rank in the whole job, or else the pipeline stage, and the device."""
        stage = _number(event.pp_rk if event.pp_rk is not None else event.pp_rank)
        if stage != NULL:
            self.stage = stage
        rank = _number(event.g_rk)
        if rank != NULL:
            self.rank = rank
        elif self.rank == NULL:
            self.rank = stage
        if _number(event.dev) != NULL:
            self.device = _number(event.dev)


_UNTIMED = "Ranges without a time, or with a negative or absurd one, were left out."


def _whole(value: _Time) -> int | None:
    """A time in ns; None unless it is a number that is neither negative nor absurd."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < LARGEST_NS else None


def _number(value: Any) -> int:
    is_id = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
    return int(value) if is_id else NULL
