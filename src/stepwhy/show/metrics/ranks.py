"""The ranks of a running job, compared by their last steps: which are late, and which stopped.

Ranks that exchange data in every step take equally long, so the step time shows nobody to blame.
What a rank does by itself does: waiting for its input, and CPU time of the thread that drives the
training. Lateness on a GPU is in neither.
"""

from __future__ import annotations

from bisect import bisect_left
from statistics import median
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# Less than this share of the step is the variation between ranks and steps.
_MUCH = 0.1
# A rank is late if it is so in this share of its last steps, of which there are so many.
_OFTEN = 0.5
_FEWEST_STEPS = 4
# On a GPU, the host delays the step only if it is busy for most of it: otherwise it runs ahead.
_HOST_BOUND = 0.8
# A rank without a step for so many usual steps has stopped, but not before so many seconds: logs
# are written at least every half second of steps, and checkpoints take a while.
_STEPS_TO_STOP = 10
_STOPPED_S = 10.0
# Last lines of a log may be written so much later on one rank than on another one.
_WRITTEN_S = 1.0
# A core more or less, or half of a GPU, tells a rank that hangs from those that wait for it.
_UNLIKE_CORES = 0.5
_UNLIKE_GPU = 0.5


class RecentStep(NamedTuple):
    """One of the last steps of a rank, or the medians of all of them.

    Attributes:
        duration_ns: Its wall time.
        input_wait_ns: Time in which it waited for input; None if no wait was seen.
        cpu_ns: CPU time of the driving thread; None if unknown.
    """

    duration_ns: int
    input_wait_ns: int | None = None
    cpu_ns: int | None = None


class Gpu(NamedTuple):
    """What a GPU did when it was last sampled; None for what its driver does not tell.

    Attributes:
        busy: Share of the time in which a kernel ran, 0..1.
        used_bytes: Memory in use by all programs.
    """

    busy: float | None = None
    used_bytes: int | None = None


class RankNow(NamedTuple):
    """One rank of a job that runs; None for what was not recorded.

    Attributes:
        rank: Its number; None without one.
        steps: Its last steps, the oldest first.
        usual: The medians of these; None without a step.
        last_step_ns: End of its last step, ns since the epoch of its machine.
        silent_s: Time since its log grew, s; without a step, since its process was recorded.
        is_ended: Whether its process has ended.
        cores: CPU cores that its process used between its last two samples.
        resident_bytes: Resident memory.
        gpus: Its GPUs.
        sampled_ns: Time of the last sample, ns since the epoch of its machine.
        folder: Where its process writes its logs.
        has_noted: Whether it has noted where it stood in a step that took long.
        timed_steps: Number of steps without a profiler that were read of its log.
        timed_ns: Their wall time.
    """

    rank: int | None
    steps: tuple[RecentStep, ...] = ()
    usual: RecentStep | None = None
    last_step_ns: int | None = None
    silent_s: float = 0.0
    is_ended: bool = False
    cores: float | None = None
    resident_bytes: int | None = None
    gpus: tuple[Gpu, ...] = ()
    sampled_ns: int | None = None
    folder: str = ""
    has_noted: bool = False
    timed_steps: int = 0
    timed_ns: int = 0

    @property
    def may_hang(self) -> bool:
        """Whether it is in the loop: it takes steps, or says that the first one takes long."""
        return bool(self.steps) or self.has_noted

    @property
    def step_ns(self) -> int | None:
        """Median of its last steps."""
        return None if self.usual is None else self.usual.duration_ns

    @property
    def input_wait_ns(self) -> int | None:
        """Median of the waits for input in its last steps."""
        return None if self.usual is None else self.usual.input_wait_ns

    @property
    def cpu_ns(self) -> int | None:
        """Median CPU time of the driving thread in its last steps."""
        return None if self.usual is None else self.usual.cpu_ns

    @property
    def gpu_busy(self) -> float | None:
        """Share of the time in which its GPUs were busy, the mean of those that tell it."""
        known = [gpu.busy for gpu in self.gpus if gpu.busy is not None]
        return sum(known) / len(known) if known else None

    @property
    def gpu_bytes(self) -> int | None:
        """Memory in use on its GPUs."""
        known = [gpu.used_bytes for gpu in self.gpus if gpu.used_bytes is not None]
        return sum(known) if known else None


class Judged(NamedTuple):
    """A rank, and how it compares with the others.

    Attributes:
        now: The rank.
        late_ns: How much longer than the others it waits for input or computes on the CPU in a
            step, the median of its last steps; 0 if it is not late.
        cause: 'input' or 'cpu' if it is late; ''.
        has_stopped: Whether it has ended no step for a long time, and its process has not ended.
        is_suspect: Of ranks that have stopped, one that stopped before the others, or that does
            something else than they do since.
    """

    now: RankNow
    late_ns: int = 0
    cause: str = ""
    has_stopped: bool = False
    is_suspect: bool = False


