"""Ranges of a Megatron-LM iteration as device time, without claiming what they do not tell.

A range nests others (a layer in a pass, an all-reduce in a layer), and only the innermost says what
the GPU does: an exchange inside of a pass is no computation. Ranges that hold others are therefore
cut into the parts in which they are innermost.

Source: the names of the scopes in MegatronApp's `megatron/training/trace.py`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.patterns import regex
from stepwhy.trace import NULL, Kind, Phase, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepwhy.trace import TraceBuilder


class Range(NamedTuple):
    """A range on the GPU of one rank, times in ns.

    Args:
        rank: Rank that it ran on.
        lane: Thread of the rank; ranges of one lane nest.
        name: Its name.
        start_ns: Start.
        end_ns: End.
        iteration: Number of its iteration, NULL when not told.
        stage: Pipeline stage of the rank, NULL when not told.
        chunk: Model chunk of an interleaved schedule, NULL when not told.
    """

    rank: int
    lane: int
    name: str
    start_ns: int
    end_ns: int
    iteration: int = NULL
    stage: int = NULL
    chunk: int = NULL


class Iteration(NamedTuple):
    """An iteration of the training loop as one rank saw it, times in ns.

    Args:
        rank: The rank.
        number: Which iteration.
        start_ns: Start.
        end_ns: End.
        gaps_end_ns: Until when a rank that has done its part waits for others, NULL where that
            cannot be told from its update of the weights.
    """

    rank: int
    number: int
    start_ns: int
    end_ns: int
    gaps_end_ns: int


_EXCHANGE = regex(
    r"_?(send|recv|exchange|all_?reduce|reduce|all_?gather|gather|reduce_?scatter|all_?to_?all"
    r"|broadcast|grad[-_]sync)([-_].*)?"
)
_PHASES = (
    (regex(r"forward"), Phase.FORWARD),
    (regex(r"backward"), Phase.BACKWARD),
    (regex(r"optimizer"), Phase.OPTIMIZER),
)
NOT_RECORDED = "exchange with other stages (not recorded)"
"""Name of the gaps between the passes of a pipeline stage."""

_GUESSED = (
    "Ranges were timed as a whole: a pass counts as computation from start to end, although the "
    "GPU may idle inside of it."
)


def exchanges(name: str) -> bool:
    """Whether a range moves data between ranks."""
    return _EXCHANGE.fullmatch(name) is not None


def phase_of(name: str) -> Phase:
    """Phase that a range's name tells ('forward-warmup'), UNKNOWN for what lies inside of one."""
    if exchanges(name):
        return Phase.COMMUNICATION
    return next((phase for pattern, phase in _PHASES if pattern.match(name)), Phase.UNKNOWN)


def gpu_name(number: int) -> str:
    """Name of a GPU, with its number where the file tells it."""
    return f"GPU:{number}" if number != NULL else "GPU"


def add_ranges(builder: TraceBuilder, ranges: list[Range], devices: dict[int, int]) -> None:
    """Add ranges as slices of their ranks' GPUs.

    Args:
        builder: Takes tracks and slices, counts what was guessed.
        ranges: The ranges.
        devices: Row of every rank's GPU.
    """
    lanes: dict[tuple[int, int], list[Range]] = defaultdict(list)
    for one in ranges:
        lanes[one.rank, one.lane].append(one)
    for (rank, lane), mine in sorted(lanes.items()):
        track = builder.track(
            Role.STREAM, f"stream {lane}", process=rank, thread=lane, device=devices[rank]
        )
        _add_lane(builder, track, sorted(mine, key=lambda r: (r.start_ns, -r.end_ns)))
    passes = sum(phase_of(r.name) in {Phase.FORWARD, Phase.BACKWARD} for r in ranges)
    builder.health.count("guessed-device-time", "warning", _GUESSED, count=passes, dropped=False)


def _add_lane(builder: TraceBuilder, track: int, ranges: list[Range]) -> None:
    """Add ranges that nest, parents first: whole, or as the parts in which they are innermost."""
    parents, parts = _nest(ranges)
    holders = set(parents)
    phases: list[Phase] = []
    for i, one in enumerate(ranges):
        own = phase_of(one.name)
        inherits = own is Phase.UNKNOWN and parents[i] != _NO_PARENT
        phases.append(phases[parents[i]] if inherits else own)
        kind = _kind(phases[i])
        times = [(one.start_ns, one.end_ns)]
        if i in holders:
            _add(builder, track, Kind.DEVICE_ANNOTATION, one.name, times)
            times = parts[i] if kind is not Kind.DEVICE_ANNOTATION else []
        _add(builder, track, kind, one.name, times, phase=phases[i])


def _add(
    builder: TraceBuilder,
    track: int,
    kind: Kind,
    name: str,
    times: Iterable[tuple[int, int]],
    *,
    phase: Phase = Phase.UNKNOWN,
) -> None:
    for start_ns, end_ns in times:
        builder.slice(track, kind, name, start_ns, end_ns - start_ns, phase=int(phase))


