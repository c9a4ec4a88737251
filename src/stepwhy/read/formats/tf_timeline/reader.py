"""TensorFlow 1 timelines: the Chrome trace that `tf.python.client.timeline.Timeline` writes.

Every device of the step statistics is a process row: '<device> Compute' with the ops on lanes that
do not overlap, '<device> Tensors' with tensor lifetimes, and 'Allocators' with memory counters.

Source: `tensorflow/python/client/timeline.py`.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.errors import CorruptInputError
from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json import (
    SLICE,
    Document,
    count_untimed,
    looks_like_chrome_json,
    phases_of,
)
from stepwhy.read.shared.chrome_samples import Samples
from stepwhy.read.shared.tensorflow.activity import Activity, Entries, emit, meta_of
from stepwhy.read.shared.tensorflow.rows import Row, parse_row
from stepwhy.trace import TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.chrome_json import Batch, Event
    from stepwhy.trace import Health, Trace

Args = dict[str, Any]

_COMPUTE = " Compute"
_DEVICE_ROW = regex(
    rb'"(?:\\?/job:[^"/]+)?[^"]{0,80}\\?/(?:device:)?[A-Za-z_]+:\d+[^"]{0,40} (?:Compute|Tensors)"'
)
_METADATA = ord("M")
# Rows of tensor lifetimes, arrows between them, and object snapshots.
_TENSORS = tuple(map(ord, "stfNODi"))


def recognise(source: Source) -> bool:
    """Whether the file is a Chrome trace with process rows named after TensorFlow devices."""
    head = source.head
    return looks_like_chrome_json(head) and _DEVICE_ROW.search(head) is not None


def read(source: Source) -> Trace | None:
    """The trace of one run of a graph; None when no row is a TensorFlow device.

    Args:
        source: The file.

    Raises:
        CorruptInputError: Not a single op could be read.
    """
    found = _collect(source)
    if found.were_renamed:
        # The last name of a row counts, also for the ops before it.
        found = _collect(source, found.rows)
    if not found.rows:
        return None
    if not len(found.entries):
        raise CorruptInputError(
            f"{source.origin} is a TensorFlow timeline without a single readable op",
            "Write the timeline again from the RunMetadata of a traced run",
        )
    builder = found.builder
    signals = emit(builder, found.entries, found.rows.values())
    found.samples.add_to(builder, lambda _, series: f"{series} bytes in use")
    if found.samples.kept:
        signals |= {"memory"}
    _count_others(found, builder.health)
    return builder.finish(meta_of("tf-timeline", found.rows.values(), signals))


class _Found:
    """Contents of a timeline.

    Args:
        rows: Device rows by process id; None to read them from the timeline.

    Attributes:
        builder: Builder of the trace, with the health counters.
        phases: Number of records of every phase.
        entries: Ops of devices.
        untimed: Number of ops without a time.
        samples: Samples of the allocators.
        were_renamed: Whether a row was named after some of its ops.
    """

    def __init__(self, rows: dict[int | str | None, Row] | None) -> None:
        self.builder = TraceBuilder()
        self.rows = {} if rows is None else rows
        self.phases: Counter[int] = Counter()
        self.entries = Entries()
        self.untimed = 0
        self.samples = Samples(_bytes_in_use)
        self.were_renamed = False
        self._is_learning = rows is None
        self._taken: dict[int | str | None, Row | None] = {}

    def add(self, batch: Batch[Args]) -> None:
        """Take the records of a batch."""
        self.phases.update(phases_of(batch))
        if self._is_learning:
            for i in np.flatnonzero(batch.phase == _METADATA).tolist():
                self._learn(batch.events[i])
        ops = np.flatnonzero(batch.phase == SLICE)
        times = (batch.start_ns[ops].tolist(), batch.dur_ns[ops].tolist())
        timed = batch.timed[ops].tolist()
        for i, is_timed, start_ns, dur_ns in zip(ops.tolist(), timed, *times, strict=True):
            event = batch.events[i]
            row = self.rows.get(event.pid)
            self._taken.setdefault(event.pid, row)
            if row is None:
                continue
            if is_timed:
                self.entries.add(_activity(event, row, start_ns, dur_ns))
            else:
                self.untimed += 1
        self.samples.add(batch)

    def _learn(self, event: Event[Args]) -> None:
        """Take the name of a row, if it is one of a device."""
        title = _text(event.args, "name") if event.name == "process_name" else ""
        row = parse_row(title.removesuffix(_COMPUTE)) if title.endswith(_COMPUTE) else None
        if row is not None:
            self.rows[event.pid] = row
            self.were_renamed |= self._taken.get(event.pid, row) != row


def _collect(source: Source, rows: dict[int | str | None, Row] | None = None) -> _Found:
    """Read a file.

    Args:
        source: The file.
        rows: Its device rows by process id, where they are known.
    """
    found = _Found(rows)
    for batch in Document(source, Args, found.builder.health):
        found.add(batch)
    return found


def _count_others(found: _Found, health: Health) -> None:
    """Count the records that are not ops."""
    phases = found.phases
    tensors = sum(phases[phase] for phase in _TENSORS)
    known = len(found.entries) + found.untimed + found.samples.kept + found.samples.dropped
    health.events_kept += phases[_METADATA] + found.samples.kept
    count_untimed(health, found.untimed)
    health.count(
        "tensor-lifetime",
        "info",
        "Arrows between ops and snapshots of tensors; neither says how long something took.",
        count=tensors,
        dropped=True,
    )
    health.count(
        "event-without-device",
        "warning",
        "Events that are not ops of a device of this timeline were left out.",
        count=phases.total() - phases[_METADATA] - tensors - known,
        dropped=True,
    )
    health.count(
        "unreadable-counter",
        "warning",
        "Memory samples without a time or a whole number were left out.",
        count=found.samples.dropped,
        dropped=True,
    )


def _activity(event: Event[Args], row: Row, start_ns: int, dur_ns: int) -> Activity:
    op = _text(event.args, "op") or event.name
    return Activity(
        row,
        "" if op == "unknown" else op,
        _text(event.args, "name") or event.name,
        start_ns,
        dur_ns,
        lane=event.tid if isinstance(event.tid, int) and 0 <= event.tid < 1 << 31 else 0,
        inputs=tuple(_inputs(event.args)),
    )


def _inputs(args: Args | None) -> Iterator[str]:
    """Tensors that an op reads, from 'input0', 'input1', ..."""
    for number in count():
        name = _text(args, f"input{number}")
        if not name:
            return
        if not name.startswith("^"):
            yield name


def _bytes_in_use(args: Args | None) -> dict[str, int]:
    """Bytes in use by series."""
    return {k: v for k, v in (args or {}).items() if type(v) is int and 0 <= v < 1 << 62}


def _text(args: Args | None, key: str) -> str:
    value = (args or {}).get(key, "")
    return value if isinstance(value, str) else ""
