"""Framework timelines of SageMaker Debugger: one file per minute, process and source.

`*_pythontimeline.json` holds the steps that its hook saw, `*_model_timeline.json` the calls in
which TensorFlow's threads fetched batches. Each kind of range is a process row. Neither file shows
what computes, so the time of a step stays unexplained.

Times are microseconds. Overlapping fetches, which are those of several threads and of data sets
within data sets, become one slice.

Source: awslabs/sagemaker-debugger, `smdebug/core/tfevent/timeline_file_writer.py` (records),
timelines in `tests/profiler/resources` (names).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.errors import EmptyInputError
from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json import SLICE, Document, count_untimed, looks_like_chrome_json
from stepwhy.trace import Kind, Meta, Role, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.chrome_json import Batch
    from stepwhy.trace import Trace

    _Ranges = list[tuple[str, int, int]]
    """Name, start and duration of some ranges, ns."""

FORMAT = "sagemaker-timeline"

_EPOCH = b'"start_time_since_epoch_in_micros"'
_ROWS = regex(rb'"name"\s*:\s*"(?:Step:ModeKeys\.[A-Z]+|DataIterator)"')
_STEP = "Step:ModeKeys.TRAIN"
_FETCHES = "DataIterator"
_MOST_ROWS = 1 << 12  # more is damage
_LIMIT = (
    "this timeline of SageMaker Debugger shows how long steps take, and not what computes in them. "
    "Trace the training with its framework's profiler, too"
)
_FETCHES_LIMIT = (
    "this timeline shows only when batches were fetched from a tf.data iterator, and not what the "
    "steps do meanwhile, so it does not show whether they wait for a batch. Trace the training "
    "with TensorFlow's profiler, too"
)


class _Rows:
    """Collects the ranges of a file by the name of their row."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.ranges: dict[str, _Ranges] = {}
        self.phases: Counter[int] = Counter()
        self.untimed = 0

    def add(self, batch: Batch[dict[str, Any]]) -> None:
        """Add a batch of records."""
        self.phases.update(batch.phase.tolist())
        columns = (batch.phase, batch.timed, batch.start_ns, batch.dur_ns)
        rows = zip(batch.events, *(column.tolist() for column in columns), strict=True)
        for event, phase, is_timed, start_ns, dur_ns in rows:
            if event.name == "process_name" and event.args:
                name = event.args.get("name")
                if isinstance(name, str) and len(self.names) < _MOST_ROWS:
                    self.names[event.pid] = name
            elif phase == SLICE and is_timed:
                row = self.names.get(event.pid, "")
                self.ranges.setdefault(row, []).append((event.name, start_ns, dur_ns))
            elif phase == SLICE:
                self.untimed += 1


def recognise(source: Source) -> bool:
    """Whether the file is a Chrome trace with the rows of SageMaker Debugger."""
    head = source.head
    has_rows = _EPOCH in head and _ROWS.search(head) is not None
    return has_rows and looks_like_chrome_json(head)


def read(source: Source) -> Trace:
    """Read the ranges of a file.

    Args:
        source: The file.

    Raises:
        CorruptInputError: It contains no complete record.
        EmptyInputError: It contains no range.
    """
    builder, rows = TraceBuilder(), _Rows()
    for batch in Document(source, dict[str, Any], builder.health, may_be_unclosed=True):
        rows.add(batch)
    if not rows.ranges:
        raise EmptyInputError(
            f"{source.origin} holds no step and no fetch of a batch", "Record a whole minute"
        )
    for row, ranges in rows.ranges.items():
        add = _add_fetches if row == _FETCHES else _add_ranges
        add(builder, row, ranges)
    _count(builder, rows)
    is_alone = set(rows.ranges) == {_FETCHES}
    return builder.finish(
        Meta(
            FORMAT,
            "tensorflow" if is_alone else "",
            signals=frozenset({"input"} if _FETCHES in rows.ranges else ()),
            limit=_FETCHES_LIMIT if is_alone else _LIMIT,
        )
    )


def _add_fetches(builder: TraceBuilder, row: str, ranges: _Ranges) -> None:
    """Add the time in which any thread fetched a batch."""
    # Not a thread of the host: calls by threads of the pipeline do not show the period of the loop.
    track = builder.track(Role.EXECUTOR, row)
    times = np.asarray([times for _, *times in ranges], dtype=np.int64)
    fetched = Intervals.of(times[:, 0], times[:, 0] + times[:, 1])
    for start_ns, end_ns in zip(fetched.starts.tolist(), fetched.ends.tolist(), strict=True):
        builder.slice(track, Kind.INPUT, ranges[0][0], start_ns, end_ns - start_ns)


def _add_ranges(builder: TraceBuilder, row: str, ranges: _Ranges) -> None:
    """Add the ranges of a row, steps of the training as such."""
    track = builder.track(Role.HOST_THREAD, row)
    for name, start_ns, dur_ns in ranges:
        kind = Kind.STEP if name == _STEP else Kind.ANNOTATION
        builder.slice(track, kind, name, start_ns, dur_ns)


def _count(builder: TraceBuilder, rows: _Rows) -> None:
    """Count what was read and what was left out."""
    health = builder.health
    named = rows.phases[ord("M")]
    health.events_kept += named + rows.phases[SLICE] - rows.untimed
    count_untimed(health, rows.untimed)
    health.count(
        "other-record",
        "info",
        "Records of kinds that do not belong to a timeline of SageMaker Debugger.",
        count=rows.phases.total() - named - rows.phases[SLICE],
        dropped=True,
    )