def _kind(phase: Phase) -> Kind:
    """Exchange, computation where it is part of a pass or the optimizer, else nothing claimed."""
    if phase is Phase.COMMUNICATION:
        return Kind.COLLECTIVE
    return Kind.DEVICE_ANNOTATION if phase is Phase.UNKNOWN else Kind.KERNEL


_NO_PARENT = -1


def _nest(ranges: list[Range]) -> tuple[list[int], dict[int, list[tuple[int, int]]]]:
    """The enclosing range of each, and the parts of each in which it is innermost."""
    parents: list[int] = []
    parts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    stack: list[int] = []
    cursor = 0

    def reach(time_ns: int) -> None:
        """Attribute the time up to here, and close what has ended by then."""
        nonlocal cursor
        while stack and cursor < time_ns:
            end = min(ranges[stack[-1]].end_ns, time_ns)
            if end > cursor:
                parts[stack[-1]].append((cursor, end))
            cursor = max(cursor, end)
            if ranges[stack[-1]].end_ns <= time_ns:
                stack.pop()
        cursor = time_ns

    for i, one in enumerate(ranges):
        reach(one.start_ns)
        while stack and ranges[stack[-1]].end_ns <= one.start_ns:
            stack.pop()
        parents.append(stack[-1] if stack else _NO_PARENT)
        stack.append(i)
    reach(max((r.end_ns for r in ranges), default=0))
    return parents, parts


def add_iterations(builder: TraceBuilder, iterations: Iterable[Iteration]) -> None:
    """Add the iterations as step markers of their ranks."""
    for one in iterations:
        track = builder.track(
            Role.HOST_THREAD, f"rank {one.rank}", process=one.rank, thread=one.rank
        )
        name = f"iteration {one.number}"
        builder.slice(track, Kind.STEP, name, one.start_ns, one.end_ns - one.start_ns)


def add_gaps(
    builder: TraceBuilder,
    ranges: list[Range],
    iterations: Iterable[Iteration],
    devices: dict[int, int],
) -> None:
    """Add the time between the passes of a pipeline stage as waits for other stages.

    Between two passes of an iteration, a stage of Megatron-LM's schedules does nothing but exchange
    activations and gradients with its neighbours, which wait for each other in it. Files that
    record the exchanges themselves, and runs without a pipeline, need no such guess.

    Args:
        builder: Takes tracks and slices.
        ranges: All ranges.
        iterations: All iterations.
        devices: Row of every rank's GPU.
    """
    if not guesses_gaps(ranges):
        return
    passes: dict[tuple[int, int], list[Range]] = defaultdict(list)
    for one in ranges:
        passes[one.rank, one.iteration].append(one)
    gaps = [
        (one.rank, start_ns, end_ns)
        for one in iterations
        for start_ns, end_ns in _gaps(one, passes[one.rank, one.number])
    ]
    for rank, start_ns, end_ns in gaps:
        track = builder.track(
            Role.EXECUTOR, "pipeline", process=rank, thread=rank, device=devices[rank]
        )
        builder.slice(track, Kind.WAIT, NOT_RECORDED, start_ns, end_ns - start_ns)


def guesses_gaps(ranges: Sequence[Range]) -> bool:
    """Whether the ranges are of a pipeline whose exchanges were not recorded."""
    is_pipeline = any(r.stage > 0 or r.chunk > 0 for r in ranges) or _runs_ahead(ranges)
    return is_pipeline and not any(exchanges(r.name) for r in ranges)


_AHEAD = {Phase.FORWARD: 1, Phase.BACKWARD: -1}


def _runs_ahead(ranges: Sequence[Range]) -> bool:
    """Whether a rank begins a forward pass before the backward pass of the last microbatch.

    Without a pipeline each microbatch is taken forward and backward before the next one.
    """
    pending: dict[tuple[int, int], int] = defaultdict(int)
    for one in sorted(ranges, key=lambda r: r.start_ns):
        pending[one.rank, one.iteration] += _AHEAD.get(phase_of(one.name), 0)
        if pending[one.rank, one.iteration] > 1:
            return True
    return False


def _gaps(iteration: Iteration, ranges: list[Range]) -> Iterator[tuple[int, int]]:
    """The times of an iteration in which its rank is between two ranges.

    Before the first one, only a later stage waits: the first stage has its input at once.
    """
    if not ranges:
        return
    waits_at_start = any(r.stage > 0 for r in ranges)
    first = min(r.start_ns for r in ranges)
    cursor = iteration.start_ns if waits_at_start else first
    for one in sorted(ranges, key=lambda r: r.start_ns):
        if one.start_ns > cursor:
            yield cursor, one.start_ns
        cursor = max(cursor, one.end_ns)
    if iteration.gaps_end_ns > cursor:
        yield cursor, iteration.gaps_end_ns
