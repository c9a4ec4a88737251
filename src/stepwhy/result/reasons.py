"""Reasons for verdicts and notes, as data; `stepwhy.result.wording` puts them into sentences.

Those for notes on the machine are in `stepwhy.result.machine`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Literal, TypeAlias

import msgspec

from stepwhy.result.result import BoundBy  # noqa: TC001 - the class reads it

HostCategory = Literal["sync", "dispatch", "python"]
Recorded = Literal["steps", "step", "run", "runs", "trace"]

# --- no verdict ----------------------------------------------------------------------------------


class Lack(Enum):
    """What a record lacks, so that nothing can tell what bounds the step."""

    EVENTS = auto()
    STEP_CONTENT = auto()
    """A file of training summaries holds step times only."""
    CONTENT_BESIDE_QUEUES = auto()
    CONTENT_BESIDE_MEMORY = auto()
    FRAMEWORK = auto()
    """Steps were timed, but no framework ran in them that can be traced."""
    TRACED_STEPS = auto()
    """The run ended before a step could be traced."""
    DEVICE_ACTIVITY = auto()
    DEVICE_ACTIVITY_CUT_OFF = auto()
    DEVICE_USE = auto()
    """The machine has an accelerator; nothing shows whether the run used it."""
    KERNELS = auto()
    """The run launched work, and the profiler delivered none."""
    KERNELS_OF_A_DEVICE = auto()
    DEVICE_WORK = auto()
    """Kernels and copies that were launched; share of all of them, 0..1."""
    DEVICE_OWNERS = auto()
    """Which of several merged processes used which device; their number, if known."""
    COMMON_CLOCK = auto()
    OPERATIONS = auto()
    """Too few on a CPU; how many per step."""
    WHOLE_STEP = auto()
    """Too little device work without a step marker; how many kernels and copies."""
    AWAITED_WORK = auto()
    """Device work that the host waits for; share of the record, 0..1."""
    TRACED_WAITS = auto()
    """The host waits for the device in some steps only, and none of those was traced."""
    LAST_WAIT = auto()
    """The device was behind when the last step was launched; least time of a step, ns."""
    CAUSE_OF_IDLE_TIME = auto()
    """Share of the step, 0..1."""


class Gap(msgspec.Struct, frozen=True):
    """Something that the record lacks, with the number that `Lack` names for it."""

    lack: Lack
    number: float | None = None


class NotTraced(msgspec.Struct, frozen=True):
    """Steps, or runs of a session without a loop, were timed, but could not be traced."""

    steps: int
    why: str
    advice: str
    unit: Literal["step", "run"] = "step"


class Limited(msgspec.Struct, frozen=True):
    """What the format cannot show, and what to record instead, as its importer says."""

    why: str


class Lead(Enum):
    """Where to look for time without evidence."""

    RECORD_AGAIN = auto()
    RECORD_STACKS = auto()
    """Operations of the host were recorded, but no Python stacks."""
    BETWEEN_CALLS = auto()
    BUSY_CORES = auto()
    """The process waited for a CPU core; share of its runnable time, 0..1."""
    SAMPLED_LINE = auto()
    """Line of the program; share of the driving thread's stack samples, 0..1."""


class NoEvidence(msgspec.Struct, frozen=True):
    """Share of the step without evidence, 0..1, and where to look for its cause."""

    share: float
    lead: Lead
    lead_share: float = 0.0
    line: str = ""


Unknown: TypeAlias = Gap | NotTraced | Limited | NoEvidence
"""Why nothing can tell what bounds the step."""


def lack_of(reason: Unknown) -> str:
    """What the record lacks, as a name of `abstentions.SIGNALS`."""
    match reason:
        case Gap(lack):
            return _NAMES.get(lack, lack.name.lower().replace("_", "-"))
        case NotTraced():
            return "traced-steps"
        case Limited():
            return "format"
        case NoEvidence():
            return "cause-of-idle-time"


