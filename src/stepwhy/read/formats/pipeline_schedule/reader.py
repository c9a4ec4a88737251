"""Pipeline schedules of Primus: when each pass of each micro-batch ran, one file per rank.

Times are milliseconds since the start of the iteration on this rank. What runs between iterations
is not recorded, so the iterations are laid end to end. Between its passes, a rank does nothing but
exchange activations and gradients with its neighbours.

Source: AMD-AGI/Primus, `tools/visualization/pp_vis/vis.py`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.errors import CorruptInputError, EmptyInputError, InputError
from stepwhy.base.patterns import regex
from stepwhy.read.shared.repaired_json import repaired, without_nulls
from stepwhy.trace import NULL, DeviceKind, Kind, Meta, Phase, Role, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepwhy.base.columns.types import Ints
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Health, Trace


FORMAT = "pipeline-schedule"

_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_FIRST = regex(rb'(?:\xef\xbb\xbf)?\s*\{\s*"\d{1,18}"\s*:\s*\{\s*"')
_RANK = regex(r"pp_rank_(\d{1,9})\b")
_LONGEST_MS = 1e7  # a step of hours is damage
_MOST_RANKS = 1 << 14  # more is damage
_GAP = "wait for other stages"
_NOTES = (
    "Whole passes were timed; kernels and idle time inside are not recorded.",
    "The time between the passes of a rank counts as communication with the other stages.",
    "What runs between two iterations is not recorded: they are shown end to end.",
)

_INFERRED = (
    "There is no config.json beside the file. That the pipeline has {} stages is inferred from the "
    "forward passes before the first backward pass, as in a 1F1B schedule without interleaving."
)


class _Iteration(msgspec.Struct):
    """An iteration of one rank, ms. Schedules that split the backward pass have `wgrad`."""

    total: float = 0.0
    fwd_start: list[float] = []
    fwd_end: list[float] = []
    bwd_start: list[float] = []
    bwd_end: list[float] = []
    wgrad_start: list[float] = []
    wgrad_end: list[float] = []


class _Config(msgspec.Struct):
    """The file `config.json` in the folder of the ranks."""

    pp_size: int = NULL


class _Writer:
    """Adds iterations to a trace, one after the other.

    Args:
        builder: Takes the slices.
        rank: Rank of the pipeline, NULL if it is unknown.
    """

    def __init__(self, builder: TraceBuilder, rank: int) -> None:
        name = f"rank {rank}" if rank != NULL else "rank"
        device = builder.device(f"{name} GPU", DeviceKind.GPU)
        process = max(rank, 0)
        self._builder = builder
        self._host = builder.track(Role.HOST_THREAD, name, process=process, thread=0)
        self._compute = builder.track(
            Role.STREAM, "compute", process=process, thread=1, device=device
        )
        self._waits = builder.track(
            Role.EXECUTOR, "pipeline", process=process, thread=2, device=device
        )
        self._now_ns = 0
        self.passes = 0

    def add(self, number: str, iteration: _Iteration) -> None:
        """Add the usable passes of an iteration; none if its length is not usable."""
        passes = list(_passes(iteration))
        usable = [one for one in passes if _is_usable(*one[:2])]
        health = self._builder.health
        health.events_read += len(passes)
        dropped = len(passes) - len(usable)
        if not 0 < iteration.total < _LONGEST_MS:
            usable, dropped = [], len(passes)
        health.events_kept += len(usable)
        health.count(
            "unusable-pass",
            "warning",
            "Passes without a usable time were left out.",
            count=dropped,
            dropped=True,
        )
        if usable:
            self._add(number, round(iteration.total * 1e6), sorted(usable))

    def _add(self, number: str, total_ns: int, passes: list[tuple[float, float, Phase]]) -> None:
        start_ns, end_ns = np.rint(np.asarray([p[:2] for p in passes]).T * 1e6).astype(np.int64)
        step_ns = max(total_ns, int(end_ns.max()))
        self._builder.slice(self._host, Kind.STEP, f"step {number}", self._now_ns, step_ns)
        for start, end, (_, _, phase) in zip(
            start_ns.tolist(), end_ns.tolist(), passes, strict=True
        ):
            self._builder.slice(
                self._compute,
                Kind.KERNEL,
                phase.name.lower(),
                self._now_ns + start,
                end - start,
                phase=int(phase),
            )
        for start, length in _gaps(start_ns, end_ns):
            self._builder.slice(self._waits, Kind.WAIT, _GAP, self._now_ns + start, length)
        self._now_ns += step_ns
        self.passes += len(passes)


def recognise(source: Source) -> bool:
    """Whether the file is an object of numbered iterations with forward and backward passes."""
    head = source.head
    return _FIRST.match(head) is not None and b'"fwd_start"' in head


def read(source: Source) -> Trace | None:
    """Read the iterations of one rank; None for other JSON.

    Raises:
        CorruptInputError: The file is cut off or damaged.
        EmptyInputError: It holds no usable pass.
    """
    builder = TraceBuilder()
    try:
        iterations = _iterations(source.data.removeprefix(b"\xef\xbb\xbf"), builder.health)
    except _NOT_JSON as error:
        raise CorruptInputError(
            f"{source.origin} is a damaged pipeline schedule", "Copy the file again"
        ) from error
    found = _RANK.search(source.path.name) if source.path is not None else None
    rank, ranks = int(found[1]) if found else NULL, _ranks_of(source)
    notes: tuple[str, ...] = _NOTES
    if ranks == NULL and (ranks := _inferred_ranks(rank, iterations.values())) != NULL:
        notes = (*_NOTES, _INFERRED.format(ranks))
    writer = _Writer(builder, rank)
    for number, iteration in iterations.items():
        writer.add(number, iteration)
    if not writer.passes:
        raise EmptyInputError(
            f"{source.origin} holds no pass with a usable time", "Record some iterations"
        )
    known = range(ranks) if rank < ranks <= _MOST_RANKS else () if rank == NULL else (rank,)
    return builder.finish(
        Meta(
            FORMAT,
            "pytorch",
            rank=rank,
            world_size=ranks,
            stages=tuple((one, one) for one in known),
            signals=frozenset({"passes"}),
            device_expected=True,
            notes=notes,
        )
    )


def _iterations(data: bytes, health: Health) -> dict[str, _Iteration]:
    """The iterations by their numbers.

    Starts and ends are matched by their places, so that a schedule without one of them is damaged.

    Raises:
        DecodeError, UnicodeDecodeError, RecursionError: It is cut off or damaged.
    """
    decode = msgspec.json.Decoder(dict[str, _Iteration]).decode
    with suppress(*_NOT_JSON):
        return decode(data)
    found = repaired(data, health)
    if found is None or found.lost or not found.complete:
        raise msgspec.DecodeError
    iterations = decode(msgspec.json.encode(without_nulls(msgspec.json.decode(found.text))))
    if not all(map(_is_paired, iterations.values())):
        raise msgspec.DecodeError
    return iterations


def _is_paired(one: _Iteration) -> bool:
    """Whether each pass has both a start and an end."""
    forward = len(one.fwd_start) == len(one.fwd_end)
    backward = len(one.bwd_start) == len(one.bwd_end)
    return forward and backward and len(one.wgrad_start) == len(one.wgrad_end)


def _passes(iteration: _Iteration) -> Iterator[tuple[float, float, Phase]]:
    """Start, end and phase of each pass, ms."""
    for starts, ends, phase in (
        (iteration.fwd_start, iteration.fwd_end, Phase.FORWARD),
        (iteration.bwd_start, iteration.bwd_end, Phase.BACKWARD),
        (iteration.wgrad_start, iteration.wgrad_end, Phase.BACKWARD),
    ):
        for start, end in zip(starts, ends, strict=False):
            yield start, end, phase


def _is_usable(start_ms: float, end_ms: float) -> bool:
    return 0 <= start_ms <= end_ms < _LONGEST_MS


def _gaps(start_ns: Ints, end_ns: Ints) -> Iterator[tuple[int, int]]:
    """Start and length of the times before and between passes, which are sorted by start."""
    reached = np.maximum.accumulate(np.append(0, end_ns[:-1]))
    idle = start_ns > reached
    yield from zip(reached[idle].tolist(), (start_ns - reached)[idle].tolist(), strict=True)


def _ranks_of(source: Source) -> int:
    """Number of pipeline ranks, from `config.json` beside the file; NULL without it."""
    try:
        config = msgspec.json.decode(source.beside("config.json") or b"{}", type=_Config)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InputError):
        return NULL
    return config.pp_size if 0 < config.pp_size < 1 << 31 else NULL


def _inferred_ranks(rank: int, iterations: Iterable[_Iteration]) -> int:
    """Number of pipeline ranks by the schedule that all iterations follow; NULL if unknown.

    In 1F1B, rank r of n runs n - r forward passes before its first backward pass. Where all of them
    come first, n may be larger, and schedules that split the backward pass have another order.
    """
    found = set()
    for one in iterations:
        first = min(one.bwd_start, default=0.0)
        early = sum(start < first for start in one.fwd_start)
        is_1f1b = 0 < early < len(one.fwd_start) and not one.wgrad_start
        found.add(rank + early if is_1f1b else NULL)
    count = found.pop() if len(found) == 1 else NULL
    return count if rank != NULL and 1 < count <= _MOST_RANKS else NULL
