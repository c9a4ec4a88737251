"""Generator of XSpace samples, and how tests read them."""

import zlib

from stepwhy.read.formats.xplane.reader import read, recognise
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.tensorflow.messages import message_class
from stepwhy.trace import Copy, Kind, Phase, Role

EPOCH_NS = 1_700_000_000_000_000_000


def event(name, start_us, dur_us, /, **stats):
    return (name, round(start_us * 1_000_000), round(dur_us * 1_000_000), stats)


def line(name, *events, at_ns=0, number=None):
    return (name, number if number is not None else zlib.crc32(name.encode()), at_ns, events)


def shared(message, name, **stats):
    """Give all events of a name statistics in common."""
    numbers = Numbers(message)
    numbers.stats = {e.value.name.decode(): e.key for e in message.stat_metadata}
    (entry,) = (e for e in message.event_metadata if e.value.name == name.encode())
    numbers.add_stats(entry.value.stats, stats)
    return message


def varint(value):
    """Seven bits per byte, lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    """A field that holds a number, as it is written."""
    return varint(field << 3) + varint(value & 0xFFFFFFFFFFFFFFFF)


def block(field, *parts):
    """A field that holds bytes, as it is written."""
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def program(key, name="", /, **op_names):
    """An entry of '/host:metadata': a compiled program, and the operation of each instruction."""
    instructions = [
        block(2, block(1, of.encode()), block(2, b"fusion"), block(7, block(2, op.encode())))
        for of, op in op_names.items()
    ]
    hlo = block(1, block(3, *instructions))
    stat = block(5, number(1, 1), block(6, hlo))
    return block(4, number(1, key), block(2, number(1, key), block(2, name.encode()), stat))


def metadata_plane(*programs):
    """The plane of compiled programs, as it is written in a space."""
    return block(1, block(2, b"/host:metadata"), *programs)


def plane(name, *lines, **stats):
    """A plane of lines of events; references its strings as the profilers do."""
    message = message_class("XPlane")(name=name.encode())
    numbers = Numbers(message)
    numbers.add_stats(message.stats, stats)
    for line_name, number, at_ns, events in lines:
        row = message.lines.add(name=line_name.encode(), id=number, timestamp_ns=at_ns)
        for event_name, offset_ps, duration_ps, event_stats in events:
            entry = row.events.add(
                metadata_id=numbers.event(event_name), offset_ps=offset_ps, duration_ps=duration_ps
            )
            numbers.add_stats(entry.stats, event_stats)
    return message


class Numbers:
    """Metadata ids by name."""

    def __init__(self, message):
        self.message = message
        self.events = {}
        self.stats = {}

    def event(self, name):
        return self._number(self.events, self.message.event_metadata, name)

    def stat(self, name):
        return self._number(self.stats, self.message.stat_metadata, name)

    def add_stats(self, target, values):
        for name, value in values.items():
            if isinstance(value, int):
                target.add(metadata_id=self.stat(name), int64_value=value)
            elif name == "memcpy_details":
                target.add(metadata_id=self.stat(name), str_value=value.encode())
            else:
                target.add(metadata_id=self.stat(name), ref_value=self.stat(value))

    def _number(self, known, table, name):
        if name not in known:
            known[name] = len(known) + 1
            table.add(key=known[name]).value.name = name.encode()
        return known[name]


def host(*lines):
    return plane("/host:CPU", *lines)


def xspace(*planes):
    message = message_class("XSpace")()
    message.planes.extend(planes)
    return message.SerializeToString() + b"\x22\x04host"  # the name of the host, field 4


def source_of(data):
    return Source(data, "sample")


def trace_of(*planes):
    source = source_of(xspace(*planes))
    assert recognise(source)
    return read(source)


def rows(trace, *columns):
    """The slices as tuples of (name, kind, role) and the columns asked for, in order."""
    found = []
    for i in range(len(trace.slices)):
        track = int(trace.slices.track[i])
        row = [
            trace.string(int(trace.slices.name[i])),
            Kind(int(trace.slices.kind[i])),
            Role(int(trace.tracks.role[track])),
        ]
        found.append((*row, *(value_of(trace, column, i) for column in columns)))
    return found


def value_of(trace, column, row):
    value = int(getattr(trace.slices, column)[row])
    if column == "source":
        return trace.string(value)
    enums = {"copy": Copy, "phase": Phase}
    return enums[column](value) if column in enums else value


def counters(trace):
    return {c.counter: c.count for c in trace.health.counters}
