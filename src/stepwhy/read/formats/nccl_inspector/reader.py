"""Files of NCCL Inspector, a profiler plug-in of NCCL: how long each collective took on a rank.

There is one JSON object per line, for each collective that has ended: its number in the
communicator, size and duration. With `NCCL_INSPECTOR_DUMP_VERBOSE=1` it also says when the
collective began. A rank is a number in a communicator; the number in the largest one is taken for
that in the job.

Source: NVIDIA/nccl, `ext-profiler/inspector` (`README.md`, "Output Example"; `inspector.cc`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.errors import CorruptInputError, EmptyInputError
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Meta, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from mmap import mmap

    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Health, Trace

FORMAT = "nccl-inspector"

_FIRST = regex(rb'(?:\xef\xbb\xbf)?\s*\{\s*"header"\s*:\s*\{')
_LARGEST = (1 << 62) - 1
_LARGEST_US = _LARGEST // 1000
_LONGEST_TEXT = 100
# A file holds some hundred bytes per collective, and grows for as long as the job runs.
_MOST_CALLS = 200_000
_LIMIT = (
    "NCCL Inspector lists collectives and how long they took, not what else takes the time of a "
    "step"
)
_NOTE = "NCCL Inspector writes collectives that have ended: it does not show which one hangs."
_UNUSABLE = (
    "Lines that are damaged, or that lack a number, size or duration of a collective, were left "
    "out."
)
_REPEATED = (
    "Collectives that are in the file twice were left out: it seems to hold several files. Save "
    "each as a file of its own."
)
_OLDER = f"Older collectives were left out: the newest {_MOST_CALLS:,} of a file are compared."
_BYTE = "byte"  # the size of a message is known, and not the type of its elements


class _Header(msgspec.Struct):
    """The communicator."""

    id: str
    rank: int
    n_ranks: int


class _Metadata(msgspec.Struct):
    """The process."""

    hostname: str = ""
    pid: int = 0


class _Started(msgspec.Struct):
    """Times of events, us since the epoch."""

    coll_start_ts: int = 0


class _Performance(msgspec.Struct):
    """A collective."""

    coll: str
    coll_sn: int
    coll_msg_size_bytes: int
    coll_exec_time_us: float
    event_trace_ts: _Started | None = None


class _Record(msgspec.Struct):
    """A line."""

    header: _Header
    coll_perf: _Performance
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def recognise(source: Source) -> bool:
    """Whether the file begins with a record of a collective."""
    head = source.head
    return _FIRST.match(head) is not None and b'"coll_sn"' in head


def read(source: Source) -> Trace:
    """Read the collectives of the ranks in the file.

    Raises:
        CorruptInputError: No line can be read.
        EmptyInputError: It holds no collective.
    """
    builder = TraceBuilder()
    records = _records(source.mapped, builder.health)
    if not records:
        error = CorruptInputError if builder.health.events_read else EmptyInputError
        raise error(
            f"{source.origin} holds no usable collective of NCCL Inspector",
            "Let the job run some collectives, and copy the file again",
        )
    ranks, sizes = _ranks(records), [record.header.n_ranks for record in records]
    for record in records:
        _add(record, ranks, max(sizes), builder)
    return builder.finish(
        Meta(
            FORMAT,
            rank=min(ranks.values()),
            world_size=max(sizes),
            signals=frozenset({"collective-calls"}),
            limit=_LIMIT,
            notes=(_NOTE,),
        )
    )


def _records(data: bytes | mmap, health: Health) -> list[_Record]:
    """The usable records, the newest of very many."""
    decode = msgspec.json.Decoder(_Record).decode
    found: list[_Record] = []
    damaged = repeated = 0
    seen: set[tuple[object, ...]] = set()
    for line in bytes(data).removeprefix(b"\xef\xbb\xbf").splitlines():
        if not line.strip():
            continue
        try:
            record = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            damaged += 1
            continue
        key = (*_process(record), record.header.id, record.coll_perf.coll_sn)
        if not _is_usable(record):
            damaged += 1
        elif key in seen:
            repeated += 1
        else:
            seen.add(key)
            found.append(record)
    kept = found[-_MOST_CALLS:]
    health.events_read, health.events_kept = len(found) + damaged + repeated, len(kept)
    health.count("damaged-line", "error", _UNUSABLE, count=damaged, dropped=True)
    health.count("repeated-call", "warning", _REPEATED, count=repeated, dropped=True)
    health.count("older-call", "info", _OLDER, count=len(found) - len(kept), dropped=True)
    return kept


def _is_usable(record: _Record) -> bool:
    header, call = record.header, record.coll_perf
    is_member = 0 <= header.rank < header.n_ranks < 1 << 31
    numbers = (call.coll_sn, call.coll_msg_size_bytes)
    started = call.event_trace_ts.coll_start_ts if call.event_trace_ts else 0
    return (
        is_member
        and all(0 <= number <= _LARGEST for number in numbers)
        and 0 <= call.coll_exec_time_us <= _LARGEST_US
        and 0 <= started <= _LARGEST_US
    )


def _ranks(records: Iterable[_Record]) -> dict[tuple[str, int], int]:
    """The rank of each process: that in its largest communicator."""
    largest: dict[tuple[str, int], tuple[int, int]] = {}
    for record in records:
        process = _process(record)
        size, rank = record.header.n_ranks, record.header.rank
        if process not in largest or size > largest[process][0]:
            largest[process] = (size, rank)
    return {process: rank for process, (_, rank) in largest.items()}


def _process(record: _Record) -> tuple[str, int]:
    return record.metadata.hostname, record.metadata.pid


def _add(
    record: _Record, ranks: Mapping[tuple[str, int], int], most: int, builder: TraceBuilder
) -> None:
    header, call = record.header, record.coll_perf
    started = call.event_trace_ts.coll_start_ts if call.event_trace_ts else 0
    name = "default_pg" if header.n_ranks == most else f"{header.n_ranks} ranks"
    builder.add(
        "collective_calls",
        of_rank=ranks[_process(record)],
        group=builder.intern(header.id[:_LONGEST_TEXT]),
        description=builder.intern(name),
        size=header.n_ranks,
        sequence=call.coll_sn,
        operation=builder.intern(call.coll[:_LONGEST_TEXT]),
        elements=call.coll_msg_size_bytes,
        types=builder.intern(_BYTE),
        entered_ns=started * 1000 or NULL,
        dur_ns=round(call.coll_exec_time_us * 1000),
        done=1,
    )
