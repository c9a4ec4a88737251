"""Dumps of PyTorch's flight recorder: the latest collectives of one rank, by default 2,000.

A dump is a pickle (`torch._C._distributed_c10d._dump_fr_trace`, and what is written when a
collective times out) or JSON (`_dump_fr_trace_json`), which lacks the lines of the program. Both
hold the process groups and one entry per collective: the number in its group, name, shapes, types,
state, and when it was entered.

Source: PyTorch, `torch/csrc/distributed/c10d/FlightRecorder.hpp` and `FlightRecorderDetail.hpp`;
"Flight Recorder for Debugging Stuck Jobs" in PyTorch's tutorials.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.base.errors import CorruptInputError
from stepwhy.base.patterns import regex
from stepwhy.read.shared.plain_pickle import UnsafePickleError, load_plain
from stepwhy.read.shared.program_files import is_program_file, shown_line
from stepwhy.read.shared.repaired_json import repaired
from stepwhy.read.shared.several_files import count_further
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepwhy.trace import Health, TraceBuilder

_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
DEFAULT_GROUP = "default_pg"
"""What PyTorch calls the group of all ranks."""

_LARGEST = (1 << 62) - 1
_MOST_ENTRIES = 1 << 20
_MOST_MEMBERS = 1 << 17
_LONGEST_TEXT = 200
_MEMBERS = regex(r"\s*\[?[\d,\s]*\]?\s*")
_NUMBER = regex(r"\d{1,9}")
# 'nccl:all_reduce': the library, then the operation.
_LIBRARY = regex(r"^(?:nccl|gloo|xccl|hccl|mpi|ucc|mccl|rccl):_?")
_DONE = "completed"
_DAMAGED = (
    "Entries of the flight recorder that are damaged were left out: collectives are missing, and "
    "of these it is not known which ranks have entered them."
)
_CUT = (
    "The dump ends early: what comes after the {} is missing. Copy it again, or let the rank dump "
    "again."
)


class _Frame(msgspec.Struct):
    """A line of the stack, innermost first."""

    filename: str = ""
    line: int = 0
    name: str = ""


class _Entry(msgspec.Struct):
    """One collective; times are ns since the epoch, 0 or None if unknown."""

    profiling_name: str
    process_group: tuple[str, str] = ("", "")
    collective_seq_id: int | None = None
    seq_id: int | None = None  # before version 2
    p2p_seq_id: int = 0
    is_p2p: bool = False
    state: str = ""
    retired: bool = False
    input_sizes: list[list[int]] = []
    input_dtypes: list[str] = []
    time_created_ns: int | float = 0
    duration_ms: float | None = None
    frames: list[_Frame] = []


class _Group(msgspec.Struct):
    """A process group; its ranks are a list as text, and empty for Gloo."""

    desc: str = ""
    ranks: str | list[int] = ""


class Dump(msgspec.Struct, frozen=True):
    """What a dump says of its rank.

    Args:
        world_size: Number of ranks of the job; NULL if unknown.
        count: Number of usable entries.
    """

    world_size: int
    count: int


def is_dump(head: bytes) -> bool:
    """Whether a file that starts with `head` is a dump of a flight recorder."""
    is_pickle = head[:1] == b"\x80"
    if not is_pickle and head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return False
    names = [b"pg_config", b"collective_seq_id", b"profiling_name"]
    return b"entries" in head and any(name in head for name in names)


def read_dump(data: bytes, origin: str, builder: TraceBuilder) -> Dump:
    """Add the calls of a dump to `collective_calls`.

    Args:
        data: The file.
        origin: Its name in messages.
        builder: Takes the rows and counts what is damaged.

    Raises:
        CorruptInputError: Nothing of it can be read, or it is a pickle that would run code.
    """
    content = _content(data, origin, builder.health)
    if not isinstance(content.get("entries"), list):
        raise CorruptInputError(
            f"{origin} is a damaged dump of a flight recorder: its list of collectives is missing",
            "Copy it again, or let the rank dump again",
        )
    return add_dump(content, builder)


def add_dump(content: Mapping[str, Any], builder: TraceBuilder) -> Dump:
    """Add the calls of a decoded dump to `collective_calls`; without entries, none.

    Args:
        content: The dump.
        builder: Takes the rows and counts what is damaged.
    """
    entries = content.get("entries")
    entries = entries if isinstance(entries, list) else []
    groups = _groups(content.get("pg_config"))
    found = [entry for entry in map(_entry, entries[:_MOST_ENTRIES]) if entry is not None]
    health = builder.health
    health.events_read += len(entries)
    health.events_kept += len(found)
    health.count("damaged-entry", "error", _DAMAGED, count=len(entries) - len(found), dropped=True)
    for entry in found:
        _add(entry, groups, builder)
    return Dump(_world_size(groups), len(found))


def _content(data: bytes, origin: str, health: Health) -> Mapping[str, Any]:
    """The outermost object of a dump."""
    found = _unpickled(data, origin, health) if data[:1] == b"\x80" else _decoded(data, health)
    if not isinstance(found, dict):
        raise CorruptInputError(
            f"{origin} is a damaged dump of a flight recorder",
            "Copy it again, or let the rank dump again",
        )
    return found


def _unpickled(data: bytes, origin: str, health: Health) -> Any:
    try:
        loaded = load_plain(data)
    except UnsafePickleError as error:
        raise CorruptInputError(
            f"{origin} is a pickle that does not only hold plain values ({error}): it could run "
            "code, and is not read",
            "Give the dump that PyTorch wrote, or write it as JSON",
        ) from None
    if not loaded.complete:
        entries = loaded.value.get("entries") if isinstance(loaded.value, dict) else None
        count = len(entries) if isinstance(entries, list) else 0
        _count_cut(health, count)
    if loaded.rest:
        count_further(health, loaded.rest)
    return loaded.value


def _decoded(data: bytes, health: Health) -> Any:
    value = _json(data.removeprefix(b"\xef\xbb\xbf"))
    if value is not None:
        return value
    found = repaired(data, health)
    if found is None:
        return None
    value = _json(found.text)
    if not found.complete and isinstance(value, dict):
        entries = value.get("entries")
        _count_cut(health, len(entries) if isinstance(entries, list) else 0)
    return value


def _json(text: bytes) -> Any:
    """A JSON value; None if it is none."""
    with suppress(*_NOT_JSON):
        return msgspec.json.decode(text)
    return None


def _count_cut(health: Health, entries: int) -> None:
    after = f"first {entries:,} collectives" if entries else "beginning"
    health.count("dump-truncated", "error", _CUT.format(after), dropped=False)


def _entry(value: Any) -> _Entry | None:
    """An entry; None if it is damaged."""
    try:
        entry = msgspec.convert(value, _Entry)
    except (msgspec.ValidationError, RecursionError):
        return None
    numbers = (_sequence(entry), entry.time_created_ns, entry.p2p_seq_id)
    return entry if all(0 <= number <= _LARGEST for number in numbers) else None


def _sequence(entry: _Entry) -> int:
    if entry.is_p2p:
        return entry.p2p_seq_id
    number = entry.seq_id if entry.collective_seq_id is None else entry.collective_seq_id
    return -1 if number is None else number


def _groups(config: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Description and ranks of each process group by its name."""
    try:
        found = msgspec.convert(config, dict[str, _Group])
    except (msgspec.ValidationError, RecursionError):
        return {}
    return {name: (group.desc, _ranks(group.ranks)) for name, group in found.items()}


