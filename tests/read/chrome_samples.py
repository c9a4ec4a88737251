"""Generators of Chrome trace samples, and views of what was read from them."""

import json
from types import SimpleNamespace

import numpy as np

from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.chrome_json import Document
from stepwhy.trace import NULL, Copy, Kind, Phase, Role


def source_of(data):
    """A source of bytes, of text, or of anything that is JSON."""
    if not isinstance(data, bytes | str):
        data = json.dumps(data)
    return Source(data.encode() if isinstance(data, str) else data, "sample")


def read_records(source, args, health):
    """All records of a file, with their times; see `Document` and `Batch`."""
    document = Document(source, args, health)
    batches = list(document)
    return SimpleNamespace(
        events=[e for batch in batches for e in batch.events],
        header=document.header,
        start_ns=np.concatenate([batch.start_ns for batch in batches]),
        dur_ns=np.concatenate([batch.dur_ns for batch in batches]),
        timed=np.concatenate([batch.timed for batch in batches]),
        complete=document.complete,
    )


def x(name, start_us, dur_us, pid=1, tid=1, **more):
    """A complete range."""
    return {"ph": "X", "name": name, "ts": start_us, "dur": dur_us, "pid": pid, "tid": tid, **more}


def pair(name, start_us, end_us, pid=1, tid=1, **more):
    """A range of two records."""
    where = {"name": name, "pid": pid, "tid": tid, **more}
    return [{"ph": "B", "ts": start_us, **where}, {"ph": "E", "ts": end_us, **where}]


def named(kind, name, pid, tid=None):
    """The name of a process or thread."""
    record = {"ph": "M", "name": f"{kind}_name", "pid": pid, "args": {"name": name}}
    return record if tid is None else {**record, "tid": tid}


def slices(trace):
    """Slices for people: (track, kind, name, start_us, dur_us)."""
    s = trace.slices
    return [
        (
            trace.string(trace.tracks.name[s.track[i]]),
            Kind(s.kind[i]).name,
            trace.string(s.name[i]),
            s.start_ns[i] / 1000,
            s.dur_ns[i] / 1000,
        )
        for i in range(len(s))
    ]


def tracks(trace):
    """Tracks for people: (role, name, device or None)."""
    t = trace.tracks
    return [
        (
            Role(t.role[i]).name,
            trace.string(t.name[i]),
            None if t.device[i] == NULL else trace.string(trace.devices.name[t.device[i]]),
        )
        for i in range(len(t))
    ]


def lost(trace):
    """Health counters with how often they counted."""
    return {c.counter: c.count for c in trace.health.counters}


def phases(trace):
    """Phase of every slice that has one, by name."""
    s = trace.slices
    return {trace.string(n): Phase(p).name for n, p in zip(s.name, s.phase, strict=True) if p}


def directions(trace):
    """Direction of every copy."""
    s = trace.slices
    return [Copy(c).name for c, k in zip(s.copy, s.kind, strict=True) if k == Kind.MEMCPY]


# --- Horovod -----------------------------------------------------------------------------------


class HorovodTimeline:
    """A timeline as Horovod writes it: tensors are processes, ends have no name."""

    def __init__(self):
        self.records = [
            {
                "name": "process_name",
                "ph": "M",
                "pid": 0,
                "args": {"start_time_since_epoch_in_micros": 1_600_000_000_000_000},
            },
            {"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}},
        ]
        self._tensors = {}

    def row(self, tensor):
        """The process of a tensor, named at its first use."""
        if tensor not in self._tensors:
            number = self._tensors[tensor] = len(self._tensors) + 1
            self.records += [
                named("process", tensor, number),
                {
                    "name": "process_sort_index",
                    "ph": "M",
                    "pid": number,
                    "args": {"sort_index": number},
                },
            ]
        return self._tensors[tensor]

    def range(self, tensor, name, start_us, end_us, args=None):
        """A range; the end carries the arguments."""
        pid = self.row(tensor)
        self.records += [
            {"ph": "B", "name": name, "ts": start_us, "pid": pid},
            {"ph": "E", "ts": end_us, "pid": pid, **({"args": args} if args else {})},
        ]

    def negotiate(self, tensor, start_us, ready, what="ALLREDUCE"):
        """A negotiation; `ready` has the microsecond at which every rank reports."""
        pid, end_us = self.row(tensor), max(ready.values(), default=start_us)
        self.records.append({"ph": "B", "name": f"NEGOTIATE_{what}", "ts": start_us, "pid": pid})
        self.records += [
            {"ph": "X", "name": str(rank), "ts": at, "pid": pid, "dur": 0}
            for rank, at in sorted(ready.items(), key=lambda r: r[1])
        ]
        self.records.append({"ph": "E", "ts": end_us, "pid": pid})

    def exchange(self, tensor, start_us, end_us, parts=(), what="ALLREDUCE", **args):
        """An exchange with its activities (name, start_us, end_us)."""
        pid = self.row(tensor)
        self.records.append({"ph": "B", "name": what, "ts": start_us, "pid": pid})
        for name, begin, end in parts:
            self.range(tensor, name, begin, end)
        closing = {"args": args} if args else {}
        self.records.append({"ph": "E", "ts": end_us, "pid": pid, **closing})

    def cycle(self, at_us):
        """A marker of a cycle."""
        self.records.append({"ph": "i", "name": "CYCLE_START", "ts": at_us, "s": "g"})

    def text(self, *, closed=False):
        """The file: one record per line, never closed by older releases."""
        lines = ",\n".join(json.dumps(r) for r in self.records)
        return f"[\n{lines}]" if closed else f"[\n{lines},\n"

    def source(self, **how):
        """The file as a source."""
        return source_of(self.text(**how))
