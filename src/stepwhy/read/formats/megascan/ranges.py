"""Adds the ranges of Megatron-LM iterations as device time.

Ranges nest (a layer in a pass, an all-reduce in a layer), and only the innermost one shows what the
GPU does: an exchange inside a pass is not computation. A range that contains others therefore
counts as device time only in the gaps between them.

Source: the names of the scopes in MegatronApp's `megatron/training/trace.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import take
from stepwhy.base.columns.nesting import nearest, nest
from stepwhy.base.columns.strings import texts_at
from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json import first_seen
from stepwhy.trace import NULL, Columns, Kind, Phase, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.base.columns.nesting import Nesting
    from stepwhy.base.columns.types import Times
    from stepwhy.trace import TraceBuilder

    Ids = NDArray[np.int32]


class Ranges(msgspec.Struct, frozen=True):
    """Ranges on the GPUs of some ranks, times in ns; (ranges,) each.

    Args:
        names: All names.
        name: Index of its name.
        rank: Rank that it ran on.
        lane: Thread of the rank; ranges of one lane nest.
        start_ns: Start.
        end_ns: End.
        iteration: Number of its iteration, NULL if not recorded.
        stage: Pipeline stage of the rank, NULL if not recorded.
        chunk: Model chunk of an interleaved schedule, NULL if not recorded.
    """

    names: Sequence[str]
    name: Ids
    rank: Ids
    lane: Ids
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    iteration: Ids
    stage: Ids
    chunk: Ids

    def __len__(self) -> int:
        """Number of ranges."""
        return len(self.name)

    def phases(self) -> NDArray[np.int8]:
        """Phase by the name of each range; (ranges,)."""
        of_name = np.asarray([phase_of(name) for name in self.names], dtype=np.int8)
        phases: NDArray[np.int8] = of_name[self.name]
        return phases


_EXCHANGE = regex(
    r"_?(send|recv|exchange|all_?reduce|reduce|all_?gather|gather|reduce_?scatter|all_?to_?all"
    r"|broadcast|grad[-_]sync)([-_].*)?"
)
_PHASES = (
    (regex(r"forward"), Phase.FORWARD),
    (regex(r"backward"), Phase.BACKWARD),
    (regex(r"optimizer"), Phase.OPTIMIZER),
)
_GUESSED = (
    "Ranges were timed as a whole: a pass counts as computation from start to end, although the "
    "GPU may idle inside of it."
)


def exchanges(name: str) -> bool:
    """Whether a range moves data between ranks."""
    return _EXCHANGE.fullmatch(name) is not None


def phase_of(name: str) -> Phase:
    """Phase of a range by its name ('forward-warmup'); UNKNOWN for ranges inside of a pass."""
    if exchanges(name):
        return Phase.COMMUNICATION
    return next((phase for pattern, phase in _PHASES if pattern.match(name)), Phase.UNKNOWN)


def gpu_name(number: int) -> str:
    """Name of a GPU, with its number if it is recorded."""
    return f"GPU:{number}" if number != NULL else "GPU"


def add_ranges(builder: TraceBuilder, ranges: Ranges, devices: dict[int, int]) -> None:
    """Add ranges as slices of their ranks' GPUs.

    Args:
        builder: Receives tracks and slices.
        ranges: The ranges.
        devices: Row of every rank's GPU.
    """
    for rank, lane, rows in _lanes(ranges):
        track = builder.track(
            Role.STREAM, f"stream {lane}", process=rank, thread=lane, device=devices[rank]
        )
        _add_lane(builder, track, ranges, rows)
    phases = ranges.phases()
    passes = int(((phases == Phase.FORWARD) | (phases == Phase.BACKWARD)).sum())
    builder.health.count("guessed-device-time", "warning", _GUESSED, count=passes, dropped=False)


def _lanes(ranges: Ranges) -> Iterator[tuple[int, int, Ids]]:
    """Rank, lane and ranges of every lane, parents before their children."""
    keys = (-ranges.end_ns, ranges.start_ns, ranges.lane, ranges.rank)
    order: Ids = np.lexsort(keys).astype(np.int32)
    del keys
    rank, lane = take(ranges.rank, order), take(ranges.lane, order)
    cuts = np.flatnonzero((rank[1:] != rank[:-1]) | (lane[1:] != lane[:-1])) + 1
    del rank, lane
    for rows in np.split(order, cuts):
        if len(rows):
            yield int(ranges.rank[rows[0]]), int(ranges.lane[rows[0]]), rows


def _add_lane(builder: TraceBuilder, track: int, ranges: Ranges, rows: Ids) -> None:
    """Add the ranges of a lane, parents first: whole, then the gaps between their children."""
    start_ns, end_ns = take(ranges.start_ns, rows), take(ranges.end_ns, rows)
    nested = nest_ranges(start_ns, end_ns, take(ranges.phases(), rows))
    name = _strings(builder, ranges.names, take(ranges.name, rows))
    kind = np.asarray([_kind(phase) for phase in Phase], dtype=np.int8)[nested.phase]
    end_ns -= start_ns
    builder.slices_from(
        {
            "track": np.broadcast_to(np.int32(track), len(rows)),
            # As a whole, a range that contains others is only an annotation.
            "kind": np.where(nested.is_parent, np.int8(Kind.DEVICE_ANNOTATION), kind),
            "name": name,
            "start_ns": start_ns,
            "dur_ns": end_ns,
            "phase": np.where(nested.is_parent, np.int8(Phase.UNKNOWN), nested.phase),
        }
    )
    # Owners, starts and durations of the gaps that are device time.
    gaps = nested.owner, nested.start_ns, nested.dur_ns
    is_device = take(kind, nested.owner) != Kind.DEVICE_ANNOTATION
    owner, start_ns, dur_ns = (
        gaps if is_device.all() else (gaps[0][is_device], gaps[1][is_device], gaps[2][is_device])
    )
    builder.slices_from(
        {
            "track": np.broadcast_to(np.int32(track), len(owner)),
            "kind": take(kind, owner),
            "name": take(name, owner),
            "start_ns": start_ns,
            "dur_ns": dur_ns,
            "phase": take(nested.phase, owner),
        }
    )


def _strings(builder: TraceBuilder, names: Sequence[str], name: Ids) -> Ids:
    """The string of every range's name; (ranges,)."""
    strings = np.full(len(names), NULL, dtype=np.int32)
    shown, _ = first_seen(name)
    strings[shown] = builder.intern_all(texts_at(names, shown))
    found: Ids = strings[name]
    return found


