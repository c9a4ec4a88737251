"""The result of `stepwhy explain`, from which all reports are made.

`docs/reference/result-schema.json` is generated from these classes. Adding a field is free;
renaming or removing one needs a new `SCHEMA`. Unless a field says otherwise, times are integer
nanoseconds and a mean per step over the steady steps; `None` means 'not recorded', never zero.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepwhy.result.abstentions import Abstention  # noqa: TC001 - the schema reads it
from stepwhy.result.breakdown import Breakdown  # noqa: TC001 - the schema reads it
from stepwhy.result.edits import Edit  # noqa: TC001 - the schema reads it
from stepwhy.result.lines import LineBreakdown  # noqa: TC001 - the schema reads it
from stepwhy.result.machine import GpuLoad, HostLine  # noqa: TC001 - the schema reads them
from stepwhy.result.memory import MemoryUse  # noqa: TC001 - the schema reads it
from stepwhy.result.parallel import ParallelUse  # noqa: TC001 - the schema reads it
from stepwhy.result.placement import Placement  # noqa: TC001 - the schema reads it
from stepwhy.result.ranks import GroupUse, RankSteps, RankUse  # noqa: TC001 - the schema reads them
from stepwhy.result.wall_clock import WallClock  # noqa: TC001 - the schema reads it
from stepwhy.result.watched import EventGroup, Pipeline, Stretch, Traced  # noqa: TC001 - the JSON schema reads the annotations

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
    """A kind of event while an input was read, and how often it happened.

    Args:
        dropped: Whether these records are missing from the trace.
    """

    counter: str
    severity: Literal["info", "warning", "error"]
    count: int
    help: str
    dropped: bool = False


class Input(msgspec.Struct, frozen=True):
    """One input file; `events_read` is `events_kept` plus the counts of all dropped records."""

    path: str
    format: str
    events_read: int
    events_kept: int
    health: tuple[HealthEntry, ...] = ()


class Run(msgspec.Struct, frozen=True):
    """The observed run; empty strings and None for what the trace does not record.

    Args:
        exit_code: Exit code of an observed command; 128 + n if signal n ended it.
        exception: Type of the exception that ended it.
        ending: How it ended, in sentences; '' for a normal end.
        untraced_advice: What to change so that steps can be traced, if none was.
        python: Version of Python.
        cpu: Model of the processor.
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
    python: str = ""
    cpu: str = ""


class HostLoad(msgspec.Struct, frozen=True):
    """The machine during an observed run; None for what was not recorded.

    Args:
        run_delay_share: Share of the process's runnable time in which it waited for a CPU core.
        background_cores: Cores that other programs kept busy on average.
        cores: Cores of the machine.
        peak_resident_bytes: Largest resident memory of the process.
        disk_wait_share: Share of the time in which the process's main thread was blocked on a
            disk.
        disk_read_bytes, disk_written_bytes: Bytes that the process read from and wrote to disks.
        machine_disk_stall_share: Share of the time in which all tasks of the machine that were not
            idle waited for a disk.
        gpus: The GPUs that the process had open.
        lines: Lines of the program in which its threads were most often, by role, largest share
            first.
        runnable_threads: Threads of the process that ran or waited for a core, on average.
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
    runnable_threads: float | None = None


class Steps(msgspec.Struct, frozen=True):
    """The steps, how they were found, and how long they take.

    Args:
        count: All steps found, warm-up included.
        source: 'marker': the trace marks them; 'hook': stepwhy observed them unprofiled;
            'periodicity': inferred from repeated operations; 'whole-trace': none found, one span.
        confidence: Confidence that these are the steps of the training, 0..1.
        median_ns, p10_ns, p90_ns: Percentiles of the steps without warm-up; if the step time
            changed permanently, of those of the described stretch.
        steady: Number of steps that means are computed from.
        warm_up: Number of leading steps of the described stretch that are left out as warm-up.
        device_side: Whether steps are cut where their device work ends, because launches run
            ahead of the device.
        note: One sentence about how they were cut, or ''.
        durations_ns: Wall time of every step, in order.
        profiler_cost: Relative cost of profiling a step (0.1 = 10 % longer), if unprofiled steps
            were observed as well.
        profiler_cost_interval: Its 95 % interval.
        observer_cost_ns: Time that observation adds to an observed step, measured against those of
            this run that were only timed; None if unknown.
        observer_cost_interval_ns: Its 95 % interval; None if too few steps had little observation.
        observer_cost_missing_steps: About how many more steps it takes to measure that cost; None
            if it was measured, or if nothing was observed.
        observer_share: What observed and profiled steps added to the time of all steps (0.01 is
            1 %); None if unknown. Start-up, and the microseconds that it takes to time a step, are
            not included.
        sampling_cores: Cores that sampling from outside kept busy, on average; None if unknown.
        stretches: Parts of an observed run between permanent changes of the step time, in order.
        traced: Positions of the profiled steps among `durations_ns`, in order.
        examples: Examples that a step of this process trains on; None if it is not recorded, or
            differs.
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
    observer_share: float | None = None
    sampling_cores: float | None = None
    stretches: tuple[Stretch, ...] = ()
    traced: tuple[Traced, ...] = ()
    examples: int | None = None


