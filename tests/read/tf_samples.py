"""Generators of TensorFlow samples: timelines as JSON, step statistics as protobuf."""

import json
from pathlib import Path

from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.tensorflow.messages import message_class
from stepwhy.trace import NULL, Copy, Kind, Phase, Role

EPOCH_US = 1_700_000_000_000_000
EPOCH_NS = EPOCH_US * 1000

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
OLD_GPU = "/job:localhost/replica:0/task:0/gpu:0"
PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:1/device:CPU:0"


def source_of(data, path=None):
    return Source(data, "sample", path)


def timeline(rows, extra=()):
    """Timeline JSON of {row name: [(lane, node, op, start_us, dur_us), ...]}."""
    events = [process_row(0, "Allocators")]
    ops = []
    for i, (row, entries) in enumerate(rows.items()):
        events += [
            process_row(2 * i + 1, f"{row} Compute"),
            process_row(2 * i + 2, f"{row} Tensors"),
        ]
        ops += [op_event(2 * i + 1, entry) for entry in entries]
    return json.dumps({"traceEvents": [*events, *ops, *extra]}).encode()


def process_row(pid, name):
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def op_event(pid, entry):
    lane, node, op, start_us, dur_us = entry
    return {
        "ph": "X",
        "cat": "Op",
        "name": op,
        "pid": pid,
        "tid": lane,
        "ts": EPOCH_US + start_us,
        "dur": dur_us,
        "args": {"name": node, "op": op, "input0": "x"},
    }


def step_stats(devices):
    """A StepStats of [(device, [(node, label, start_us, dur_us, output bytes or None), ...])]."""
    stats = message_class("StepStats")()
    for name, entries in devices:
        device = stats.dev_stats.add(device=name.encode())
        for node, label, start_us, dur_us, size in entries:
            entry = device.node_stats.add(node_name=node.encode(), timeline_label=label.encode())
            entry.all_start_micros = EPOCH_US + start_us
            entry.all_end_rel_micros = dur_us
            if size is not None:
                output = entry.output.add()
                output.tensor_description.allocation_description.requested_bytes = size
    return stats


def run_metadata(devices, graphs=()):
    """A RunMetadata of step statistics, see `step_stats`, and partition graphs, see `graph`."""
    metadata = message_class("RunMetadata")()
    metadata.step_stats.CopyFrom(step_stats(devices))
    for graph in graphs:
        metadata.partition_graphs.append(graph)
    return metadata


def graph(*nodes):
    """A GraphDef of (name, op, device, inputs, {attribute: text, bool, int or list of texts})."""
    definition = message_class("GraphDef")()
    for name, op, device, inputs, attributes in nodes:
        node = definition.node.add(name=name.encode(), op=op.encode(), device=device.encode())
        node.input.extend(i.encode() for i in inputs)
        for key, value in attributes.items():
            set_attribute(node.attr.add(key=key.encode()).value, value)
    return definition


def set_attribute(attribute, value):
    if isinstance(value, bool):
        attribute.b = value
    elif isinstance(value, int):
        attribute.type = value
    elif isinstance(value, list):
        attribute.list.s.extend(v.encode() for v in value)
    else:
        attribute.s = value.encode()


def rendezvous(tensor, sender, receiver, **more):
    return {"tensor_name": tensor, "send_device": sender, "recv_device": receiver, **more}


def write(folder: Path, data, **beside):
    """A trace file with the files beside it; returns its source."""
    path = folder / "run_metadata.pb"
    path.write_bytes(data)
    for name, content in beside.items():
        (folder / ".".join(name.rsplit("_", 1))).write_bytes(content)
    return source_of(data, path)


def slices(trace):
    """Slices for people: (track, kind, name, scope, phase, start_us, dur_us)."""
    s = trace.slices
    return [
        (
            trace.string(trace.tracks.name[s.track[i]]),
            Kind(s.kind[i]).name,
            trace.string(s.name[i]),
            trace.string(s.scope[i]),
            Phase(s.phase[i]).name,
            (int(s.start_ns[i]) - EPOCH_NS) / 1000,
            int(s.dur_ns[i]) / 1000,
        )
        for i in range(len(s))
    ]


def tracks(trace):
    """Tracks for people: (role, name, device)."""
    t = trace.tracks
    return [
        (
            Role(t.role[i]).name,
            trace.string(t.name[i]),
            trace.string(trace.devices.name[t.device[i]]) if t.device[i] != NULL else None,
        )
        for i in range(len(t))
    ]


def nodes(trace):
    """Placement for people: name -> (op, requested, actual), None where it is not known."""
    n = trace.nodes
    return {
        trace.string(n.name[i]): tuple(
            None if column[i] == NULL else trace.string(column[i])
            for column in (n.op, n.requested, n.actual)
        )
        for i in range(len(n))
    }


def copies(trace):
    """Copies for people: (source, target, from, to, bytes, dur_us)."""
    c = trace.copies
    return [
        (
            trace.string(trace.nodes.name[c.source[i]]),
            trace.string(trace.nodes.name[c.target[i]]) if c.target[i] != NULL else None,
            trace.string(c.from_device[i]),
            trace.string(c.to_device[i]),
            int(c.bytes[i]),
            int(c.dur_ns[i]) / 1000 if c.dur_ns[i] != NULL else None,
        )
        for i in range(len(c))
    ]


def directions(trace):
    """Directions of the copies on streams, in order."""
    return [Copy(c).name for c in trace.slices.copy[trace.rows(Kind.MEMCPY)]]


def counters(trace):
    """Health counters by name."""
    return {c.counter: c.count for c in trace.health.counters}


def busy_ns(trace, rows):
    """Length of the union of some slices."""
    total, end = 0, 0
    for row in rows:  # ordered by start
        stop = int(trace.end_ns[row])
        total += max(0, stop - max(end, int(trace.slices.start_ns[row])))
        end = max(end, stop)
    return total
