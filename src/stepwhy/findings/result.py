"""The result of explaining a run: what every report, and every outside check, reads.

`docs/reference/result-schema.json` is generated from these classes. Adding a field is free;
renaming or removing one needs a new `SCHEMA`. Unless a field says otherwise, times are integer
nanoseconds and a mean per step over the steady steps; `None` means 'not recorded', never zero.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepwhy.findings.machine import GpuLoad, HostLine  # noqa: TC001 - the schema reads them
from stepwhy.findings.memory import MemoryUse  # noqa: TC001 - the schema reads it
from stepwhy.findings.parallel import ParallelUse  # noqa: TC001 - the schema reads it
from stepwhy.findings.placement import Placement  # noqa: TC001 - the schema reads it
from stepwhy.findings.watched import (  # noqa: TC001 - the JSON schema reads the annotations
    EventGroup,
    Pipeline,
    Stretch,
    Traced,
)

# stepwhy.result/1: first version.
SCHEMA = "stepwhy.result/1"

BoundBy = Literal[
    "input",
    "host",
    "compute",
    "communication",
    "transfer",
    "startup",
    "memory",
    "storage",
    "unknown",
]
StepSource = Literal["marker", "hook", "periodicity", "whole-trace"]
FindingVerdict = Literal["found", "clear", "not_applicable", "no_data", "incomplete", "error"]
Risk = Literal["none", "changes-numerics", "changes-memory", "unknown"]

CATEGORIES = (
    "compute",
    "communication",
    "transfer",
    "input_wait",
    "compile",
    "sync",
    "dispatch",
    "python",
    "storage",
    "unexplained",
)
"""The categories of a breakdown, in the order in which they claim time."""


class HealthEntry(msgspec.Struct, frozen=True):
    """How often one thing happened while an input was read; `dropped`: absent from the trace."""

    counter: str
    severity: Literal["info", "warning", "error"]
    count: int
    help: str
    dropped: bool = False


class Input(msgspec.Struct, frozen=True):
    """One file that was read; `events_read` = `events_kept` + all dropped health counts."""

    path: str
    format: str
    events_read: int
    events_kept: int
    health: tuple[HealthEntry, ...] = ()


class Run(msgspec.Struct, frozen=True):
    """What ran. Empty strings and None where the trace does not say.

    Args:
        exit_code: Of a watched run, the command's own; 128 + n when signal n ended it.
        exception: Type of the exception that ended it.
        ending: How it ended, in sentences; '' when it ended well.
        untraced_advice: What would have let its steps be traced, where none was.
    """

    framework: str
    framework_version: str
    devices: tuple[str, ...]
    ranks: int
    world_size: int | None
    command: str
    exit_code: int | None = None
    exception: str = ""
    ending: str = ""
    untraced_advice: str = ""


class HostLoad(msgspec.Struct, frozen=True):
    """The machine while a captured run was observed; None where it was not recorded.

    Args:
        run_delay_share: Of the time in which the process wanted to run, the share it waited for
            a CPU core.
        background_cores: Cores that other programs kept busy on average.
        cores: Cores of the machine.
        peak_resident_bytes: Largest resident memory of the process.
        disk_wait_share: Share of the time in which the process's main thread was blocked on a
            disk.
        disk_read_bytes, disk_written_bytes: What the process read from disks and wrote to them.
        machine_disk_stall_share: Share of the time in which everything on the machine that had
            something to do waited for a disk.
        gpus: The GPUs that the process had open.
        lines: Lines of the program that held its threads, by role, largest share first.
    """

    run_delay_share: float | None
    background_cores: float | None
    cores: int | None
    peak_resident_bytes: int | None
    disk_wait_share: float | None = None
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    machine_disk_stall_share: float | None = None
    gpus: tuple[GpuLoad, ...] = ()
    lines: tuple[HostLine, ...] = ()


class Steps(msgspec.Struct, frozen=True):
    """The steps: how they were found and how long they take.

    Args:
        count: All steps found, warm-up included.
        source: 'marker': the trace marks them; 'hook': stepwhy observed them unprofiled;
            'periodicity': inferred from what repeats; 'whole-trace': none found, one span.
        confidence: 0..1 that these are the training's steps.
        median_ns, p10_ns, p90_ns: Of all steps found; where the step time changed for good, of
            those of the described stretch.
        steady: Steps that the means are taken over.
        warm_up: Leading steps left out as warm-up, of the described stretch.
        device_side: Whether steps are cut where their device work ends, because launches run
            ahead of the device.
        note: One sentence about how they were cut, or ''.
        durations_ns: Every step's wall time, in order.
        profiler_cost: Relative cost of profiling a step (0.1 = 10 % longer), where unprofiled
            steps were observed as well.
        profiler_cost_interval: Its 95 % interval.
        observer_cost_ns: What watching adds to a step: full against light steps of this run; None
            where it cannot be told.
        observer_cost_interval_ns: Its 95 % interval; None where too few steps were light.
        observer_cost_missing_steps: About how many more steps would tell it; None where it is told,
            or where nothing was watched.
        stretches: The parts of an observed run between lasting changes of the step time, in order.
        traced: Where the profiled steps lie among `durations_ns`, in order.
    """

    count: int
    source: StepSource
    confidence: float
    median_ns: int
    p10_ns: int
    p90_ns: int
    steady: int
    warm_up: int
    device_side: bool
    note: str = ""
    durations_ns: tuple[int, ...] = ()
    profiler_cost: float | None = None
    profiler_cost_interval: tuple[float, float] | None = None
    observer_cost_ns: int | None = None
    observer_cost_interval_ns: tuple[int, int] | None = None
    observer_cost_missing_steps: int | None = None
    stretches: tuple[Stretch, ...] = ()
    traced: tuple[Traced, ...] = ()


class Breakdown(msgspec.Struct, frozen=True):
    """The closed partition of a step: `categories` sum to `wall_ns` exactly.

    Args:
        wall_ns: Mean wall time of the steady steps.
        categories: ns per category, all of `CATEGORIES`.
        phases: Compute ns per phase ('forward', 'backward', 'optimizer', ..., 'unknown'), added up
            over what runs at once: their sum is `compute` only where nothing overlaps.
        hottest_line: Source line that holds the driving thread most while the device is idle.
    """

    wall_ns: int
    categories: dict[str, int]
    phases: dict[str, int]
    hottest_line: str = ""


class Device(msgspec.Struct, frozen=True):
    """One device over a mean steady step. Bytes are None where no copy of it is recorded."""

    name: str
    kind: str
    busy_ns: int
    busy_fraction: float
    compute_ns: int
    communication_ns: int
    exposed_communication_ns: int
    transfer_ns: int
    h2d_bytes: int | None
    d2h_bytes: int | None
    model: str = ""
    breakdown: dict[str, int] = msgspec.field(default_factory=dict)


class DeviceTotal(msgspec.Struct, frozen=True):
    """One device over the whole file, steps or not. Times are unions, `kernel_ns` is a sum.

    `kernel_ns` and `kernels` are null where only whole passes were timed.
    """

    name: str
    busy_ns: int
    kernel_ns: int | None
    communication_ns: int
    exposed_communication_ns: int
    h2d_ns: int
    h2d_bytes: int | None
    d2h_ns: int
    d2h_bytes: int | None
    kernels: int | None


class TraceTotals(msgspec.Struct, frozen=True):
    """Totals over the whole file."""

    span_ns: int
    devices: tuple[DeviceTotal, ...]


class Op(msgspec.Struct, frozen=True):
    """One row of the op table, over a mean steady step; `count` is per step, too."""

    name: str
    device: str
    phase: str
    count: float
    total_ns: int
    self_ns: int
    bytes: int | None


class Evidence(msgspec.Struct, frozen=True):
    """One fact behind a finding: what was measured, its value and unit, and where.

    Args:
        what: Noun phrase, e.g. 'time blocked in cudaMemcpyAsync'.
        value: The measurement, unformatted.
        unit: 'ns', 'bytes', 'fraction', 'count', or '' for text.
        where: Op, source line, device or track; '' when it concerns the whole run.
    """

    what: str
    value: float | int | str
    unit: str
    where: str = ""


class Saving(msgspec.Struct, frozen=True):
    """Predicted reduction of the step time for one edit of the program, as an interval.

    Args:
        low_ns, high_ns: The interval.
        edit: The edit as data, e.g. 'remove input_wait'; the what-if engine prices it.
    """

    low_ns: int
    high_ns: int
    edit: str


class Fix(msgspec.Struct, frozen=True):
    """What to do about a finding. `code` is a few lines to adapt, '' where none would help."""

    text: str
    code: str
    risk: Risk


class Finding(msgspec.Struct, frozen=True):
    """What one diagnosis says.

    Args:
        id: Id of the diagnosis.
        verdict: 'found': the pattern is there; 'clear': looked, and it is not;
            'not_applicable': cannot occur in such a run; 'no_data': the signal is missing;
            'incomplete': part of the signal is missing; 'error': the diagnosis failed.
        title: Descriptive when clear, imperative when a fix is offered; no numbers.
        cost_ns_per_step: What the pattern costs a mean steady step; None where it costs no
            time by itself (or none that can be told).
        saving: Predicted saving of the fix, or None.
        evidence: The facts, most important first.
        fix: What to do, or None.
        reason: Why it abstained or failed; '' otherwise.
    """

    id: str
    verdict: FindingVerdict
    title: str
    cost_ns_per_step: int | None = None
    saving: Saving | None = None
    evidence: tuple[Evidence, ...] = ()
    fix: Fix | None = None
    reason: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """What bounds the step; 'unknown' with the reason in `sentence` when it cannot be told."""

    bound_by: BoundBy
    confidence: float
    sentence: str


class Result(msgspec.Struct, frozen=True):
    """Everything that stepwhy says about a run; findings come sorted by cost, events by time."""

    verdict: Verdict
    inputs: tuple[Input, ...]
    run: Run
    steps: Steps
    breakdown: Breakdown
    devices: tuple[Device, ...]
    trace: TraceTotals
    ops: tuple[Op, ...]
    findings: tuple[Finding, ...]
    schema: str = SCHEMA
    stepwhy: str = ""
    notes: tuple[str, ...] = ()
    host: HostLoad | None = None
    events: tuple[EventGroup, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    placement: Placement | None = None
    memory: tuple[MemoryUse, ...] = ()
    parallel: ParallelUse | None = None