class Device(msgspec.Struct, frozen=True):
    """One device in a mean steady step; bytes are None if no copy of it is recorded."""

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
    """One device over the whole file, inside and outside of steps.

    Overlapping times count once, except in `kernel_ns`, which is a sum. `kernel_ns` and `kernels`
    are null if only whole passes were timed.
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
    """One row of the table of operations; all numbers are per mean steady step."""

    name: str
    device: str
    phase: str
    count: float
    total_ns: int
    self_ns: int
    bytes: int | None


class Evidence(msgspec.Struct, frozen=True):
    """One fact that supports a finding.

    Args:
        what: Noun phrase, e.g. 'time blocked in cudaMemcpyAsync'.
        value: The measurement, unformatted.
        unit: 'ns', 'bytes', 'fraction', 'count', or '' for text.
        where: Op, source line, device or track; '' for the whole run.
    """

    what: str
    value: float | int | str
    unit: str
    where: str = ""


class Saving(msgspec.Struct, frozen=True):
    """Predicted reduction of the step time by one edit of the program, as an interval.

    Args:
        low_ns, high_ns: Ends of the interval.
        edit: The edit as text, e.g. 'input=free', as `stepwhy whatif --edit` accepts it; for a
            bound, what the fix does in words.
        method: 'bound': from the cost alone; 'cpu', 'replay' or 'ranks': by a model of the run, as
            in `Prediction`.
        remaining_ns: Predicted step time, ns; None for a bound.
        note: How it was predicted, and how well such predictions fitted, in sentences.
    """

    low_ns: int
    high_ns: int
    edit: str
    method: Literal["bound", "cpu", "replay", "ranks"] = "bound"
    remaining_ns: int | None = None
    note: str = ""


class Fix(msgspec.Struct, frozen=True):
    """How to fix a problem; `code` is a few lines to adapt, or ''.

    Args:
        text: What to do.
        code: A few lines to adapt, or ''.
        risk: What else the fix may change.
        compare: What shows whether numerical results change: losses, or outputs where the trace
            shows no training.
    """

    text: str
    code: str
    risk: Risk
    compare: Literal["losses", "outputs"] = "losses"


class Finding(msgspec.Struct, frozen=True):
    """Result of one diagnosis.

    Args:
        id: Id of the diagnosis.
        verdict: 'found': the problem occurs; 'clear': it was looked for and does not occur;
            'not_applicable': it cannot occur in such a run; 'no_data': the signal is missing;
            'incomplete': part of the signal is missing; 'error': the diagnosis failed.
        title: Instruction if found, else a description; without numbers.
        cost_ns_per_step: Cost of the problem per mean steady step; None if it costs no time by
            itself, or if the cost is unknown.
        saving: Predicted saving of the fix, or None.
        evidence: Facts that support it, most important first.
        fix: How to fix it, or None.
        reason: Why it abstained or failed; '' otherwise.
        explained_by: Id of the finding that explains this one, or that has to be fixed before
            this one can matter; '' for none.
        hidden: Whether the finding in `explained_by` does not cause this one, but only hides it:
            this one is next when the other is fixed.
        edit: What the fix changes, from which the step after it can be predicted; None if that
            cannot be predicted.
        abstention: Why there is no answer, for programs; None if it is found or clear.
        ranks: Of several ranks, those in which the problem occurs, ascending; () for what the
            comparison of the ranks shows, and if only one was read.
        is_optional: Whether nothing shows that the fix helps here, so that it is listed last and a
            trial has to tell.
    """

    id: str
    verdict: FindingVerdict
    title: str
    cost_ns_per_step: int | None = None
    saving: Saving | None = None
    evidence: tuple[Evidence, ...] = ()
    fix: Fix | None = None
    reason: str = ""
    explained_by: str = ""
    hidden: bool = False
    edit: Edit | None = None
    abstention: Abstention | None = None
    ranks: tuple[int, ...] = ()
    is_optional: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """What bounds the step, in one sentence; 'unknown' with the reason if nothing shows it.

    Args:
        bound_by: The bound.
        confidence: 0..1.
        sentence: The verdict in words.
        caveat: Why the measured times are not reliable; '' if nothing is known against them.
        abstention: Why nothing shows it, for programs; None unless it is 'unknown'.
        cause: What is wrong, in one sentence, without what is fine and what to do about it.
    """

    bound_by: BoundBy
    confidence: float
    sentence: str
    caveat: str = ""
    abstention: Abstention | None = None
    cause: str = ""


class Result(msgspec.Struct, frozen=True):
    """The whole result for a run; findings are sorted by cost, events by time.

    `nothing_found` says what the step consists of, and where to look, if no problem was found.
    """

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
    wall_clock: WallClock | None = None
    lines: LineBreakdown | None = None
    ranks: tuple[RankUse, ...] = ()
    groups: tuple[GroupUse, ...] = ()
    rank_steps: RankSteps | None = None
    nothing_found: str = ""
