"""TensorFlow 1 timelines: the Chrome trace that `tf.python.client.timeline.Timeline` writes.

Every device of the step statistics is a process row: '<device> Compute' with the ops on lanes that
do not overlap, '<device> Tensors' with tensor lifetimes, and 'Allocators' with memory counters.

Source: `tensorflow/python/client/timeline.py`.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any

from stepwhy.errors import CorruptInputError
from stepwhy.importers.chrome_json import (
    Records,
    count_untimed,
    looks_like_chrome_json,
    read_records,
)
from stepwhy.importers.tensorflow.activity import Activity, emit, meta_of
from stepwhy.importers.tensorflow.rows import Row, parse_row
from stepwhy.trace import TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.importers.source import Source
    from stepwhy.trace import Health, Trace

Timeline = Records[dict[str, Any]]

_COMPUTE = " Compute"
_DEVICE_ROW = re.compile(
    rb'"(?:\\?/job:[^"/]+)?[^"]{0,80}\\?/(?:device:)?[A-Za-z_]+:\d+[^"]{0,40} (?:Compute|Tensors)"'
)
# Rows of tensor lifetimes, arrows between them, and object snapshots.
_TENSOR_PHASES = frozenset("stfNODCi")


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
    builder = TraceBuilder()
    records: Timeline = read_records(source, dict[str, Any], builder.health)
    rows = _rows(records)
    if not rows:
        return None
    activities = _activities(records, rows, builder.health)
    if not activities:
        raise CorruptInputError(
            f"{source.origin} is a TensorFlow timeline without a single readable op",
            "Write the timeline again from the RunMetadata of a traced run",
        )
    signals = emit(builder, activities, rows.values())
    if _add_counters(builder, records):
        signals |= {"memory"}
    return builder.finish(meta_of("tf-timeline", rows.values(), signals))


def _rows(records: Timeline) -> dict[int | str | None, Row]:
    """Device row of every process id that has one."""
    rows = {}
    for event in records.events:
        if event.ph == "M" and event.name == "process_name":
            title = _text(event.args, "name")
            row = parse_row(title.removesuffix(_COMPUTE)) if title.endswith(_COMPUTE) else None
            if row is not None:
                rows[event.pid] = row
    return rows


def _activities(
    records: Timeline, rows: dict[int | str | None, Row], health: Health
) -> list[Activity]:
    activities = []
    untimed = elsewhere = tensors = 0
    for i, event in enumerate(records.events):
        if event.ph == "M":
            health.events_kept += 1
        elif event.ph in _TENSOR_PHASES:
            tensors += event.ph != "C"
        elif event.ph != "X" or event.pid not in rows:
            elsewhere += 1
        elif not records.timed[i]:
            untimed += 1
        else:
            activities.append(_activity(records, i, rows[event.pid]))
    count_untimed(health, untimed)
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
        count=elsewhere,
        dropped=True,
    )
    return activities


def _activity(records: Timeline, i: int, row: Row) -> Activity:
    event = records.events[i]
    op = _text(event.args, "op") or event.name
    return Activity(
        row,
        "" if op == "unknown" else op,
        _text(event.args, "name") or event.name,
        int(records.start_ns[i]),
        int(records.dur_ns[i]),
        lane=event.tid if isinstance(event.tid, int) and 0 <= event.tid < 1 << 31 else 0,
        inputs=tuple(_inputs(event.args)),
    )


def _inputs(args: dict[str, Any] | None) -> Iterator[str]:
    """Tensors that an op reads, from 'input0', 'input1', ..."""
    for number in count():
        name = _text(args, f"input{number}")
        if not name:
            return
        if not name.startswith("^"):
            yield name


def _add_counters(builder: TraceBuilder, records: Timeline) -> bool:
    """Append the allocators' memory samples, in bytes."""
    kept = dropped = 0
    for i, event in enumerate(records.events):
        if event.ph == "C":
            samples = _samples(event.args) if records.timed[i] else {}
            for name, value in samples.items():
                time_ns = int(records.start_ns[i])
                label = builder.intern(f"{name} bytes in use")
                builder.add("counters", time_ns=time_ns, name=label, value=value)
            kept += bool(samples)
            dropped += not samples
    builder.health.events_kept += kept
    builder.health.count(
        "unreadable-counter",
        "warning",
        "Memory samples without a time or a whole number were left out.",
        count=dropped,
        dropped=True,
    )
    return kept > 0


def _samples(args: dict[str, Any] | None) -> dict[str, int]:
    return {k: v for k, v in (args or {}).items() if type(v) is int and 0 <= v < 1 << 62}


def _text(args: dict[str, Any] | None, key: str) -> str:
    value = (args or {}).get(key, "")
    return value if isinstance(value, str) else ""
