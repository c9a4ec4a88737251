"""The bytes of a part of a run: what a worker sends, and a rank writes that reduced its own trace.

A part is MessagePack, compressed. It contains no code, so that reading one of other people is safe.

Version 1: the first.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.analyse.ranks.calls import Position, RankCalls, RunCalls
from stepwhy.analyse.ranks.collectives import Collectives, Role
from stepwhy.analyse.ranks.rank_times import OpTime, Rank
from stepwhy.analyse.ranks.step_work import StepLog
from stepwhy.analyse.ranks.untraced_ranks import UntracedRank  # noqa: TC001 - a field
from stepwhy.base import errors
from stepwhy.base.errors import CorruptInputError, InputError, NewerFormatError
from stepwhy.engine.analysed import Analysed
from stepwhy.engine.packed_columns import BadColumnError, pack, unpack
from stepwhy.engine.reduction import Named, Part
from stepwhy.read.inputs.reduced import MAGIC
from stepwhy.result import CATEGORIES, BoundBy, Breakdown, Device, Finding, Input, TraceTotals
from stepwhy.result.hangs import Call, Group  # noqa: TC001 - fields of records
from stepwhy.trace import NULL, Meta, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 1
_MOST_BYTES = 1 << 28  # of a part after decompression; a rank has less than a megabyte
_LEVEL = 6  # of zlib; higher ones save 1 %


class _Collectives(msgspec.Struct, frozen=True):
    roles: tuple[Role, ...]
    numbering: str
    columns: dict[str, bytes]


class _Log(msgspec.Struct, frozen=True):
    wall_ns: bytes
    cpu_ns: bytes
    first: int
    stop: int


class _Op(msgspec.Struct, frozen=True, array_like=True):
    name: str
    phase: int
    on_host: bool
    self_ns: int


class _RankCalls(msgspec.Struct, frozen=True):
    rank: int | None
    group: Group
    description: str
    size: int
    p2p: bool
    columns: dict[str, bytes]
    kinds: tuple[Call, ...]


class _Calls(msgspec.Struct, frozen=True):
    calls: tuple[_RankCalls, ...]
    positions: tuple[Position, ...]
    world_size: int


class _Rank(msgspec.Struct, frozen=True):
    number: int
    stage: int
    breakdown: dict[str, int]
    own_ns: bytes
    line: str
    contended: bool
    cpu_ns: int | None
    on_cpu: bool
    passes: float | None
    passes_ns: int
    log: _Log | None
    collectives: _Collectives | None
    per_step: tuple[bytes, ...] | None
    operations: tuple[_Op, ...]
    lines: tuple[_Op, ...]
    core_wait_ns: int | None = None
    core_waits_ns: int | None = None


class _Analysed(msgspec.Struct, frozen=True):
    path: str
    meta: Meta
    record: bytes
    is_cut: bool
    input: Input
    bound_by: BoundBy
    models: tuple[str, ...]
    breakdown: Breakdown
    devices: tuple[Device, ...]
    totals: TraceTotals
    findings: tuple[Finding, ...]
    rank: _Rank | None
    calls: _Calls
    place: tuple[int, int]
    untraced: UntracedRank | None = None


class _Part(msgspec.Struct, frozen=True):
    number: int
    ranks: tuple[_Analysed, ...] = ()
    named: tuple[tuple[str, Meta], ...] = ()
    beside: tuple[str, ...] = ()
    error: tuple[str, str, str] | None = None
    digest: bytes = b""


_SAME = (
    *("number", "stage", "breakdown", "line", "contended", "cpu_ns", "on_cpu", "passes"),
    *("passes_ns", "core_wait_ns", "core_waits_ns"),
)
_SAME_OF_CALLS = ("rank", "group", "description", "size", "p2p", "kinds")
_COLUMNS = ("role", "step", "start_ns", "dur_ns", "bytes", "steps")
_COLUMNS_OF_CALLS = ("sequence", "done", "entered_ns", "code", "dur_ns")
_OF_RANK = tuple(n for n in _Analysed.__struct_fields__ if n not in {"rank", "calls"})


def encode(part: Part) -> bytes:
    """The bytes of a part; the traces of its ranks are left out.

    Args:
        part: The part.
    """
    error = part.error
    wire = _Part(
        number=part.number,
        ranks=tuple(_analysed(one) for one in part.ranks if isinstance(one, Analysed)),
        named=tuple((one.path, one.meta) for one in part.ranks if isinstance(one, Named)),
        beside=part.beside,
        error=None if error is None else (type(error).__name__, error.what, error.todo),
        digest=part.digest,
    )
    body = msgspec.msgpack.encode(wire, enc_hook=_plain)
    return MAGIC + VERSION.to_bytes(2, "little") + zlib.compress(body, _LEVEL)


def decode(data: bytes, name: str = "a reduced rank") -> Part:
    """The part that was encoded.

    Args:
        data: Its bytes.
        name: Its file, for messages.

    Raises:
        NewerFormatError: A later version of stepwhy wrote it.
        CorruptInputError: It is damaged.
    """
    if not data.startswith(MAGIC):
        raise _damaged(name)
    start = len(MAGIC)
    version = int.from_bytes(data[start : start + 2], "little")
    if version > VERSION:
        raise NewerFormatError(
            f"{name} was written by a later version of stepwhy",
            "Update stepwhy",
        )
    try:
        body = _decompressed(data[start + 2 :])
        return _part(msgspec.msgpack.decode(body, type=_Part))
    except (msgspec.DecodeError, BadColumnError, zlib.error, ValueError, KeyError):
        raise _damaged(name) from None


def _damaged(name: str) -> CorruptInputError:
    return CorruptInputError(f"{name} is damaged", "Copy it again, or explain the trace itself")


def _decompressed(data: bytes) -> bytes:
    """The content of a compressed part, which must end, and not expand without limit."""
    unpacker = zlib.decompressobj()
    body = unpacker.decompress(data, _MOST_BYTES)
    if not unpacker.eof:
        raise BadColumnError
    return body


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)


# --- Ranks ---


def _analysed(one: Analysed) -> _Analysed:
    rank = None if one.rank is None else _rank(one.rank)
    return _Analysed(rank=rank, calls=_calls(one.calls), **_fields(one))


def _calls(found: RunCalls) -> _Calls:
    calls = tuple(
        _RankCalls(
            **{name: getattr(one, name) for name in _SAME_OF_CALLS},
            columns={name: pack(getattr(one, name)) for name in _COLUMNS_OF_CALLS},
        )
        for one in found.calls
    )
    return _Calls(calls, found.positions, found.world_size)


def _rank(rank: Rank) -> _Rank:
    same = {name: getattr(rank, name) for name in _SAME}
    log, per_step = rank.log, rank.per_step
    return _Rank(
        **same,
        own_ns=pack(rank.own_ns),
        log=None if log is None else _Log(pack(log.wall_ns), pack(log.cpu_ns), log.first, log.stop),
        operations=_ops(rank.operations),
        lines=_ops(rank.lines),
        collectives=None if rank.collectives is None else _collectives(rank.collectives),
        per_step=None if per_step is None else tuple(pack(column) for column in per_step.T),
    )


def _ops(found: tuple[OpTime, ...]) -> tuple[_Op, ...]:
    return tuple(_Op(one.name, int(one.phase), one.on_host, one.self_ns) for one in found)


def _collectives(found: Collectives) -> _Collectives:
    columns = {name: pack(getattr(found, name)) for name in _COLUMNS}
    return _Collectives(found.roles, found.numbering, columns)


def _part(wire: _Part) -> Part:
    ranks = [
        Analysed(rank=_decode_rank(one.rank), calls=_calls_of(one.calls), **_fields(one))
        for one in wire.ranks
    ]
    named = [Named(path, meta) for path, meta in wire.named]
    error = None if wire.error is None else _error(*wire.error)
    return Part(wire.number, (*ranks, *named), wire.beside, error, wire.digest)


def _fields(one: Analysed | _Analysed) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _OF_RANK}


def _error(kind: str, what: str, todo: str) -> InputError:
    """The error of a class that is named; `InputError` for an unknown name."""
    found = getattr(errors, kind, InputError)
    is_known = isinstance(found, type) and issubclass(found, InputError)
    return (found if is_known else InputError)(what, todo)


def _decode_rank(wire: _Rank | None) -> Rank | None:
    if wire is None:
        return None
    same = {name: getattr(wire, name) for name in _SAME}
    if set(wire.breakdown) != set(CATEGORIES):
        raise BadColumnError
    log = wire.log
    return Rank(
        **same,
        own_ns=unpack(wire.own_ns),
        log=None if log is None else _log_of(log),
        operations=_ops_of(wire.operations),
        lines=_ops_of(wire.lines),
        collectives=None if wire.collectives is None else _collectives_of(wire.collectives),
        per_step=None if wire.per_step is None else _table(wire.per_step),
    )


def _log_of(wire: _Log) -> StepLog:
    wall_ns, cpu_ns = unpack(wire.wall_ns), unpack(wire.cpu_ns)
    if not 0 <= wire.first <= wire.stop <= len(wall_ns) == len(cpu_ns):
        raise BadColumnError
    return StepLog(wall_ns, cpu_ns, wire.first, wire.stop)


def _ops_of(wire: tuple[_Op, ...]) -> tuple[OpTime, ...]:
    return tuple(OpTime(one.name, Phase(one.phase), one.on_host, one.self_ns) for one in wire)


def _calls_of(wire: _Calls) -> RunCalls:
    """The collectives that a rank has entered, whose columns fit together."""
    found = []
    for one in wire.calls:
        columns = {name: unpack(one.columns[name]) for name in _COLUMNS_OF_CALLS[:-1]}
        unknown = np.full(len(columns["code"]), NULL)
        # Early parts have no durations.
        columns["dur_ns"] = unpack(one.columns["dur_ns"]) if "dur_ns" in one.columns else unknown
        code, lengths = columns["code"], {len(column) for column in columns.values()}
        if len(lengths) > 1 or (len(code) and not 0 <= code.min() <= code.max() < len(one.kinds)):
            raise BadColumnError
        fields: dict[str, Any] = {name: getattr(one, name) for name in _SAME_OF_CALLS}
        found.append(RankCalls(**fields | columns))
    return RunCalls(tuple(found), wire.positions, wire.world_size)


def _table(columns: tuple[bytes, ...]) -> NDArray[np.int64]:
    """A table of columns; (rows, columns)."""
    if len(columns) != len(CATEGORIES):
        raise BadColumnError
    return np.stack([unpack(column) for column in columns], axis=1)


def _collectives_of(wire: _Collectives) -> Collectives:
    """The collectives of a rank, whose columns fit together."""
    columns = {name: unpack(wire.columns[name]) for name in _COLUMNS}
    rows, role = len(columns["role"]), columns["role"]
    alike = all(len(columns[name]) == rows for name in _COLUMNS if name != "steps")
    if not alike or (rows and not 0 <= role.min() <= role.max() < len(wire.roles)):
        raise BadColumnError
    return Collectives(roles=wire.roles, numbering=wire.numbering, **columns)