_NAMES = {
    Lack.CONTENT_BESIDE_QUEUES: "step-content",
    Lack.CONTENT_BESIDE_MEMORY: "step-content",
    Lack.DEVICE_ACTIVITY_CUT_OFF: "device-activity",
    Lack.DEVICE_USE: "device-activity",
    Lack.KERNELS_OF_A_DEVICE: "kernels",
    Lack.DEVICE_WORK: "kernels",
    Lack.OPERATIONS: "enough-operations",
}
"""Names of what is not called like its member of `Lack`."""

# --- a verdict -----------------------------------------------------------------------------------


class MostlyStartUp(msgspec.Struct, frozen=True):
    """Share of the recorded steps that is start-up, 0..1."""

    share: float


class StarvedQueue(msgspec.Struct, frozen=True):
    """A queue that was empty nearly all the time, in a record that does not show the steps.

    Args:
        name: The queue.
        share: Share of the time in which it was empty, 0..1.
    """

    name: str
    share: float


class NeverAhead(msgspec.Struct, frozen=True):
    """Batches were fetched nearly all the time, in a record that does not show the steps.

    Args:
        share: Share of the time in which a batch was being fetched, 0..1.
    """

    share: float


class Bound(msgspec.Struct, frozen=True):
    """What bounds the mean steady step.

    Args:
        by: The bound.
        time_ns: Time of the bound per step.
        wall_ns: Time of the step, less `set_up_ns`.
        compute_ns: Time of the step in which something computes.
        lost_to: The largest loss beside computation, if it is worth naming and not `by`.
        lost_ns: Time of that loss per step.
        set_up_ns: First-run set-up in a record of a single pass, which no later pass repeats.
        devices: Number of devices whose idle time counts.
        kind: Kind of the first of them, 'cpu', 'gpu' or another accelerator's.
        host: What the host does most while the device is idle.
        host_ns: Time of the step in which the host works itself, if that is nearly all of it.
        locked: Whether batches are late mostly because other threads hold the interpreter's lock.
        of: What the times are of: the mean of several steps, a single step or run of a graph, a few
            runs without a loop, or a trace in which no steps were found.
    """

    by: BoundBy
    time_ns: int
    wall_ns: int
    compute_ns: int = 0
    lost_to: BoundBy | None = None
    lost_ns: int = 0
    set_up_ns: int = 0
    devices: int = 1
    kind: str = "gpu"
    host: HostCategory = "dispatch"
    host_ns: int = 0
    locked: bool = False
    of: Recorded = "steps"


Reason: TypeAlias = Unknown | MostlyStartUp | StarvedQueue | NeverAhead | Bound
"""Why a verdict is what it is."""

# --- how steps were found and cut ----------------------------------------------------------------


class Cut(Enum):
    """How steps were found and cut, where no number belongs to it."""

    BY_OPTIMIZER = auto()
    BY_BATCHES = auto()
    BY_PASSES = auto()
    TRACED_RUNS = auto()
    """Each step is one traced run of a graph; other runs were not traced."""
    ONE_RUN = auto()
    """The trace is one run of a graph."""
    WHOLE_TRACE = auto()
    DEVICE_WORK_ONLY = auto()
    """The whole trace, from the first to the last device work."""
    WITHOUT_PROFILERS_WAITS = auto()
    """The whole trace of a CPU, without waits for an idle device at its begin and end."""
    NOTHING_RECORDED = auto()
    AT_DEVICE_ENDS = auto()
    FIRST_STEPS_LOST = auto()
    """The profiler lost the device work of the first steps."""
    LAST_STEPS_LOST = auto()
    """The record of the device ends before the work of the last steps does."""
    DEVICE_BEHIND = auto()
    """The device runs earlier work during nearly all of the marked steps."""
    DEVICE_ENDS_LOST = auto()
    """The record of the device ends before the work of every step does."""
    NOT_TRACED = auto()
    """Steps were timed, and none was traced."""


class Repeats(msgspec.Struct, frozen=True):
    """Steps begin with an operation that repeats."""

    count: int
    name: str


class BetweenMarkers(msgspec.Struct, frozen=True):
    """Share of the time from the first to the last step that is in no step, 0..1."""

    share: float


