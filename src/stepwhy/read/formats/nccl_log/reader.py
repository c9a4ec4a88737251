"""Logs of NCCL and RCCL: the collectives that each rank has called.

`NCCL_DEBUG=INFO` with the subsystem COLL writes a line per call: its number in the communicator,
the number of elements and their type. A communicator is known by its address, which differs by
process; the line about its creation has the rank and an id that all of its ranks share. Whether a
call has ended is not logged. The output of several ranks may be in one file, with other text.

Source: NVIDIA/nccl, `src/enqueue.cc` (`ncclEnqueueCheck`), `src/init.cc` (`ncclCommInitRank`),
`src/debug.cc` (the beginning of a line) and `nccl.h` (types).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.base.errors import EmptyInputError
from stepwhy.base.patterns import regex
from stepwhy.read.shared.recorder_dump import members_text
from stepwhy.trace import NULL, Meta, TraceBuilder

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from mmap import mmap

    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

FORMAT = "nccl-log"

# 'host:pid:thread [device] NCCL INFO '; other tools put more before it.
_HEAD = rb"(?P<process>[^\s:]{1,255}:\d{1,10}):\d{1,10} \[(?P<device>\d{1,4})\] NCCL INFO "
_ANY = regex(rb"[^\s:]{1,255}:\d{1,10}:\d{1,10} \[\d{1,4}\] NCCL (?:INFO|WARN) ")
_LINE = regex(
    _HEAD + rb"(?:"
    rb"(?P<operation>[A-Za-z]{1,40}): opCount (?P<number>[0-9a-f]{1,16}) sendbuff \S{1,40} "
    rb"recvbuff \S{1,40} count (?P<count>\d{1,18}) datatype (?P<type>\d{1,3}) op \d{1,3} "
    rb"root \d{1,9} comm (?P<comm>\w{1,40}) \[nranks=(?P<size>\d{1,7})\]"
    rb"|(?:ncclComm\w{1,40} )?comm (?P<made>\w{1,40}) rank (?P<rank>\d{1,7}) "
    rb"n[rR]anks (?P<of>\d{1,7})[^\n]{0,300}?(?:commId (?P<id>\w{1,40})[^\n]{0,40}? )?"
    rb"- Init (?:START|COMPLETE))"
)
_MARK = b"NCCL INFO "
_LONGEST_LINE = 1024  # on both sides of the mark
_TYPES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
    "bfloat16", "float8e4m3", "float8e5m2",
)  # fmt: skip
_BETWEEN_TWO = frozenset({"Send", "Recv"})
# Of a log of days, the newest calls are kept of each rank and communicator.
_MOST_CALLS = 4096
_MOST_COMMUNICATORS = 1 << 16
_LARGEST = (1 << 62) - 1
_LIMIT = "a log of NCCL lists the collectives of ranks, not what takes the time of a step"
_NOTE = "NCCL does not log which collectives have ended."
_REPEATED = (
    "Calls with a lower number than the one before were left out: the file seems to hold several "
    "logs of the same ranks. Save each as a file of its own."
)
_CUT = "The log ends within a line: it was cut off, or is still being written."
_OLDER = (
    "Older calls were left out: of each rank and communicator, the newest "
    f"{_MOST_CALLS:,} are compared."
)


class _Place(NamedTuple):
    """A GPU that a process uses."""

    process: bytes
    device: bytes


class _Member(NamedTuple):
    """A rank of a communicator.

    Args:
        group: What all ranks of the communicator call it.
        rank: Its number there.
        size: Number of ranks.
    """

    group: str
    rank: int
    size: int


class _Call(NamedTuple):
    """A logged call."""

    operation: str
    number: int
    elements: int
    type: int


class _Log:
    """What a log holds.

    Attributes:
        members: Rank and communicator by GPU and address of the communicator.
        calls: The newest calls, likewise.
        sizes: Number of ranks that the calls name, likewise.
        read: Number of all calls.
        repeated: Number of calls that were left out because later ones come before them.
    """

    def __init__(self) -> None:
        self.members: dict[tuple[_Place, bytes], _Member] = {}
        self.calls: defaultdict[tuple[_Place, bytes], deque[_Call]] = defaultdict(
            lambda: deque(maxlen=_MOST_CALLS)
        )
        self.sizes: dict[tuple[_Place, bytes], int] = {}
        self.read = self.repeated = 0
        self._made: Counter[tuple[_Place, int]] = Counter()

    def add(self, match: re.Match[bytes]) -> None:
        """Add a line."""
        place = _Place(match["process"], match["device"])
        if match["made"] is not None:
            self._add_member(place, match)
        elif len(self.calls) < _MOST_COMMUNICATORS:
            self._add_call((place, match["comm"]), match)

    def _add_call(self, key: tuple[_Place, bytes], match: re.Match[bytes]) -> None:
        self.read += 1
        self.sizes[key] = int(match["size"])
        calls, number = self.calls[key], min(int(match["number"], 16), _LARGEST)
        if calls and number < calls[-1].number:
            self.repeated += 1
            return
        operation = match["operation"].decode()
        calls.append(_Call(operation, number, int(match["count"]), int(match["type"])))

    def _add_member(self, place: _Place, match: re.Match[bytes]) -> None:
        key, size = (place, match["made"]), int(match["of"])
        known = self.members.get(key)
        if match["id"] is not None:
            group = match["id"].decode()
        elif known is not None and known.size == size:
            group = known.group  # the line about its end follows that about its beginning
        else:
            self._made[place, size] += 1
            group = f"no. {self._made[place, size]} of {size} ranks"
        if known is None or match["id"] is not None:
            self.members[key] = _Member(group, int(match["rank"]), size)

    def ranks(self) -> dict[_Place, int]:
        """The rank of each GPU in the job: that in its largest communicator, the first of these."""
        found: dict[_Place, _Member] = {}
        for (place, _), member in self.members.items():
            if place not in found or member.size > found[place].size:
                found[place] = member
        return {place: member.rank for place, member in found.items()}


def recognise(source: Source) -> bool:
    """Whether the file is text with lines of NCCL."""
    head = source.head
    return head.lstrip()[:1] not in {b"{", b"["} and _ANY.search(head) is not None


def read(source: Source) -> Trace:
    """Read the collectives of all ranks in the log.

    Raises:
        EmptyInputError: It names no collective.
    """
    log = _Log()
    for line in _lines(source.mapped):
        if (match := _LINE.search(line)) is not None:
            log.add(match)
    if not log.read:
        raise EmptyInputError(
            f"{source.origin} is a log of NCCL that names no collective",
            "Log with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL",
        )
    builder = TraceBuilder()
    kept = _add_calls(log, builder)
    health = builder.health
    health.events_read, health.events_kept = log.read, kept
    older = log.read - kept - log.repeated
    health.count("older-call", "info", _OLDER, count=older, dropped=True)
    health.count("repeated-call", "warning", _REPEATED, count=log.repeated, dropped=True)
    if source.mapped[-1:] != b"\n":
        health.count("log-truncated", "warning", _CUT, dropped=False)
    ranks = sorted(log.ranks().values())
    sizes = [member.size for member in log.members.values()]
    return builder.finish(
        Meta(
            FORMAT,
            rank=ranks[0] if ranks else NULL,
            world_size=max(sizes, default=NULL),
            signals=frozenset({"collective-calls"}),
            limit=_LIMIT,
            notes=(_NOTE,),
        )
    )


def _lines(data: bytes | mmap) -> Iterator[bytes]:
    """The lines of NCCL, as far as they may be one."""
    at = data.find(_MARK)
    while at >= 0:
        begin = max(data.rfind(b"\n", 0, at) + 1, at - _LONGEST_LINE)
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield data[begin : min(end, at + _LONGEST_LINE)]
        at = data.find(_MARK, end)


def _add_calls(log: _Log, builder: TraceBuilder) -> int:
    """Add the calls to `collective_calls`; return their number."""
    ranks, members = log.ranks(), _ranks_of(log)
    kept = 0
    for key, calls in log.calls.items():
        member = log.members.get(key, _Member("", NULL, log.sizes[key]))
        inside = members.get(member.group, ())
        is_whole = len(inside) == member.size > 0
        # That a communicator has all ranks, as PyTorch calls it; else its number of ranks.
        most = max((one.size for one in log.members.values()), default=NULL)
        description = "default_pg" if member.size == most else f"{member.size} ranks"
        about = {
            "of_rank": ranks.get(key[0], NULL),
            "group": builder.intern(member.group),
            "members": builder.intern(members_text(inside)) if is_whole else NULL,
            "description": builder.intern(description),
            "size": member.size,
        }
        for call in calls:
            builder.add("collective_calls", **about, **_columns(call, builder))
        kept += len(calls)
    return kept


def _ranks_of(log: _Log) -> dict[str, tuple[int, ...]]:
    """Ranks in the job that each communicator has, as far as they are in the log."""
    ranks = log.ranks()
    found: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for (place, _), member in log.members.items():
        found[member.group][member.rank] = ranks[place]
    return {group: tuple(sorted(of.values())) for group, of in found.items()}


def _columns(call: _Call, builder: TraceBuilder) -> dict[str, int]:
    known = call.type < len(_TYPES)
    return {
        "sequence": call.number,
        "p2p": int(call.operation in _BETWEEN_TWO),
        "operation": builder.intern(call.operation),
        "elements": call.elements,
        "types": builder.intern(_TYPES[call.type] if known else f"type {call.type}"),
    }
