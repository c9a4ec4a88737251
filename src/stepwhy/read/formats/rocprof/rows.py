"""Adds the records of rocprofv3 to a trace."""

from __future__ import annotations

from array import array
from collections import defaultdict
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.read.formats.rocprof.document import LARGEST_ID
from stepwhy.read.formats.rocprof.names import Names
from stepwhy.read.shared.chrome_json import LARGEST_NS, count_untimed
from stepwhy.read.shared.cuda import COPY_NAMES, kernel_copy
from stepwhy.read.shared.nvtx import find_steps, read_range
from stepwhy.read.shared.slice_columns import SliceColumns
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stepwhy.read.formats.rocprof.document import Buffer, Handle, Process, Record
    from stepwhy.read.shared.nvtx import Range
    from stepwhy.trace import TraceBuilder

_CPU, _GPU = 1, 2  # ROCPROFILER_AGENT_TYPE_CPU, _GPU
_SLICES_AT_ONCE = 1 << 14  # become columns together


class Rows:
    """Collects slices as columns, over all processes of a file.

    Args:
        builder: Receives devices, tracks and slices.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self.builder = builder
        self.kinds: set[Kind] = set()
        self.copies_with_bytes = False
        self.counter_collections = 0
        self.kernel_names: set[str] = set()
        self._columns: defaultdict[str, list[int]] = defaultdict(list)
        self._slices = SliceColumns()
        self._identities: dict[str, tuple[int, ...]] = {}

    def add_process(self, process: Process) -> None:
        """Add every record of a process; those that are left out are counted."""
        one = _ProcessRows(self, process)
        self._count_serial(process.counter_collections)
        for domain, buffer in process.buffers.items():
            if domain.startswith("kernel_dispatch"):
                one.add_all(buffer, one.add_kernel)
            elif domain == "memory_copy":
                one.add_all(buffer, one.add_copy)
            elif domain == "marker_api":
                one.add_markers(buffer)
            elif domain.endswith("_api"):
                one.add_all(buffer, partial(one.add_call, domain))
            else:
                self._count_other(sum(map(len, self.read(buffer))))
            self._flush()
        one.set_copy_directions()

    def finish(self) -> None:
        """Add the slices to the trace."""
        self._slices.add_to(self.builder)

    def read(self, buffer: Buffer) -> Iterator[list[Record]]:
        """The records of a domain, counted."""
        health = self.builder.health
        for records in buffer:
            health.events_read += len(records)
            yield records
        health.events_read += buffer.malformed
        health.count(
            "malformed-record",
            "warning",
            "Records whose fields have the wrong type were left out.",
            count=buffer.malformed,
            dropped=True,
        )

    def add(self, when: When, track: int, kind: Kind, name: str, **values: int) -> None:
        """Append a slice; slices of one domain must have the same names of `values`."""
        self.kinds.add(kind)
        columns = self._columns
        columns["start_ns"].append(when.start_ns)
        columns["dur_ns"].append(when.end_ns - when.start_ns)
        columns["correlation"].append(when.correlation)
        columns["track"].append(track)
        columns["kind"].append(int(kind))
        columns["name"].append(self.builder.intern(name))
        for column, value in values.items():
            columns[column].append(value)
        if len(columns["start_ns"]) >= _SLICES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        """Move the latest slices to the columns, and count them."""
        if self._columns:
            self._slices.add(self._columns)
            self.builder.health.events_kept += len(self._columns["start_ns"])
            self._columns.clear()

    @property
    def count(self) -> int:
        """Number of slices so far."""
        return len(self._slices) + len(self._columns.get("start_ns", ()))

    def put_copies(self, directions: Mapping[int, Copy]) -> None:
        """Set the directions of copies, by the number of their slice."""
        if directions:
            rows = np.fromiter(directions, dtype=np.int64)
            self._slices.put("copy", rows, [int(copy) for copy in directions.values()])

    def device(self, name: str, identity: tuple[int, ...], model: str, process: int) -> int:
        """The device of this name; a different GPU of the same name gets its process's id."""
        if self._identities.setdefault(name, identity) != identity:
            name = f"{name} (process {process})"
        return self.builder.device(name, DeviceKind.GPU, model)

    def _count_serial(self, count: int) -> None:
        self.counter_collections += count
        self.builder.health.events_read += count
        self.builder.health.count(
            "counter-collection",
            "warning",
            "Kernels recorded with performance counters run one by one, unlike in a normal run.",
            count=count,
            dropped=True,
        )

    def _count_other(self, count: int) -> None:
        self.builder.health.count(
            "other-record",
            "info",
            "Allocations, scratch memory and samples of instructions do not show where time goes.",
            count=count,
            dropped=True,
        )