class Unprofiled(msgspec.Struct, frozen=True):
    """Step times come from unprofiled steps, the breakdown from profiled ones.

    Args:
        profiled: Number of profiled steady steps.
        mean_ns: Mean step time if it stands for the step, because only some steps wait for the
            device or for batches; None if the median does.
        with_stalls_ns: Step time with the mean time in which some steps compile, save, begin an
            epoch, start workers or collect garbage; None if that does not matter.
    """

    profiled: int
    mean_ns: int | None = None
    with_stalls_ns: int | None = None


class LongSteps(msgspec.Struct, frozen=True):
    """Some steady steps take much longer than the step that the result describes.

    Args:
        mean_ns: Mean time of all steady steps.
        share: Share of their time beyond that of the described step, 0..1.
    """

    mean_ns: int
    share: float


class Perturbed(msgspec.Struct, frozen=True):
    """Tracing made the traced steps several times as long: `times` as long as the others."""

    times: float


class RanAhead(msgspec.Struct, frozen=True):
    """The host runs ahead of the device, so that the mean stands for the step.

    Args:
        profiled: Number of profiled steady steps, which the breakdown comes from.
        mean_ns: Mean step between two times at which the device had caught up.
        with_profiled: Whether the mean includes profiled steps.
        at_least: Whether the device was behind when the last step was launched, so that the step
            takes longer than the mean.
    """

    profiled: int
    mean_ns: int
    with_profiled: bool = False
    at_least: bool = False


StepNote: TypeAlias = Cut | Repeats | BetweenMarkers | Unprofiled | LongSteps | Perturbed | RanAhead

# --- how the breakdown was corrected --------------------------------------------------------------


class Corrected(Enum):
    """Why the breakdown of the recorded steps was corrected, in the order of the corrections.

    The values are names in the result.
    """

    DISK_WAITS_APART = "disk-waits-apart"
    """Waits until files are on disk are measured without the profiler."""
    RARE_TIME_APART = "rare-time-apart"
    """Only some steps compile, save or collect garbage; the recorded ones show no usual share."""
    INPUT_MEASURED = "input-measured"
    """The wait for batches was measured in unprofiled steps."""
    SCALED = "scaled"
    """Profiled steps took longer, or less long, than unprofiled ones."""
    BEYOND_THE_RECORD = "beyond-the-record"
    """Unprofiled steps take longer than the recorded ones can explain."""
    RUNNABLE = "runnable"
    """The driving thread used a core, or waited for one, in time without evidence."""
    OUTSIDE_RUNS = "outside-runs"
    """Time between two runs of a session."""
    COMPILING = "compiling"
    """Compilation was timed in unprofiled steps."""
    RARE_TIME = "rare-time"
    """The mean of what only some steps do."""
    DISK_WAITS = "disk-waits"
    """The usual wait until files are on disk, by the log of the run."""
    LOCK_WAIT = "lock-wait"
    """Threads that prepare batches held the interpreter's lock, or the cores."""
    SAVES = "saves"
    """Checkpoints were logged, in a run without a trace."""
    GENERATORS = "generators"
    """Stack samples are in a generator that makes batches."""
    OWN_LINES = "own-lines"
    """Stack samples are in lines of the program, outside the framework."""
    LOGGING = "logging"
    """Stack samples are in libraries that log."""


# --- ranks ---------------------------------------------------------------------------------------


class RankChoice(msgspec.Struct, frozen=True):
    """Which of several ranks a result covers.

    Args:
        rank: The rank.
        ranks: Number of ranks.
        is_slowest: Whether no other takes about as long; else it waits least for the others.
        slowest_ns, fastest_ns: Longest and shortest step of all ranks.
        compute_ns: How long the rank computes per step.
        least_computing: The rank that computes least and for how long, if for much less.
        is_pipeline: Whether the ranks are stages of a pipeline; then it is a typical one of those
            that take about as long.
    """

    rank: int
    ranks: int
    is_slowest: bool
    slowest_ns: int
    fastest_ns: int
    compute_ns: int
    least_computing: tuple[int, int] | None = None
    is_pipeline: bool = False


# --- views on operations -------------------------------------------------------------------------


class NoView(Enum):
    """Why a trace cannot show a view on its operations."""

    NO_OPERATIONS = auto()
    NO_SCOPES = auto()
    NO_LINES = auto()
    NO_READS = auto()