def _kind(phase: Phase) -> Kind:
    """Collective for an exchange, kernel inside a pass or the optimizer, else an annotation."""
    if phase is Phase.COMMUNICATION:
        return Kind.COLLECTIVE
    return Kind.DEVICE_ANNOTATION if phase is Phase.UNKNOWN else Kind.KERNEL


class Nested(NamedTuple):
    """The ranges of a lane, and the gaps between the children of those that contain others.

    Args:
        is_parent: Whether a range contains others; (ranges,).
        phase: Phase of the range, or else of the nearest range around it; (ranges,).
        owner: Parent whose gap it is, ascending in time; (gaps,).
        start_ns: Start of the gap; (gaps,).
        dur_ns: Duration of the gap, not zero; (gaps,).
    """

    is_parent: NDArray[np.bool_]
    phase: NDArray[np.int8]
    owner: NDArray[np.int32]
    start_ns: Times
    dur_ns: Times


def nest_ranges(start_ns: Times, end_ns: Times, phase: NDArray[np.int8]) -> Nested:
    """Nest the ranges of a lane.

    Args:
        start_ns: Starts, ascending, and the longest of equal ones first; (ranges,).
        end_ns: Ends; (ranges,).
        phase: Phases by their names; (ranges,).
    """
    track = np.zeros(len(start_ns), dtype=np.int8)
    slices = Columns(start_ns=start_ns, dur_ns=end_ns - start_ns, track=track)
    nesting = nest(slices, np.ones(1, dtype=bool))
    around = nearest(nesting, phase != Phase.UNKNOWN)
    inherited = np.append(phase, np.int8(Phase.UNKNOWN))[around]  # NULL is the last one
    is_parent = np.zeros(len(start_ns), dtype=bool)
    is_parent[nesting.parent[nesting.parent != NULL]] = True
    return Nested(is_parent, inherited, *_gaps(nesting, start_ns))


def _gaps(nesting: Nesting, start_ns: Times) -> tuple[NDArray[np.int32], Times, Times]:
    """Parents, starts and durations of the gaps before, between and behind children."""
    child = np.flatnonzero(nesting.parent != NULL)
    child = child[np.argsort(nesting.parent[child], kind="stable")]
    parent, child_end = nesting.parent[child], nesting.ends(child)
    is_first = np.append(True, parent[1:] != parent[:-1])[: len(child)]
    is_last = np.append(is_first[1:], True)[: len(child)]
    before = np.where(is_first, start_ns[parent], np.roll(child_end, 1))
    owner = np.append(parent, parent[is_last])
    starts = np.append(before, child_end[is_last])
    ends = np.append(start_ns[child], nesting.ends(parent[is_last]))
    gaps = np.flatnonzero(ends > starts)
    gaps = gaps[np.argsort(starts[gaps], kind="stable")]
    return owner[gaps].astype(np.int32), starts[gaps], (ends - starts)[gaps]
