"""Names, units, help and labels of all metrics, and their values in a run.

Names follow OpenTelemetry (`stepwhy.step.duration`, unit `s`); those of Prometheus are derived from
them as its OpenTelemetry bridge does (`stepwhy_step_duration_seconds`).

Source: OpenTelemetry semantic conventions (naming, units); Prometheus documentation, "Metric and
label naming".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from stepwhy.base.text import visible
from stepwhy.show.metrics.model import Durations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.show.metrics.model import Process, Run

Value = int | float | Durations

_LONGEST_LABEL = 200  # characters
# Each name is a time series of its own in a monitoring system.
_MOST_QUEUES = 32
_NS_PER_S = 1e9
_PROMETHEUS_UNITS = {"s": "_seconds", "By": "_bytes"}

RUN_LABELS = ("run",)
PROCESS_LABELS = ("run", "framework", "rank")


class Family(NamedTuple):
    """A metric.

    Attributes:
        name: Name in OpenTelemetry, without 'stepwhy.'.
        kind: A counter only grows, except when a program starts over.
        unit: Unit in OpenTelemetry (UCUM).
        help: One sentence.
        labels: Names of its labels; there are no others.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    help: str
    labels: tuple[str, ...] = PROCESS_LABELS

    @property
    def prometheus_name(self) -> str:
        """Name in Prometheus, without the '_total' of counters."""
        base = self.name.replace(".", "_")
        return f"stepwhy_{base}{_PROMETHEUS_UNITS.get(self.unit, '')}"

    @property
    def full_name(self) -> str:
        """Name in OpenTelemetry."""
        return f"stepwhy.{self.name}"


class Point(NamedTuple):
    """A value of a metric, with its labels; '' for a label that does not apply."""

    family: Family
    labels: dict[str, str]
    value: Value


_QUEUE_LABELS = (*PROCESS_LABELS, "queue", "queue_kind")

RUNNING = Family("run.running", "gauge", "1", "1 while the command runs, else 0.", RUN_LABELS)
STEPS = Family("steps", "counter", "{step}", "Training steps that have ended.")
DURATION = Family(
    "step.duration",
    "histogram",
    "s",
    "Wall time of training steps, without those under a profiler.",
)
INPUT_WAIT = Family(
    "input.wait", "counter", "s", "Time in which observed steps waited for their next batch."
)
INPUT_OBSERVED = Family(
    "input.observed", "counter", "s", "Wall time of the steps whose waits for input were observed."
)
LAST_STEP = Family(
    "last_step.timestamp", "gauge", "s", "When the last step ended, since the epoch."
)
QUEUE = Family(
    "queue.elements",
    "gauge",
    "{element}",
    "Elements in a queue or prefetch buffer, as last sampled.",
    _QUEUE_LABELS,
)
CAPACITY = Family(
    "queue.capacity", "gauge", "{element}", "Capacity of a queue or buffer.", _QUEUE_LABELS
)
QUEUE_TIME = Family(
    "queue.sample.timestamp",
    "gauge",
    "s",
    "When the queue was last sampled, since the epoch.",
    _QUEUE_LABELS,
)
RESIDENT = Family("process.resident_memory", "gauge", "By", "Resident memory of the process.")
SWAP = Family("process.swapped_memory", "gauge", "By", "Memory of the process in swap space.")
CPU = Family("process.cpu", "counter", "s", "CPU time of all threads of the process.")
USAGE_TIME = Family(
    "process.sample.timestamp",
    "gauge",
    "s",
    "When memory and CPU time of the process were sampled, since the epoch.",
)
GPU = Family(
    "gpu.used_memory",
    "gauge",
    "By",
    "Memory of a GPU in use by all programs.",
    (*PROCESS_LABELS, "gpu"),
)
BREAKDOWN = Family(
    "step.breakdown",
    "gauge",
    "s",
    "Time of the mean step by category; the categories add up to the step.",
    (*RUN_LABELS, "category"),
)
COST = Family(
    "finding.cost",
    "gauge",
    "s",
    "Time that a finding costs in the mean step.",
    (*RUN_LABELS, "finding"),
)
PEAK = Family("memory.peak", "gauge", "By", "Peak of the memory in use.", (*RUN_LABELS, "memory"))

FAMILIES = (
    RUNNING, STEPS, DURATION, INPUT_WAIT, INPUT_OBSERVED, LAST_STEP, QUEUE, CAPACITY, QUEUE_TIME,
    RESIDENT, SWAP, CPU, USAGE_TIME, GPU, BREAKDOWN, COST, PEAK,
)  # fmt: skip


def points_of(run: Run) -> Iterator[Point]:
    """All values of a run; what is not known has none.

    Of values with the same labels, after long names were cut, the first one counts: no monitoring
    system accepts two.
    """
    seen = set()
    for point in _all_points(run):
        key = (point.family.name, *point.labels.values())
        if key not in seen:
            seen.add(key)
            yield point


def _all_points(run: Run) -> Iterator[Point]:
    labels = {"run": _label(run.name)}
    yield Point(RUNNING, labels, int(run.is_running))
    for process in run.processes:
        yield from _of_process(process, labels)
    for family, name, values in (
        (BREAKDOWN, "category", run.breakdown),
        (COST, "finding", run.costs_ns),
    ):
        for key, time_ns in values.items():
            yield Point(family, {**labels, name: _label(key)}, time_ns / _NS_PER_S)
    for key, size in run.peak_bytes.items():
        yield Point(PEAK, {**labels, "memory": _label(key)}, size)


def _of_process(process: Process, of_run: dict[str, str]) -> Iterator[Point]:
    rank = "" if process.rank is None else str(process.rank)
    labels = {**of_run, "framework": _label(process.framework), "rank": rank}
    values: tuple[tuple[Family, Value | None], ...] = (
        (STEPS, process.steps),
        (DURATION, process.durations),
        (INPUT_WAIT, _seconds(process.input_wait_ns)),
        (INPUT_OBSERVED, _seconds(process.observed_ns)),
        (LAST_STEP, _seconds(process.last_step_ns)),
        *_usage(process),
    )
    for family, value in values:
        if value is not None:
            yield Point(family, labels, value)
    yield from _of_queues(process, labels)
    for gpu, size in process.usage.gpu_bytes.items() if process.usage else ():
        yield Point(GPU, {**labels, "gpu": str(gpu)}, size)


def _usage(process: Process) -> Iterator[tuple[Family, Value | None]]:
    usage = process.usage
    if usage is not None:
        yield RESIDENT, usage.resident_bytes
        yield SWAP, usage.swap_bytes
        yield CPU, _seconds(usage.cpu_ns)
        yield USAGE_TIME, _seconds(usage.time_ns)


def _of_queues(process: Process, of_process: dict[str, str]) -> Iterator[Point]:
    for queue in process.queues[:_MOST_QUEUES]:
        labels = {**of_process, "queue": _label(queue.name), "queue_kind": _label(queue.kind)}
        yield Point(QUEUE, labels, queue.elements)
        if queue.capacity is not None:
            yield Point(CAPACITY, labels, queue.capacity)
        yield Point(QUEUE_TIME, labels, queue.time_ns / _NS_PER_S)


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / _NS_PER_S


def _label(text: str) -> str:
    """A label's value: names come from programs, and may be long or hide characters."""
    return visible(text[:_LONGEST_LABEL])[:_LONGEST_LABEL]
