"""Generators of the SQLite databases of Nsight Systems and nvprof."""

import sqlite3
from contextlib import closing
from itertools import count

from stepwhy.read.inputs.source import Source
from stepwhy.trace import NULL, Copy, Kind, Role

PID, TID = 700, 701


def write_database(path, tables):
    """A database of {table: [{column: value}, ...]}, or of {table: (columns, rows)}."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, content in tables.items():
            columns, rows = content if isinstance(content, tuple) else _as_rows(content)
            connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)  # noqa: S608
    return path


def _as_rows(records):
    columns = list(dict.fromkeys(c for record in records for c in record))
    return columns, [[record.get(c) for c in columns] for record in records]


class _Strings:
    """Numbers of texts."""

    def __init__(self):
        self.numbers = {}

    def __call__(self, text):
        return self.numbers.setdefault(text, len(self.numbers) + 1)


class Nsys:
    """An export of Nsight Systems; every method adds a row to a table.

    Args:
        extra: More tables.
    """

    def __init__(self, **extra):
        self.strings = _Strings()
        self.tables = {"META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"}]}
        self.tables.update(extra)

    def add(self, table, **columns):
        self.tables.setdefault(table, []).append(columns)
        return self

    def kernel(self, name, start, end, correlation=0, *, pid=PID, device=0, stream=7, **more):
        ids = {"demangledName": self.strings(name), "shortName": self.strings("short")}
        row = (
            _on_device(start, end, correlation, pid=pid, device=device, stream=stream) | ids | more
        )
        return self.add("CUPTI_ACTIVITY_KIND_KERNEL", **row)

    def copy(self, kind, start, end, correlation=0, *, size=8, source=0, target=2, **place):
        row = _on_device(start, end, correlation, **place)
        row |= {"copyKind": kind, "bytes": size, "srcKind": source, "dstKind": target}
        return self.add("CUPTI_ACTIVITY_KIND_MEMCPY", **row)

    def fill(self, start, end, correlation=0, *, size=8, **place):
        row = _on_device(start, end, correlation, **place) | {"bytes": size, "value": 0}
        return self.add("CUPTI_ACTIVITY_KIND_MEMSET", **row)

    def graph(self, start, end, correlation=0, number=1, **place):
        row = _on_device(start, end, correlation, **place) | {"graphId": number}
        return self.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", **row)

    def call(self, name, start, end, correlation=0, *, pid=PID, tid=TID):
        return self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            globalTid=global_id(pid, tid),
            correlationId=correlation,
            nameId=self.strings(name),
        )

    def range(self, text, start, end, *, kind=59, domain=0, by_number=False, pid=PID, tid=TID):
        return self.add(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType=kind,
            text=None if by_number else text,
            textId=self.strings(text) if by_number else None,
            domainId=domain,
            globalTid=global_id(pid, tid),
        )

    def write(self, path):
        numbers = self.strings.numbers.items()
        strings = (["id INTEGER PRIMARY KEY", "value TEXT"], [[i, text] for text, i in numbers])
        return write_database(path, {"StringIds": strings, **self.tables})


def global_id(pid, tid=0, machine=1):
    return (machine << 48) | (pid << 24) | tid


def _on_device(start, end, correlation, *, pid=PID, device=0, stream=7):
    return {
        "start": start,
        "end": end,
        "deviceId": device,
        "streamId": stream,
        "correlationId": correlation,
        "globalPid": global_id(pid),
    }


class Nvprof:
    """A database of nvprof, with the tables that are always there."""

    def __init__(self):
        self.strings = _Strings()
        self.ids = count(1)
        self.tables = {
            "CUPTI_ACTIVITY_KIND_DEVICE": [{"id": 0, "name": self.strings("Tesla V100")}],
            "CUPTI_ACTIVITY_KIND_RUNTIME": (["start", "end", "cbid"], []),
        }

    def add(self, table, **columns):
        name = f"CUPTI_ACTIVITY_KIND_{table}"
        if isinstance(self.tables.get(name), tuple):
            del self.tables[name]
        self.tables.setdefault(name, []).append(columns)
        return self

    def kernel(self, name, start, end, correlation=0, *, table="CONCURRENT_KERNEL", device=0):
        row = _on_device(start, end, correlation, device=device) | {"name": self.strings(name)}
        del row["globalPid"]
        return self.add(table, **row)

    def copy(self, kind, start, end, correlation=0, *, table="MEMCPY", **more):
        row = _on_device(start, end, correlation) | {"copyKind": kind, "bytes": 8} | more
        del row["globalPid"]
        return self.add(table, **row)

    def call(self, number, start, end, correlation=0, *, table="RUNTIME", tid=TID):
        return self.add(
            table,
            start=start,
            end=end,
            cbid=number,
            processId=PID,
            threadId=tid,
            correlationId=correlation,
        )

    def marker(self, flags, timestamp, number, text="", *, kind=2, tid=TID, domain=0):
        return self.add(
            "MARKER",
            flags=flags,
            timestamp=timestamp,
            id=number,
            objectKind=kind,
            objectId=object_id(PID, tid),
            name=self.strings(text),
            domain=domain,
        )

    def range(self, text, start, end, **more):
        number = next(self.ids)
        return self.marker(2, start, number, text, **more).marker(4, end, number, **more)

    def overhead(self, kind, start, end):
        owner = {"objectKind": 1, "objectId": object_id(PID, 0)}
        return self.add("OVERHEAD", overheadKind=kind, start=start, end=end, **owner)

    def write(self, path):
        numbers = self.strings.numbers.items()
        strings = (["_id_ INTEGER PRIMARY KEY", "value TEXT"], [[i, t] for t, i in numbers])
        return write_database(path, {"StringTable": strings, **self.tables})


def object_id(pid, tid):
    return b"".join(n.to_bytes(4, "little") for n in (pid, tid & 0xFFFFFFFF, 0))


# --- how tests read a trace --------------------------------------------------------------------


def source_of(path):
    """A database as a plain file, of which importers read only the head themselves."""
    return Source(path.read_bytes, path.name, path, head=path.read_bytes()[:65536])


def slices(trace):
    """(track, kind, name, start, duration) of every slice."""
    table = trace.slices
    return [
        (
            trace.string(trace.tracks.name[table.track[i]]),
            Kind(table.kind[i]).name,
            trace.string(table.name[i]),
            int(table.start_ns[i]),
            int(table.dur_ns[i]),
        )
        for i in range(len(table))
    ]


def tracks(trace):
    """(role, name, process, thread, device) of every track."""
    table = trace.tracks
    return [
        (
            Role(table.role[i]).name,
            trace.string(table.name[i]),
            int(table.process[i]),
            int(table.thread[i]),
            None if table.device[i] == NULL else trace.string(trace.devices.name[table.device[i]]),
        )
        for i in range(len(table))
    ]


def copies(trace):
    """(direction, pageable, bytes) of every copy."""
    rows = trace.rows(Kind.MEMCPY)
    table = trace.slices
    return [(Copy(table.copy[i]).name, int(table.pageable[i]), int(table.bytes[i])) for i in rows]


def counters(trace):
    return {c.counter: c.count for c in trace.health.counters}
