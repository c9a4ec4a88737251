"""Extreme databases of Nsight Systems and nvprof."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Tables = dict[str, tuple[str, Iterable[tuple[object, ...]]]]

_STRINGS = ("id INTEGER PRIMARY KEY, value TEXT", [(1, "kernel"), (2, "cudaLaunchKernel_v7000")])
_KERNEL = "start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName"
_CALL = "start, end, globalTid, correlationId, nameId"
_RANGE = "start, end, eventType, text, textId, domainId, globalTid"
_META = {"META_DATA_EXPORT": ("name, value", [("EXPORT_SCHEMA_VERSION", "3.25.0")])}
_PID = 700 << 24


def database(tables: Tables, more: Iterable[str] = ()) -> bytes:
    """The bytes of a database.

    Args:
        tables: Columns and rows of each table.
        more: Further statements.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "database")
        with closing(sqlite3.connect(path)) as connection, connection:
            for name, (columns, rows) in tables.items():
                connection.execute(f'CREATE TABLE "{name}" ({columns})')
                marks = ", ".join("?" * len(columns.split(", ")))
                connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
            for statement in more:
                connection.execute(statement)
        return path.read_bytes()


def _kernel(
    n: int,
    *,
    device: int = 0,
    stream: int = 7,
    name: int = 1,
    at: int = -1,
    dur: int = 1,
    pid: int = 700,
) -> tuple[int, ...]:
    at = 2 * n + 1 if at < 0 else at
    return (at, at + dur, device, stream, n, (1 << 48) | (pid << 24), name, name)


_Row = "Callable[[int], tuple[object, ...]]"