def usual_step(steps: Sequence[RecentStep]) -> RecentStep | None:
    """The medians of the last steps of a rank; None without any."""
    duration_ns = _median(step.duration_ns for step in steps)
    if duration_ns is None:
        return None
    return RecentStep(
        duration_ns,
        _median(step.input_wait_ns for step in steps if step.input_wait_ns is not None),
        _median(step.cpu_ns for step in steps if step.cpu_ns is not None),
    )


def judge(ranks: Sequence[RankNow]) -> list[Judged]:
    """Compare ranks with each other, in their order.

    Args:
        ranks: All ranks of a job.
    """
    step_ns = _median(rank.step_ns for rank in ranks if rank.step_ns is not None) or 0
    late = _late(ranks, step_ns)
    limit_s = max(_STOPPED_S, _STEPS_TO_STOP * step_ns / 1e9)
    stopped = [rank.may_hang and not rank.is_ended and rank.silent_s > limit_s for rank in ranks]
    suspects = _suspects([rank for rank, is_so in zip(ranks, stopped, strict=True) if is_so])
    return [
        Judged(rank, *late[place], stopped[place], stopped[place] and rank in suspects)
        for place, rank in enumerate(ranks)
    ]


def _late(ranks: Sequence[RankNow], step_ns: int) -> list[tuple[int, str]]:
    """How late each rank is, and by what: 'input' or 'cpu'."""
    waits = _excess(ranks, step_ns, lambda rank: rank.input_wait_ns, lambda s: s.input_wait_ns)
    cpu = _excess(ranks, step_ns, lambda rank: rank.cpu_ns, lambda s: s.cpu_ns)
    found = []
    for rank, wait_ns, more_ns in zip(ranks, waits, cpu, strict=True):
        cpu_ns = more_ns if not rank.gpus or _is_host_bound(rank) else 0
        longest = max(wait_ns, cpu_ns)
        cause = "input" if wait_ns >= cpu_ns else "cpu"
        found.append((longest, cause if longest else ""))
    return found


def _is_host_bound(rank: RankNow) -> bool:
    return (rank.cpu_ns or 0) >= _HOST_BOUND * (rank.step_ns or 0)


def _excess(
    ranks: Sequence[RankNow],
    step_ns: int,
    typical: Callable[[RankNow], int | None],
    of_step: Callable[[RecentStep], int | None],
) -> list[int]:
    """How much longer than the median of the others each rank takes; 0 if it rarely does.

    Args:
        ranks: The ranks.
        step_ns: The usual step of the job.
        typical: The median of a rank.
        of_step: The time of one step.
    """
    known = sorted(ns for ns in map(typical, ranks) if ns is not None)
    found = []
    for rank in ranks:
        own = typical(rank)
        usual = None if own is None else _median_without(known, own)
        if usual is None:
            found.append(0)
            continue
        more = [ns - usual for ns in map(of_step, rank.steps) if ns is not None]
        often = sum(ns > _MUCH * step_ns for ns in more) >= _OFTEN * len(rank.steps)
        found.append(max(round(median(more)), 0) if often and len(more) >= _FEWEST_STEPS else 0)
    return found


def _median_without(values: Sequence[int], one: int) -> float | None:
    """Median of sorted values without one of them; None if there is no other."""
    count = len(values) - 1
    if count < 1:
        return None
    place = bisect_left(values, one)
    middle = [i + (i >= place) for i in ((count - 1) // 2, count // 2)]
    return (values[middle[0]] + values[middle[1]]) / 2


def _suspects(stopped: Sequence[RankNow]) -> list[RankNow]:
    """Of ranks that have stopped, those that the others wait for, as far as that shows."""
    ends = [rank.last_step_ns or 0 for rank in stopped]
    step_ns = _median(rank.step_ns for rank in stopped if rank.step_ns is not None) or 0
    # The others ended another step, perhaps after they were one ahead.
    margin_ns = max(_WRITTEN_S * 1e9, 1.5 * step_ns)
    first = [r for r, end in zip(stopped, ends, strict=True) if max(ends) - end > margin_ns]
    if first:
        return first
    since = [r for r in stopped if (r.sampled_ns or 0) > (r.last_step_ns or 0)]
    unlike = {
        *_unlike(since, lambda rank: rank.gpu_busy, _UNLIKE_GPU),
        *_unlike(since, lambda rank: rank.cores, _UNLIKE_CORES),
    }
    return [rank for place, rank in enumerate(since) if place in unlike]


def _unlike(
    ranks: Sequence[RankNow], measure: Callable[[RankNow], float | None], much: float
) -> list[int]:
    """Places of the few ranks whose measure differs from the median by more than a margin."""
    values = [measure(rank) for rank in ranks]
    known = [value for value in values if value is not None]
    if not known:
        return []
    middle = median(known)
    found = [i for i, v in enumerate(values) if v is not None and abs(v - middle) > much]
    return found if 2 * len(found) < len(known) else []


def _median(values: Iterable[int]) -> int | None:
    every = list(values)
    return round(median(every)) if every else None