def _ranks(text: str | list[int]) -> tuple[int, ...]:
    """The ranks of a group, () if unknown; they are a list, or written as one."""
    if isinstance(text, list):
        return tuple(text[:_MOST_MEMBERS])
    if not _MEMBERS.fullmatch(text):
        return ()
    return tuple(map(int, _NUMBER.findall(text)[:_MOST_MEMBERS]))


def _world_size(groups: Mapping[str, tuple[str, tuple[int, ...]]]) -> int:
    """Number of ranks of the job, by the group of all ranks; NULL if unknown.

    With Gloo, it has no name there.
    """
    sizes = [
        len(ranks)
        for name, (desc, ranks) in groups.items()
        if ranks and (desc == DEFAULT_GROUP or not name)
    ]
    return max(sizes, default=NULL)


def _add(
    entry: _Entry, groups: Mapping[str, tuple[str, tuple[int, ...]]], builder: TraceBuilder
) -> None:
    name, description = (text[:_LONGEST_TEXT] for text in entry.process_group)
    _, members = groups.get(name, ("", ()))
    line = program_line(entry.frames)
    types = ", ".join(dict.fromkeys(entry.input_dtypes))[:_LONGEST_TEXT]
    count = sum(map(math.prod, entry.input_sizes))
    builder.add(
        "collective_calls",
        group=builder.intern(name),
        description=builder.intern(description) if description else NULL,
        members=builder.intern(members_text(members)) if members else NULL,
        size=len(members) or NULL,
        sequence=_sequence(entry),
        p2p=int(entry.is_p2p),
        operation=builder.intern(operation_of(entry.profiling_name)),
        elements=count if 0 <= count <= _LARGEST else NULL,
        shapes=builder.intern(str(entry.input_sizes)[:_LONGEST_TEXT]),
        types=builder.intern(types) if types else NULL,
        entered_ns=int(entry.time_created_ns) or NULL,
        dur_ns=_duration(entry),
        done=int(entry.retired or entry.state == _DONE),
        line=builder.intern(line) if line else NULL,
    )


def members_text(members: Sequence[int]) -> str:
    """Numbers of ranks as JSON."""
    return f"[{', '.join(map(str, members))}]"


def operation_of(name: str) -> str:
    """'all_reduce' of 'nccl:all_reduce'."""
    return _LIBRARY.sub("", name)[:_LONGEST_TEXT]


def _duration(entry: _Entry) -> int:
    """How long it ran, ns; NULL if unknown.

    When its start and end were discovered says little: the watchdog looks ten times a second.
    """
    if entry.duration_ms is not None and 0 <= entry.duration_ms < _LARGEST / 1e6:
        return round(entry.duration_ms * 1e6)
    return NULL


def program_line(frames: Sequence[_Frame]) -> str:
    """The innermost line of the program's own code; '' without any."""
    own = (frame for frame in frames if is_program_file(frame.filename))
    frame = next(own, None)
    return "" if frame is None else shown_line(frame.filename, frame.line, frame.name)