def _nsys(
    bytes_per_row: int,
    kernels: Callable[[int], tuple[object, ...]] | None = None,
    calls: Callable[[int], tuple[object, ...]] | None = None,
    ranges: Callable[[int], tuple[object, ...]] | None = None,
    strings: Callable[[int], tuple[object, ...]] | None = None,
) -> Callable[[int], bytes]:
    def build(size: int) -> bytes:
        rows = range(max(size // bytes_per_row, 1))
        tables: Tables = {**_META}
        tables["StringIds"] = (
            _STRINGS[0],
            [*_STRINGS[1], *(map(strings, rows) if strings else ())],
        )
        tables["CUPTI_ACTIVITY_KIND_KERNEL"] = (
            _KERNEL,
            map(kernels, rows) if kernels else [_kernel(1)],
        )
        if calls:
            tables["CUPTI_ACTIVITY_KIND_RUNTIME"] = (_CALL, map(calls, rows))
        if ranges:
            tables["NVTX_EVENTS"] = (_RANGE, map(ranges, rows))
        return database(tables)

    return build


def _call(n: int, thread: int = 701) -> tuple[int, ...]:
    return (2 * n, 2 * n + 1, (1 << 48) | _PID | thread, n, 2)


def _range(n: int, text: str, *, end: int = -1, thread: int = 701) -> tuple[object, ...]:
    end = 10 * n + 9 if end < 0 else end
    return (10 * n, end, 59, text, None, 0, (1 << 48) | _PID | thread)


NSYS: dict[str, Callable[[int], bytes]] = {
    "devices": _nsys(38, kernels=lambda n: _kernel(n, device=n)),
    "devices and streams": _nsys(40, kernels=lambda n: _kernel(n, device=n, stream=n)),
    "streams": _nsys(38, kernels=lambda n: _kernel(n, stream=n)),
    "processes": _nsys(38, kernels=lambda n: _kernel(n, pid=n + 1)),
    "kernels": _nsys(35, kernels=_kernel),
    "names": _nsys(
        55, kernels=lambda n: _kernel(n, name=n + 3), strings=lambda n: (n + 3, f"kernel{n}")
    ),
    "unknown names": _nsys(38, kernels=lambda n: _kernel(n, name=n + 3)),
    "long names": _nsys(
        100_000, kernels=lambda n: _kernel(n, name=n + 3), strings=lambda n: (n + 3, "x" * 99_000)
    ),
    "unused strings": _nsys(20, strings=lambda n: (n + 3, f"string {n}")),
    "overlapping": _nsys(36, kernels=lambda n: _kernel(n, at=n, dur=10**9)),
    "calls": _nsys(65, kernels=_kernel, calls=_call),
    "threads": _nsys(30, calls=lambda n: _call(n, n)),
    "ranges": _nsys(36, ranges=lambda n: _range(n, f"range {n}")),
    "steps": _nsys(36, ranges=lambda n: _range(n, f"step {n}")),
    "steps with kernels": _nsys(
        72, kernels=lambda n: _kernel(n, at=10 * n + 1), ranges=lambda n: _range(n, f"step {n}")
    ),
    "nested ranges": _nsys(36, ranges=lambda n: _range(n, "f", end=10**9 - 10 * n)),
    "endless ranges": _nsys(
        34, ranges=lambda n: (10 * n, None, 59, "f", None, 0, (1 << 48) | _PID)
    ),
    "operations": _nsys(70, ranges=lambda n: _range(n, f"aten::op{n}, seq = {n}, op_id = {n}")),
    "huge times": _nsys(40, kernels=lambda n: _kernel(n, at=(n % 97) << 56, dur=1 << 60)),
    "tables": lambda size: database(
        {
            **_META,
            "StringIds": _STRINGS,
            "CUPTI_ACTIVITY_KIND_KERNEL": (_KERNEL, [_kernel(1)]),
            **{f"T{n}": ("a", []) for n in range(min(size // 4200, 2300))},
        }
    ),
    "columns": lambda size: database(
        {
            **_META,
            "StringIds": _STRINGS,
            "CUPTI_ACTIVITY_KIND_KERNEL": (
                _KERNEL + "".join(f", c{n}" for n in range(900)),
                [(*_kernel(n), *range(900)) for n in range(size // 2000)],
            ),
        }
    ),
    "texts in the place of numbers": _nsys(
        60, kernels=lambda n: (f"{n}", f"{n + 1}", *_kernel(n)[2:])
    ),
    "free pages": lambda size: database(
        {
            **_META,
            "StringIds": _STRINGS,
            "CUPTI_ACTIVITY_KIND_KERNEL": (_KERNEL, [_kernel(1)]),
            "JUNK": ("a", [("x" * 5000,) for _ in range(size // 5000)]),
        },
        ["DELETE FROM JUNK"],
    ),
    "view": lambda size: database(
        {
            **_META,
            "StringIds": _STRINGS,
            "T": (_KERNEL, [_kernel(n) for n in range(size // 40)]),
        },
        ["CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT a.* FROM T a, T b"],
    ),
    "generated column": lambda size: database(
        {
            **_META,
            "StringIds": _STRINGS,
            "CUPTI_ACTIVITY_KIND_KERNEL": (_KERNEL, [_kernel(n) for n in range(size // 40)]),
        },
        ["CREATE INDEX i ON CUPTI_ACTIVITY_KIND_KERNEL (start)"],
    ),
}

_NV_KERNEL = "start, end, deviceId, streamId, correlationId, name"
_NV_CALL = "start, end, cbid, processId, threadId, correlationId"
_NV_MARKER = "flags, timestamp, id, objectKind, objectId, name, domain"


def _nvprof(
    bytes_per_row: int,
    kernels: Callable[[int], tuple[object, ...]] | None = None,
    calls: Callable[[int], tuple[object, ...]] | None = None,
    markers: Callable[[int], tuple[object, ...]] | None = None,
    strings: Callable[[int], tuple[object, ...]] | None = None,
) -> Callable[[int], bytes]:
    def build(size: int) -> bytes:
        rows = range(max(size // bytes_per_row, 1))
        texts = [(1, "kernel"), (2, "step"), (3, "Tesla V100")]
        tables: Tables = {
            "StringTable": (
                "_id_ INTEGER PRIMARY KEY, value TEXT",
                [*texts, *(map(strings, rows) if strings else ())],
            ),
            "CUPTI_ACTIVITY_KIND_DEVICE": ("id, name", [(0, 3)]),
            "CUPTI_ACTIVITY_KIND_RUNTIME": (_NV_CALL, map(calls, rows) if calls else []),
            "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": (
                _NV_KERNEL,
                map(kernels, rows) if kernels else [(1, 2, 0, 7, 1, 1)],
            ),
        }
        if markers:
            tables["CUPTI_ACTIVITY_KIND_MARKER"] = (_NV_MARKER, map(markers, rows))
        return database(tables)

    return build


def _object(thread: int) -> bytes:
    return b"".join(n.to_bytes(4, "little") for n in (700, thread, 0))


NVPROF: dict[str, Callable[[int], bytes]] = {
    "devices": _nvprof(28, kernels=lambda n: (2 * n + 1, 2 * n + 2, n, 7, n, 1)),
    "streams": _nvprof(28, kernels=lambda n: (2 * n + 1, 2 * n + 2, 0, n, n, 1)),
    "names": _nvprof(
        45,
        kernels=lambda n: (2 * n + 1, 2 * n + 2, 0, 7, n, n + 4),
        strings=lambda n: (n + 4, f"_ZN2at6kernel{n}E"),
    ),
    "mangled names": _nvprof(
        2000,
        kernels=lambda n: (2 * n + 1, 2 * n + 2, 0, 7, n, n + 4),
        strings=lambda n: (n + 4, "_ZN" + "1a" * 950 + f"E{n}"),
    ),
    "calls": _nvprof(28, calls=lambda n: (2 * n + 1, 2 * n + 2, 211, 700, 701, n)),
    "threads": _nvprof(28, calls=lambda n: (2 * n + 1, 2 * n + 2, 211, 700, n, n)),
    "numbers of calls": _nvprof(28, calls=lambda n: (2 * n + 1, 2 * n + 2, n, 700, 701, n)),
    "steps": _nvprof(
        40, markers=lambda n: (4 if n % 2 else 2, 10 * n, n // 2 + 1, 2, _object(701), 2, 0)
    ),
    "open markers": _nvprof(40, markers=lambda n: (2, 10 * n, n + 1, 2, _object(701), 2, 0)),
    "markers of threads": _nvprof(
        40, markers=lambda n: (4 if n % 2 else 2, 10 * n, n // 2 + 1, 2, _object(n // 2), 2, 0)
    ),
}
