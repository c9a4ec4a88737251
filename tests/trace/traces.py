"""Random traces with every table filled, for the tests of storing and joining."""

from hypothesis import strategies as st

from stepwhy.trace import NULL, Health, Kind, Meta, Role, TraceBuilder

_names = st.sampled_from(["aten::mm", "k", "é", "", "b", 'quo"te'])
_spans = st.tuples(st.integers(-(10**6), 10**18), st.integers(0, 10**9))


@st.composite
def traces(draw):
    """A small trace: slices on shared tracks, flows, counters, nodes, copies and marks."""
    builder = TraceBuilder(Health())
    tracks = [builder.track(Role.HOST_THREAD, "main", process=1, thread=2)]
    for name in draw(st.lists(st.sampled_from(["GPU:0", "GPU:1", "TPU:0"]), unique=True)):
        device = builder.device(name, 1, draw(_names))
        tracks.append(builder.track(Role.STREAM, f"on {name}", thread=7, device=device))
    count = 0
    for span in draw(st.lists(_spans, max_size=8)):
        extra = {
            "scope": builder.intern(draw(_names)),
            "bytes": draw(st.sampled_from([NULL, 0, 5])),
        }
        builder.slice(draw(st.sampled_from(tracks)), Kind.OP, draw(_names), *span, **extra)
        count += 1
    if count:
        for _ in range(draw(st.integers(0, 3))):
            source, target = (draw(st.integers(0, count - 1)) for _ in range(2))
            builder.add("flows", source=source, target=target, kind=draw(st.integers(0, 2)))
            builder.add("executions", slice=source, op_ns=draw(st.integers(-1, 9)))
            name = builder.intern(draw(_names))
            builder.add("session_values", slice=target, fed=1, name=name, bytes=5)
            event = draw(st.sampled_from([NULL, source]))
            builder.add("waits", time_ns=draw(st.integers(0, 9)), slice=target, event=event)
            builder.add("collectives", slice=target, group=name, ranks=2)
            builder.add("operands", slice=target, types=name)
    node = builder.add("nodes", name=builder.intern(draw(_names)), op=builder.intern("MatMul"))
    builder.add("copies", source=node, from_device=builder.intern("a"), to_device=0, bytes=7)
    for time in draw(st.lists(st.integers(0, 99), max_size=3)):
        builder.add("counters", time_ns=time, name=builder.intern("memory"), value=time)
        builder.add("marks", start_ns=time, dur_ns=3, profiled=0, light=time % 3)
        builder.add("visits", start_ns=time, end_ns=time + 2, lines=builder.intern("a.py(1): f"))
        builder.add("events", kind=0, start_ns=time, dur_ns=2, name=builder.intern(draw(_names)))
        builder.add("levels", time_ns=time, queue=builder.intern(draw(_names)), kind=0, value=time)
        builder.add("stages", name=builder.intern(draw(_names)), kind=0, elements=time)
        line, package = builder.intern("a.py(1): f"), builder.intern("")
        builder.add("samples", line=line, package=package, count=1)
    _fill_health(draw, builder.health, count)
    return builder.finish(
        Meta(
            "test", rank=draw(st.integers(-1, 3)), command=draw(_names),
            signals=draw(st.frozensets(_names)), notes=tuple(draw(st.lists(_names, max_size=2))),
            device_expected=draw(st.booleans()),
        )
    )  # fmt: skip


def _fill_health(draw, health, kept):
    lost = draw(st.integers(0, 3))
    health.events_read, health.events_kept = kept + lost, kept
    health.count("lost", "error", "Lost.", count=lost, dropped=True)
    health.count("guessed", "info", "Guessed.", count=draw(st.integers(0, 2)), dropped=False)


def slices_of(trace):
    """Every slice with its texts, in order of time; what it means whatever the row numbers are."""
    return sorted(_meaning(trace, row) for row in range(len(trace.slices)))


def _meaning(trace, row):
    slices, track = trace.slices, trace.slices.track[row]
    device = trace.tracks.device[track]
    return (
        int(slices.start_ns[row]), int(slices.dur_ns[row]), int(slices.kind[row]),
        trace.string(slices.name[row]), trace.string(slices.scope[row]), int(slices.bytes[row]),
        int(trace.tracks.role[track]), trace.string(trace.tracks.name[track]),
        trace.string(trace.devices.name[device]) if device != NULL else "",
    )  # fmt: skip


def executions_of(trace):
    """Every execution, by what its slice means."""
    executions = trace.executions
    return sorted(
        (_meaning(trace, s), int(ns))
        for s, ns in zip(executions.slice, executions.op_ns, strict=True)
    )


def waits_of(trace):
    """Every wait, by what its slices mean."""
    waits = trace.waits
    return sorted(
        (int(t), _meaning(trace, s), _meaning(trace, e) if e != NULL else ())
        for t, s, e in zip(waits.time_ns, waits.slice, waits.event, strict=True)
    )


def flows_of(trace):
    """Every flow, by what its slices mean."""
    return sorted(
        (_meaning(trace, s), _meaning(trace, t), int(k))
        for s, t, k in zip(trace.flows.source, trace.flows.target, trace.flows.kind, strict=True)
    )
