"""The runs of operations in a tfprof profile.

Source: `ProfileNode`, `ExecProfile` and `ExecMemory` of `tfprof_log.proto`; `tfprof_node.cc`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json import count_untimed
from stepwhy.read.shared.tensorflow.entries import Activity, Execution
from stepwhy.read.shared.tensorflow.graphs import text
from stepwhy.read.shared.tensorflow.rows import Row, RowKind, parse_row
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepwhy.trace import Health

_NS_PER_US = 1000
# The sum of larger times would overflow int64 as ns; larger sizes are damage.
_LARGEST = 1 << 52
# Nodes that the runtime adds at the ends of a graph have a name but no type in a profile.
_RUNTIME_OP = regex(r"(?P<op>_retval|_arg)_.*")
_RUNTIME_OPS = {"_retval": "_Retval", "_arg": "_Arg"}


class Run(NamedTuple):
    """One run of one op in a traced step."""

    step: int
    activity: Activity


class ProfileRuns:
    """Finds the runs of nodes of a profile.

    Args:
        names: Names of all nodes by their numbers.
        health: Counters to fill.
    """

    def __init__(self, names: Mapping[int, str], health: Health) -> None:
        self._names = names
        self._health = health
        self._unknown: set[str] = set()
        self._untimed = self._elsewhere = 0

    def of(self, node: Any) -> Iterator[Run]:
        """The runs of a node with a known time and device; the others are counted."""
        base = _Base(text(node.name), _op_type(node), self._inputs(node))
        for run in self._runs_of(node, base):
            if not base.op:
                self._unknown.add(base.name)
            yield run

    def count(self) -> None:
        """Fill the counters."""
        count_untimed(self._health, self._untimed)
        self._health.count(
            "event-without-device",
            "warning",
            "Runs on something that is no device were left out.",
            count=self._elsewhere,
            dropped=True,
        )
        self._health.count(
            "op-type-unknown",
            "info",
            "Operations that the runtime added to the graph are recorded by name only: the name is "
            "used as the type.",
            count=len(self._unknown),
            dropped=False,
        )

    def _runs_of(self, node: Any, base: _Base) -> Iterator[Run]:
        home = text(node.canonical_device)
        for entry in node.execs:
            used = entry.value
            for timed in used.cpu_execs:
                memory = used.memory_execs if text(timed.key) == home else ()
                memory_by_end: dict[int, deque[Any]] = defaultdict(deque)
                for record in memory:
                    memory_by_end[record.memory_micros].append(record)
                yield from self._device_runs(entry.key, base, timed, memory_by_end)
            for timed in used.accelerator_execs:
                yield from self._device_runs(entry.key, base, timed, {})

    def _device_runs(
        self, step: int, base: _Base, timed: Any, memory: dict[int, deque[Any]]
    ) -> Iterator[Run]:
        """Runs of one op on one device in one step."""
        row = parse_row(text(timed.key))
        self._health.events_read += len(timed.value.times)
        for pair in timed.value.times:
            # Start and duration of a run, us; negative if the record has not two numbers.
            values = tuple(pair.int64_values)
            start_us, dur_us = (values[0], values[1]) if len(values) == 2 else (-1, -1)
            if row is None:
                self._elsewhere += 1
            elif not (0 < start_us < _LARGEST and 0 <= dur_us < _LARGEST):
                self._untimed += 1
            else:
                yield Run(step, _activity(row, base, start_us, dur_us, memory))

    def _inputs(self, node: Any) -> tuple[str, ...]:
        """Nodes that a node reads from; a NoOp only waits for its inputs."""
        if node.op == b"NoOp":
            return ()
        numbers = (entry.value for entry in sorted(node.inputs, key=lambda entry: entry.key))
        return tuple(self._names[n] for n in numbers if n in self._names)


class _Base(NamedTuple):
    """The properties that all runs of a node share."""

    name: str
    op: str
    inputs: tuple[str, ...]


def _op_type(node: Any) -> str:
    """The op's type; '' for a node that the runtime added, which has its name as type."""
    op, name = text(node.op), text(node.name)
    if op != name:
        return op
    match = _RUNTIME_OP.fullmatch(name)
    return _RUNTIME_OPS[match["op"]] if match else ""


def _activity(
    row: Row, base: _Base, start_us: int, dur_us: int, memory: dict[int, deque[Any]]
) -> Activity:
    start_ns, dur_ns = start_us * _NS_PER_US, dur_us * _NS_PER_US
    if row.kind is not RowKind.OPS:
        return Activity(row, base.op, base.name, start_ns, dur_ns)
    # The memory record has the end of the run; durations below 1 us were rounded up later.
    records = memory.get(start_us + dur_us) or (memory.get(start_us) if dur_us == 1 else None)
    record = records.popleft() if records else None
    # Bytes of the outputs; NULL if not recorded.
    output_bytes = (
        NULL
        if record is None or not (record.output_memory or record.output_bytes)
        else _known(record.output_bytes)
    )
    return Activity(
        row,
        base.op,
        base.name,
        start_ns,
        dur_ns,
        bytes=output_bytes,
        inputs=base.inputs,
        execution=Execution(dur_ns, *_sizes(record)),
    )


def _sizes(record: Any) -> tuple[int, int, int]:
    """Bytes requested, at the peak, and left at the end; NULL if no memory is recorded."""
    if record is None:
        return NULL, NULL, NULL
    sizes = (record.requested_bytes, record.peak_bytes, record.residual_bytes)
    if not any(sizes) and not record.output_memory:
        return NULL, NULL, NULL
    return _known(sizes[0]), _known(sizes[1]), _known(sizes[2])


def _known(size: int) -> int:
    """A size; NULL if it is absurd, which means damage."""
    return size if 0 <= size < _LARGEST else NULL
