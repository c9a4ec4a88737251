"""The records of a Chrome trace: slices, steps, arrows, counters, and row names."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.base.text import escape_json_bytes
from stepwhy.show.export.layout import lay_out, nesting_lanes
from stepwhy.trace import NULL, Copy, Kind, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.trace import Trace

_KINDS = {int(k): k.name.lower() for k in Kind}
_PHASES = {int(p): p.name.lower() for p in Phase}
_COPIES = {int(c): c.name.lower() for c in Copy}
# Thread numbers of rows that are not tracks; no trace has so many threads.
_STEPS, _EVENTS = 1_000_000, 1_000_001


class ExtraRow(Protocol):
    """A row of the viewer that is not part of the trace."""

    @property
    def title(self) -> str:
        """Its title."""

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each slice."""

    @property
    def start_ns(self) -> NDArray[np.int64]:
        """Start of each slice; (slices,)."""

    @property
    def end_ns(self) -> NDArray[np.int64]:
        """End of each slice; (slices,)."""


class Records:
    """Generates the records of a Chrome trace.

    Args:
        trace: The trace.
        extra: Rows to show beside it, in a process of their own.

    Attributes:
        layout: Process and thread of each slice.
        base_ns: Time that all others are relative to.
    """

    def __init__(self, trace: Trace, extra: Sequence[ExtraRow] = ()) -> None:
        self.trace = trace
        self._beside = extra
        self.layout = lay_out(trace)
        self._facts = Facts(trace)
        self.base_ns = self._earliest_ns()
        self._extra = len(self.layout.processes) + 1

    def _earliest_ns(self) -> int:
        trace = self.trace
        times = (
            trace.slices.start_ns,
            trace.marks.start_ns,
            trace.events.start_ns,
            trace.counters.time_ns,
            trace.levels.time_ns,
        )
        return min((int(t.min()) for t in times if len(t)), default=0)

    def events(self) -> Iterator[bytes]:
        """All records as JSON; slices are in the order of their rows."""
        records = chain(
            self._names(),
            self._slices(),
            self._steps(),
            self._arrows(),
            self._counters(),
            self._beside_rows(),
        )
        encode = msgspec.json.Encoder().encode
        return (escape_json_bytes(encode(record)) for record in records)

    def _time(self, ns: int) -> msgspec.Raw:
        return _microseconds(ns - self.base_ns)

    # --- Names of rows ---

    def _names(self) -> Iterator[dict[str, Any]]:
        processes = (*self.layout.processes, "steps and counters")
        for pid, name in enumerate(processes, 1):
            # Steps and counters are above everything else.
            order = 0 if pid == self._extra else pid
            yield _metadata("process_name", pid, 0, name=name)
            yield _metadata("process_sort_index", pid, 0, sort_index=order)
        threads = [(t.process, tid, t.name) for tid, t in enumerate(self.layout.threads, 1)]
        rows = [(self._extra, _STEPS, "steps"), (self._extra, _EVENTS, "events")]
        for pid, tid, name in threads + rows:
            yield _metadata("thread_name", pid, tid, name=name)
            yield _metadata("thread_sort_index", pid, tid, sort_index=tid)

    # --- Slices ---

    def _slices(self) -> Iterator[dict[str, Any]]:
        trace, strings = self.trace, self.trace.strings
        columns = {name: column.tolist() for name, column in vars(trace.slices).items()}
        executions = self.trace.executions
        pairs = zip(executions.slice.tolist(), executions.runtime_op.tolist(), strict=True)
        runtime_ops = {row: name for row, name in pairs if name != NULL}
        threads = self.layout.thread.tolist()
        processes = [t.process for t in self.layout.threads]
        for row, start in enumerate(columns["start_ns"]):
            name = columns["name"][row]
            args = _arguments(strings, columns, row)
            if row in runtime_ops:
                args["op"] = strings[name]
                name = runtime_ops[row]
            yield {
                "ph": "X",
                "name": strings[name],
                "cat": _KINDS[columns["kind"][row]],
                "pid": processes[threads[row] - 1],
                "tid": threads[row],
                "ts": self._time(start),
                "dur": _microseconds(columns["dur_ns"][row]),
                "args": args,
            }

    # --- Steps and events of the loop ---

    def _steps(self) -> Iterator[dict[str, Any]]:
        """Observed steps, or else those found in the trace; and events of the loop."""
        marks, events = self.trace.marks, self.trace.events
        if len(marks):
            spans = np.stack([marks.start_ns, marks.start_ns + marks.dur_ns], axis=1)
            args = [{"profiled": bool(p)} for p in marks.profiled]
        else:
            steps = self._facts.recorded_steps
            spans = np.stack([steps.starts, steps.ends], axis=1)
            args = [{} for _ in spans]
        names = [f"step {number}" for number in range(len(spans))]
        yield from self._row(_STEPS, names, spans, args)
        about = [
            {"reason": self.trace.string(reason), "line": self.trace.string(source)}
            for reason, source in zip(events.reason.tolist(), events.source.tolist(), strict=True)
        ]
        kinds, what = events.kind.tolist(), events.name.tolist()
        titles = [
            f"{self.trace.string(kind)} {self.trace.string(name)}"
            for kind, name in zip(kinds, what, strict=True)
        ]
        times = np.stack([events.start_ns, events.start_ns + events.dur_ns], axis=1)
        yield from self._row(_EVENTS, titles, times, about)

    def _row(
        self,
        tid: int,
        names: Sequence[str],
        spans: NDArray[np.int64],
        args: Sequence[dict[str, Any]],
    ) -> Iterator[dict[str, Any]]:
        order = np.lexsort((-spans[:, 1], spans[:, 0])).tolist()
        starts, ends = spans[order, 0].tolist(), spans[order, 1].tolist()
        lanes = nesting_lanes(starts, ends)
        for i, start, end, lane in zip(order, starts, ends, lanes, strict=True):
            yield {
                "ph": "X",
                "name": names[i],
                "cat": "observed",
                "pid": self._extra,
                "tid": tid + 2 * lane,
                "ts": self._time(start),
                "dur": _microseconds(end - start),
                "args": args[i],
            }

    # --- Rows beside the trace ---

    def _beside_rows(self) -> Iterator[dict[str, Any]]:
        pid = self._extra + 1
        if self._beside:
            yield _metadata("process_name", pid, 0, name="predicted")
            yield _metadata("process_sort_index", pid, 0, sort_index=pid)
        for tid, row in enumerate(self._beside, _STEPS):
            yield _metadata("thread_name", pid, tid, name=row.title)
            yield _metadata("thread_sort_index", pid, tid, sort_index=tid)
            slices = zip(row.names, row.start_ns.tolist(), row.end_ns.tolist(), strict=True)
            for name, start, end in slices:
                yield {
                    "ph": "X",
                    "name": name,
                    "cat": "predicted",
                    "pid": pid,
                    "tid": tid,
                    "ts": self._time(start),
                    "dur": _microseconds(end - start),
                    "args": {},
                }

    # --- Arrows ---

    def _arrows(self) -> Iterator[dict[str, Any]]:
        """Arrows from each launch to its work on a device, and flows of the trace."""
        launches, flows = self._facts.launches, self.trace.flows
        is_known = launches.call_row != NULL
        launched = zip(
            launches.call_row[is_known].tolist(),
            launches.device_rows[is_known].tolist(),
            strict=True,
        )
        recorded = zip(flows.source.tolist(), flows.target.tolist(), strict=True)
        pairs: Iterable[tuple[str, tuple[int, int]]] = chain(
            (("launch", pair) for pair in launched), (("flow", pair) for pair in recorded)
        )
        for number, (name, (source, target)) in enumerate(pairs, 1):
            yield from self._arrow(number, name, source, target)

    def _arrow(self, number: int, name: str, source: int, target: int) -> Iterator[dict[str, Any]]:
        slices = self.trace.slices
        start, target_ns = int(slices.start_ns[source]), int(slices.start_ns[target])
        # Inside its slice, otherwise viewers attach it to the next one; never backwards in time.
        source_ns = max(start, min(start + int(slices.dur_ns[source]) - 1, target_ns))
        about = {"name": name, "cat": name, "id": number}
        for phase, row, ns in (("s", source, source_ns), ("f", target, target_ns)):
            pid, tid = self.layout.place(row)
            where = {"pid": pid, "tid": tid, "ts": self._time(ns)}
            yield {"ph": phase, **about, **where, **({"bp": "e"} if phase == "f" else {})}

    # --- Counters ---

    def _counters(self) -> Iterator[dict[str, Any]]:
        trace, counters, levels = self.trace, self.trace.counters, self.trace.levels
        devices = [trace.string(name) for name in trace.devices.name.tolist()]
        samples = zip(
            counters.time_ns.tolist(),
            counters.name.tolist(),
            counters.device.tolist(),
            counters.value.tolist(),
            strict=True,
        )
        for time, name, device, value in samples:
            of = "" if device == NULL else f"{devices[device]} "
            yield self._counter(of + trace.string(name), time, value)
        fills = zip(
            levels.time_ns.tolist(), levels.queue.tolist(), levels.value.tolist(), strict=True
        )
        for time, queue, value in fills:
            yield self._counter(f"in {trace.string(queue)}", time, value)

    def _counter(self, name: str, time_ns: int, value: int) -> dict[str, Any]:
        where = {"pid": self._extra, "ts": self._time(time_ns)}
        return {"ph": "C", "name": name, **where, "args": {"value": value}}


def _metadata(what: str, pid: int, tid: int, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _microseconds(ns: int) -> msgspec.Raw:
    """Nanoseconds as microseconds with exactly three decimals."""
    return msgspec.Raw(f"{ns // 1000}.{ns % 1000:03d}".encode())


def _arguments(
    strings: Sequence[str], columns: dict[str, list[int]], row: int
) -> dict[str, str | int]:
    """The columns of a slice that are not null."""
    args: dict[str, str | int] = {}
    for name, key in (("scope", "node"), ("source", "source")):
        if columns[name][row] != NULL:
            args[key] = strings[columns[name][row]]
    for name in ("bytes", "correlation", "sequence", "pageable"):
        if columns[name][row] != NULL:
            args[name] = columns[name][row]
    if columns["phase"][row]:
        args["phase"] = _PHASES[columns["phase"][row]]
    if columns["copy"][row]:
        args["copy"] = _COPIES[columns["copy"][row]]
    return args