class When(NamedTuple):
    """Times and correlation id of a record."""

    start_ns: int
    end_ns: int
    correlation: int


class _MarkedRanges:
    """Collects marked ranges, because only all of them together show which are steps."""

    def __init__(self) -> None:
        self._times = array("q")
        self._ranges: list[Range] = []
        self._tracks = array("q")
        self._crosses = array("b")

    def add(self, when: When, one: Range, track: int, *, crosses: bool) -> None:
        """Append a range; `crosses`: it may end on another thread."""
        self._times.extend(when)
        self._ranges.append(one)
        self._tracks.append(track)
        self._crosses.append(crosses)

    def with_steps(self) -> Iterator[tuple[When, Range, int, bool, bool]]:
        """Times, range and track of each, whether it is a step, and whether it crosses threads."""
        times = np.asarray(self._times, dtype=np.int64).reshape(-1, 3)
        tracks = np.asarray(self._tracks, dtype=np.int64)
        names = [one.name for one in self._ranges]
        steps = find_steps(names, tracks, times[:, 0], times[:, 1])
        for i, one in enumerate(self._ranges):
            when = When(*times[i].tolist())
            yield when, one, self._tracks[i], bool(steps[i]), bool(self._crosses[i])


class _ProcessRows:
    """Adds the records of one process, and resolves its handles and numbers."""

    def __init__(self, rows: Rows, process: Process) -> None:
        self._rows, self._pid = rows, _id(process.pid)
        self._names = Names(process)
        self._agents = {a.id.handle: a for a in process.agents if a.id is not None}
        gpus = [a for a in process.agents if a.type == _GPU]
        self._order = {a.id.handle: n for n, a in enumerate(gpus) if a.id is not None}
        dispatches = process.buffers.get("kernel_dispatch")
        # Correlation ids of the slices of copies by kernels; directions of calls by correlation id.
        self._blits: dict[int, int] = {}
        self._directions: dict[int, Copy] = {}
        # Without traced streams, queues are the tracks.
        self._has_streams = dispatches is not None and dispatches.has_streams()

    def add_all(self, buffer: Buffer, add: Callable[[Record], None]) -> None:
        """Add the records with a time, and count the others."""
        for record in self._timed(buffer):
            add(record)

    def add_markers(self, buffer: Buffer) -> None:
        """Add ROCTX ranges; iterations of a training loop become steps."""
        marked = _MarkedRanges()
        instants = 0
        for record in self._timed(buffer):
            text = self._names.marker(record)
            if text:
                crosses = self._names.crosses_threads(record)
                track = self._thread(record.thread_id)
                marked.add(_when(record), read_range(text), track, crosses=crosses)
            instants += not text
        self._rows.builder.health.count(
            "instant-mark",
            "info",
            "Marks and calls that are no ranges.",
            count=instants,
            dropped=True,
        )
        for when, one, track, is_step, crosses in marked.with_steps():
            self._add_range(when, one, track, is_step=is_step, crosses=crosses)

    def _add_range(
        self, when: When, one: Range, track: int, *, is_step: bool, crosses: bool
    ) -> None:
        kind = Kind.STEP if is_step else Kind.ANNOTATION if one.kind is Kind.STEP else one.kind
        if kind is Kind.ANNOTATION and crosses:
            track = self._rows.builder.track(
                Role.HOST_THREAD, "ranges of the process", process=self._pid
            )
        self._rows.add(
            when,
            track,
            kind,
            one.name,
            phase=int(one.phase),
            sequence=one.sequence,
            source=self._rows.builder.intern(one.source) if one.source else NULL,
        )

    def _timed(self, buffer: Buffer) -> Iterator[Record]:
        """The records with a time; the others are counted."""
        untimed = 0
        for record in chain.from_iterable(self._rows.read(buffer)):
            # 0 means that the GPU did not write the time.
            if 0 < record.start_timestamp <= record.end_timestamp < LARGEST_NS:
                yield record
            else:
                untimed += 1
        count_untimed(self._rows.builder.health, untimed)

    def add_kernel(self, record: Record) -> None:
        """Add a kernel on the queue or stream that it was dispatched to."""
        info = record.dispatch_info
        kind, name = self._names.kernel(info.kernel_id if info else NULL)
        self._rows.kernel_names.add(name)
        device = self._device(_handle(info.agent_id) if info else NULL)
        stream = _handle(record.stream_id) if self._has_streams else NULL
        queue = _handle(info.queue_id) if info else NULL
        when, copy = _when(record), kernel_copy(name)
        if copy is not Copy.NONE:
            self._blits[self._rows.count] = when.correlation
        track = self._stream(device, stream, queue)
        self._rows.add(when, track, kind, name, copy=int(copy))

    def add_copy(self, record: Record) -> None:
        """Add a copy to its GPU; between two GPUs to the receiving one."""
        source, target = _handle(record.src_agent_id), _handle(record.dst_agent_id)
        copy = self._direction(self._names.copy(record), source, target)
        if copy is Copy.H2H:
            self._rows.builder.health.count(
                "host-copy", "info", "Copies within the host's memory.", dropped=True
            )
            return
        device = self._device(source if copy is Copy.D2H else target)
        size = record.bytes if 0 < record.bytes < LARGEST_ID else NULL
        self._rows.copies_with_bytes |= size != NULL
        track = self._stream(device, _handle(record.stream_id) if self._has_streams else NULL, NULL)
        self._rows.add(
            _when(record), track, Kind.MEMCPY, COPY_NAMES[copy], copy=int(copy), bytes=size
        )

    def add_call(self, domain: str, record: Record) -> None:
        """Add a call of an API."""
        kind, name = self._names.call(record, domain)
        when = _when(record)
        if domain == "hip_api" and (copy := self._names.call_copy(record)) is not Copy.NONE:
            self._directions[when.correlation] = copy
        self._rows.add(when, self._thread(record.thread_id), kind, name)

    def set_copy_directions(self) -> None:
        """Set the directions of copies by kernels to those of their calls."""
        directions = {
            row: self._directions[correlation]
            for row, correlation in self._blits.items()
            if correlation in self._directions
        }
        self._rows.put_copies(directions)

    def _thread(self, number: int) -> int:
        thread = _id(number)
        return self._rows.builder.track(
            Role.HOST_THREAD, f"thread {thread}", process=self._pid, thread=thread
        )

    def _direction(self, recorded: Copy, source: int, target: int) -> Copy:
        """Direction of a copy, from its operation or else from its source and target."""
        if recorded in {Copy.H2D, Copy.D2H, Copy.H2H}:
            return recorded
        from_gpu, to_gpu = self._is_gpu(source), self._is_gpu(target)
        if from_gpu and to_gpu:
            return Copy.D2D if source == target else Copy.PEER
        if from_gpu or to_gpu:
            return Copy.H2D if to_gpu else Copy.D2H
        return recorded

    def _is_gpu(self, handle: int) -> bool:
        agent = self._agents.get(handle)
        return agent is not None and agent.type != _CPU

    def _device(self, handle: int) -> int:
        agent = self._agents.get(handle)
        number = self._order.setdefault(handle, len(self._order))
        if agent is None:
            return self._rows.device(f"GPU:{number}", (handle,), "", self._pid)
        if agent.logical_node_type_id >= 0:
            number = agent.logical_node_type_id
        model = agent.product_name or agent.name
        return self._rows.device(f"GPU:{number}", (handle, agent.node_id), model, self._pid)

    def _stream(self, device: int, stream: int, queue: int) -> int:
        number, what = (stream, "stream") if stream != NULL else (queue, "queue")
        name = f"{what} {number}" if number != NULL else "copies"
        return self._rows.builder.track(
            Role.STREAM, name, process=self._pid, thread=number, device=device
        )


def _handle(handle: Handle | None) -> int:
    """The number of a handle, NULL for none."""
    return NULL if handle is None else _id(handle.handle)


def _when(record: Record) -> When:
    correlation = _id(record.correlation_id.internal) if record.correlation_id else NULL
    return When(record.start_timestamp, record.end_timestamp, correlation)


def _id(number: int) -> int:
    """An id; NULL for one out of range, which is damage."""
    return number if 0 <= number < LARGEST_ID else NULL
