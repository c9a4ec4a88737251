"""RunMetadata and StepStats: hand-made messages, real ones, and TensorFlow's own opinion."""

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.tf_samples import (
    CPU,
    EPOCH_NS,
    PS,
    WORKER,
    busy_ns,
    copies,
    counters,
    directions,
    graph,
    nodes,
    rendezvous,
    run_metadata,
    slices,
    source_of,
    step_stats,
    tracks,
    write,
)

from stepwhy.base.errors import CorruptInputError, StepwhyError
from stepwhy.read.formats.run_metadata import reader as importer
from stepwhy.trace import NULL, Kind, Role

TRACES = os.environ.get("STEPWHY_TRACES")

LOCAL = [
    (
        CPU,
        [
            ("_SOURCE", "_SOURCE = NoOp()", 0, 1, None),
            ("batch", "batch = QueueDequeueManyV2(queue, n)", 2, 160, 98304),
            ("conv", "[mklcpu 0.5MB 0.5MB] conv = _MklNativeConv2D(batch, w)", 170, 240, 524288),
            ("pool", "pool = MaxPool(x)", 300, 20, None),
        ],
    )
]

LABEL = "[4.0MB] [2.8Gb/s] edge_10_w/read from {} to {}"
# The runtime lists a device once for its transfers and once for its ops.
READ = ("w/read", "w/read = Identity(w)", 5, 2, 4194304)
CLUSTER = [
    (WORKER, [("RecvTensor", LABEL.format(PS, WORKER), 20, 30, 4194304)]),
    (PS, [READ]),
    (WORKER, [("tower/MatMul", "tower/MatMul = MatMul(x, w/read_S3)", 60, 9, 2097152)]),
]
EDGE = rendezvous("edge_10_w/read", PS, WORKER, T=1, _dst="tower/MatMul")
PARTITIONS = (
    graph(
        ("w/read", "Identity", PS, ["w"], {}),
        ("w/read_S2", "_Send", PS, ["w/read"], EDGE),
        ("loss", "Mean", PS, [], {}),
        ("fetch", "_Send", PS, ["loss"], rendezvous("loss:0", PS, PS, client_terminated=True)),
    ),
    graph(
        ("w/read_S3", "_Recv", WORKER, [], EDGE),
        ("tower/MatMul", "_MklMatMul", WORKER, ["x", "w/read_S3"], {}),
    ),
)


def read(message):
    source = source_of(message.SerializeToString())
    assert importer.recognise(source)
    return importer.read(source)


def test_ops_of_one_device_with_their_bytes():
    trace = read(run_metadata(LOCAL))
    assert slices(trace) == [
        ("executor 0", "KERNEL", "NoOp", "_SOURCE", "OTHER", 0, 1),
        ("executor 0", "INPUT", "QueueDequeueManyV2", "batch", "INPUT", 2, 160),
        ("executor 0", "KERNEL", "Conv2D", "conv", "FORWARD", 170, 240),
        ("executor 1", "KERNEL", "MaxPool", "pool", "FORWARD", 300, 20),
    ]
    assert trace.slices.bytes.tolist() == [NULL, 98304, 524288, NULL]
    assert trace.meta.signals == {
        "whole-step",
        "host-ops",
        "device-activity",
        "placement",
    }
    assert (trace.health.events_read, trace.health.events_kept) == (4, 4)


def test_bare_step_statistics_are_read_too():
    assert slices(read(step_stats(LOCAL))) == slices(read(run_metadata(LOCAL)))


def test_nanoseconds_go_before_microseconds():
    stats = step_stats(LOCAL)
    entry = stats.dev_stats[0].node_stats[0]
    entry.all_start_nanos, entry.all_end_rel_nanos = EPOCH_NS + 123, 824
    trace = read(stats)
    assert (trace.slices.start_ns[0], trace.slices.dur_ns[0]) == (EPOCH_NS + 123, 824)


def test_the_op_itself_and_its_memory_are_kept():
    stats = step_stats(LOCAL)
    conv = stats.dev_stats[0].node_stats[2]
    conv.op_end_rel_micros = 200
    conv.memory.add(total_bytes=100, peak_bytes=80, live_bytes=60)
    conv.memory.add(total_bytes=10, peak_bytes=10, live_bytes=10)
    conv.memory_stats.temp_memory_size, conv.memory_stats.persistent_memory_size = 7, 3
    trace = read(stats)
    executions = trace.executions
    assert trace.string(trace.slices.scope[executions.slice[0]]) == "conv"
    assert trace.string(executions.runtime_op[0]) == "_MklNativeConv2D"
    assert executions.op_ns.tolist() == [200_000]
    assert executions.requested_bytes.tolist() == [100 + 10 + 7 + 3]
    assert executions.peak_bytes.tolist() == [80 + 10 + 7 + 3]
    assert executions.residual_bytes.tolist() == [60 + 10 + 3]


def test_an_op_without_memory_statistics_has_none():
    stats = step_stats(LOCAL)
    stats.dev_stats[0].node_stats[1].op_end_rel_micros = 150
    executions = read(stats).executions
    assert executions.op_ns.tolist() == [150_000, NULL]
    assert executions.requested_bytes.tolist() == [NULL, NULL]
    assert executions.runtime_op.tolist()[0] == NULL


def test_a_flow_leads_from_each_op_to_those_that_read_its_output():
    assert flows(read(run_metadata(LOCAL))) == [("batch", "conv")]


def test_a_received_tensor_comes_from_its_sender():
    receives = ("sum", "sum = Add(w/read/_12, w/read:0)", 80, 3, None)
    trace = read(run_metadata([*CLUSTER, (WORKER, [receives])]))
    assert flows(trace) == [("w/read", "sum")]


def test_an_op_in_a_loop_reads_what_was_made_last():
    rounds = [(0, "a"), (10, "b"), (20, "a"), (30, "b")]
    labels = {"a": "a = Const()", "b": "b = Neg(a)"}
    trace = read(run_metadata([(CPU, [(n, labels[n], at, 2, None) for at, n in rounds])]))
    assert list(zip(trace.flows.source.tolist(), trace.flows.target.tolist(), strict=True)) == [
        (0, 1),
        (2, 3),
    ]


def flows(trace):
    return [
        (trace.string(trace.slices.scope[a]), trace.string(trace.slices.scope[b]))
        for a, b in zip(trace.flows.source, trace.flows.target, strict=True)
    ]


def test_an_arriving_tensor_is_a_copy_on_a_track_of_its_own():
    trace = read(run_metadata(CLUSTER))
    assert tracks(trace) == [
        ("EXECUTOR", "arriving tensors 0", "/job:worker/task:1 CPU:0"),
        ("EXECUTOR", "executor 0", "/job:ps/task:0 CPU:0"),
        ("EXECUTOR", "executor 0", "/job:worker/task:1 CPU:0"),
    ]
    assert slices(trace)[1] == (
        "arriving tensors 0",
        "MEMCPY",
        "RecvTensor",
        "w/read",
        "COMMUNICATION",
        20,
        30,
    )
    assert directions(trace) == ["PEER"]
    assert trace.slices.bytes[trace.rows(Kind.MEMCPY)].tolist() == [4194304]


def test_copies_come_from_partition_graphs_with_measured_size_and_time():
    trace = read(run_metadata(CLUSTER, PARTITIONS))
    ps, worker = "/job:ps/task:0 CPU:0", "/job:worker/task:1 CPU:0"
    assert copies(trace) == [("w/read", "tower/MatMul", ps, worker, 4194304, 30.0)]
    assert nodes(trace) == {
        "w/read": ("Identity", None, ps),
        "loss": ("Mean", None, ps),
        "tower/MatMul": ("MatMul", None, worker),
    }


def test_without_a_transfer_a_copy_has_the_size_of_its_source_and_no_time():
    trace = read(run_metadata([(PS, [READ])], PARTITIONS))
    assert [c[4:] for c in copies(trace)] == [(4194304, None)]


def test_without_partition_graphs_copies_come_from_the_transfers():
    trace = read(run_metadata(CLUSTER))
    ps, worker = "/job:ps/task:0 CPU:0", "/job:worker/task:1 CPU:0"
    assert copies(trace) == [("w/read", None, ps, worker, 4194304, 30.0)]


def test_a_control_edge_moves_no_bytes():
    edge = rendezvous("edge_4_w/read", PS, WORKER, T=1)
    graphs = (
        graph(
            ("w/read", "Identity", PS, [], {}),
            ("w/read/ctrl_S0", "Const", PS, ["^w/read"], {}),
            ("w/read_S1", "_Send", PS, ["w/read/ctrl_S0"], edge),
        ),
        graph(
            ("w/read_S2", "_Recv", WORKER, [], edge),
            ("w/read_S3", "Identity", WORKER, ["w/read_S2"], {}),
        ),
    )
    trace = read(run_metadata([(PS, [READ])], graphs))
    assert [(c[0], c[1], c[4]) for c in copies(trace)] == [("w/read", "w/read_S3", 0)]


def test_partition_graphs_alone_tell_the_placement():
    trace = read(run_metadata([], PARTITIONS))
    assert len(trace.slices) == 0
    assert trace.meta.signals == {"placement", "copies", "whole-step"}
    assert len(copies(trace)) == 1


def test_files_beside_it_tell_what_the_program_asked_for(tmp_path):
    program = graph(
        ("w", "VariableV2", "/job:ps/task:0", [], {}),
        ("w/read", "Identity", "/job:ps/task:0", ["w"], {"_class": ["loc:@w"]}),
        ("tower/MatMul", "MatMul", "/job:worker/task:1/device:GPU:0", ["x", "w/read"], {}),
        ("never", "Relu", "", [], {}),
    )
    line, scope = "train.py(41): tower", "train.py(38)"
    sources = {
        "w/read": {
            "source": line,
            "requested": "/job:ps/task:0",
            "scopes": [
                {"device": "/job:worker/task:1", "line": "train.py(30)"},
                {"device": "/job:ps/task:0", "line": scope},
            ],
        },
        "only/here": {"requested": "/gpu:0", "scopes": []},
    }
    window = {"kind": "tf1-run", "step": 3, "start_ns": EPOCH_NS, "end_ns": EPOCH_NS + 90_000}
    source = write(
        tmp_path,
        run_metadata(CLUSTER, PARTITIONS).SerializeToString(),
        graph_pb=program.SerializeToString(),
        sources_json=json.dumps({"ops": sources}).encode(),
        window_json=json.dumps(window).encode(),
    )
    trace = importer.read(source)
    ps, worker = "/job:ps/task:0 CPU:0", "/job:worker/task:1 CPU:0"
    assert nodes(trace) == {
        "w": ("VariableV2", "/job:ps/task:0", None),
        "w/read": ("Identity", "/job:ps/task:0", ps),
        "tower/MatMul": ("MatMul", "/job:worker/task:1 GPU:0", worker),
        "never": ("Relu", "", None),
        "only/here": ("", "GPU:0", None),
        "loss": ("Mean", None, ps),
    }
    row = trace.strings_where(["w/read"])[0] == trace.nodes.name
    told = {c: trace.string(getattr(trace.nodes, c)[row][0]) for c in COLUMNS}
    assert told == {
        "outer": "/job:worker/task:1",
        "scope_line": scope,
        "source": line,
        "colocated_with": "w",
    }
    step = trace.rows(Kind.STEP, role=Role.HOST_THREAD)
    assert trace.slices.start_ns[step].tolist() == [EPOCH_NS]
    assert trace.slices.dur_ns[step].tolist() == [90_000]


def test_what_a_run_was_fed_and_returned_belongs_to_it(tmp_path):
    feeds = [{"name": "x:0", "given": "list of float", "wanted": "float32", "bytes": 8}]
    feeds[0]["fingerprint"] = 5
    window = {"kind": "tf1-run", "start_ns": EPOCH_NS, "end_ns": EPOCH_NS + 90_000}
    window["source"] = "train.py(7): main"
    window |= {"feeds": feeds, "fetches": [{"name": "names:0", "given": "object"}]}
    data = run_metadata(LOCAL).SerializeToString()
    trace = importer.read(write(tmp_path, data, window_json=json.dumps(window).encode()))
    values = trace.session_values
    assert values.slice.tolist() == trace.rows(Kind.STEP).tolist() * 2
    assert values.fed.tolist() == [1, 0]
    assert values.bytes.tolist() == [8, NULL]
    assert values.fingerprint.tolist() == [5, NULL]
    sources = trace.slices.source[trace.rows(Kind.STEP)]
    assert [trace.string(int(source)) for source in sources] == ["train.py(7): main"]
    pairs = zip(values.name, values.python_type, strict=True)
    names = [[trace.string(int(t)) for t in pair] for pair in pairs]
    assert names == [["x:0", "list of float"], ["names:0", "object"]]
    assert [trace.string(int(t)) for t in values.graph_type] == ["float32", ""]


def test_a_size_that_no_value_has_is_none(tmp_path):
    feeds = [{"name": "x:0", "bytes": size} for size in (2**63, -5, 8)]
    window = {"kind": "tf1-run", "start_ns": EPOCH_NS, "end_ns": EPOCH_NS + 900_000, "feeds": feeds}
    data = run_metadata(LOCAL).SerializeToString()
    trace = importer.read(write(tmp_path, data, window_json=json.dumps(window).encode()))
    assert trace.session_values.bytes.tolist() == [NULL, NULL, 8]


def test_devices_of_the_session_that_did_nothing_are_there(tmp_path):
    names = ["/job:localhost/replica:0/task:0/device:CPU:0", "/device:GPU:0", "no device"]
    data = run_metadata(LOCAL).SerializeToString()
    alone = importer.read(write(tmp_path, data))
    sources = json.dumps({"devices": names, "ops": {}}).encode()
    trace = importer.read(write(tmp_path, data, sources_json=sources))
    found = [trace.string(int(name)) for name in trace.devices.name]
    assert found == [alone.string(int(name)) for name in alone.devices.name] + ["GPU:0"]
    # An idle accelerator is no reason to expect its work in the trace.
    assert not trace.meta.device_expected
    # Earlier versions of stepwhy did not compress the file.
    (tmp_path / "sources.json").unlink()
    packed = importer.read(write(tmp_path, data, **{"sources.json_gz": gzip.compress(sources)}))
    assert [packed.string(int(name)) for name in packed.devices.name] == found


COLUMNS = ("outer", "scope_line", "source", "colocated_with")


@pytest.mark.parametrize(
    ("window", "counter"),
    [
        ({"kind": "tf1-run", "start_ns": 5, "end_ns": 9}, {"window-elsewhere": 1}),
        ({"kind": "tf1-run", "start_ns": 9, "end_ns": 5}, {"unreadable-sidecar": 1}),
        ({"kind": "tf1-run"}, {"unreadable-sidecar": 1}),
        ({"kind": "torch", "start_ns": 5, "end_ns": 9}, {}),
    ],
)
def test_a_window_that_cannot_be_right_is_not_used(tmp_path, window, counter):
    data = run_metadata(LOCAL).SerializeToString()
    trace = importer.read(write(tmp_path, data, window_json=json.dumps(window).encode()))
    assert counters(trace) == counter
    assert len(trace.rows(Kind.STEP)) == 0


def test_damaged_files_beside_it_are_counted(tmp_path):
    data = run_metadata(LOCAL).SerializeToString()
    beside = {"graph_pb": b"\x0a\xff", "sources_json": b'{"ops": 3}', "window_json": b"{"}
    trace = importer.read(write(tmp_path, data, **beside))
    assert counters(trace) == {"unreadable-sidecar": 3}
    assert len(trace.slices) == 4


@pytest.mark.parametrize("content", [b"", b"{}", gzip.compress(b"{}")[:9], gzip.compress(b"{")])
def test_a_damaged_compressed_file_beside_it_is_counted(tmp_path, content):
    data = run_metadata(LOCAL).SerializeToString()
    trace = importer.read(write(tmp_path, data, **{"sources.json_gz": content}))
    assert counters(trace) == {"unreadable-sidecar": 1}
    assert len(trace.slices) == 4


GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
KERNEL = "void gemm<float>(int) regs:32 grid:1,1,1@@conv:Conv2D#id=3#"
ON_GPU = [
    (GPU, [("conv", "conv = Conv2D(x, w)", 0, 3, 64)]),
    ("/device:GPU:0/stream:20", [("conv:Conv2D", KERNEL, 10, 50, None)]),
    ("/device:GPU:0/stream:all", [("conv:Conv2D", KERNEL, 10, 50, None)]),
    ("/device:GPU:0/stream:21<MemcpyH2D>", [("edge_5_x", "edge_5_x bytes:4096 aync", 1, 8, None)]),
    ("/device:GPU:0/memcpy", [("edge_5_x", "edge_5_x bytes:4096 aync", 1, 8, None)]),
    ("/device:GPU:0/sync", [("cuStreamSynchronize", "ThreadId 7", 5, 60, None)]),
    ("/device:GPU:0/stream:", [("MEMSET", "MEMSET", 70, 2, None)]),
]


def test_device_rows_of_a_gpu():
    trace = read(run_metadata(ON_GPU))
    assert slices(trace) == [
        ("GPU:0 scheduling 0", "OP", "Conv2D", "conv", "FORWARD", 0, 3),
        ("stream 21", "MEMCPY", "MEMCPYHtoD", "x", "UNKNOWN", 1, 8),
        ("thread 0", "SYNC", "cuStreamSynchronize", "", "UNKNOWN", 5, 60),
        ("stream 20", "KERNEL", "Conv2D", "conv", "FORWARD", 10, 50),
        ("stream", "MEMSET", "MEMSET", "MEMSET", "FORWARD", 70, 2),
    ]
    assert trace.slices.bytes[trace.rows(Kind.MEMCPY)].tolist() == [4096]
    assert counters(trace) == {"repeated-row": 2}
    assert trace.meta.signals == {
        "whole-step",
        "host-ops",
        "device-activity",
        "copies",
        "sync-calls",
        "placement",
    }


def test_entries_without_a_usable_time_or_device_are_counted():
    stats = step_stats([*LOCAL, ("/host:CPU", [("x", "x", 0, 1, None)])])
    entries = stats.dev_stats[0].node_stats
    entries[0].all_start_micros = 0
    entries[1].all_end_rel_micros = -1
    entries[2].all_start_micros = 1 << 62
    trace = read(stats)
    assert counters(trace) == {"unusable-time": 3, "event-without-device": 1}
    assert [s[3] for s in slices(trace)] == ["pool"]


def test_a_torn_file_gives_the_ops_before_the_tear():
    data = run_metadata(LOCAL).SerializeToString()
    trace = importer.read(source_of(data[: data.index(b"pool = ")]))
    assert [s[3] for s in slices(trace)] == ["_SOURCE", "batch", "conv"]
    assert trace.health.has("protobuf-truncated")


def test_damage_in_the_middle_is_refused():
    data = run_metadata(LOCAL).SerializeToString().replace(b"\x0a\x05batch", b"\x0a\x7fbatch")
    with pytest.raises(CorruptInputError, match="damaged TensorFlow RunMetadata"):
        importer.read(source_of(data))


def test_bytes_that_are_no_text_are_replaced():
    data = run_metadata(LOCAL).SerializeToString().replace(b"\x0a\x05batch", b"\x0a\x05bat\xff\xff")
    trace = importer.read(source_of(data))
    assert slices(trace)[1][3] == "bat" + 2 * "\N{REPLACEMENT CHARACTER}"
    assert counters(trace) == {"invalid-utf8": 1}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 64,
        b"\x0a" * 64,
        b'{"traceEvents": []}',
        graph(("x", "Relu", CPU, [], {})).SerializeToString(),
        step_stats([("/host:CPU", [("x", "x", 0, 1, None)])]).SerializeToString(),
        step_stats([(CPU, [])]).SerializeToString(),
        b"\x0a\x12\x08\x01\x12\x0e/device:GPU:0 ",  # XSpace: a plane with an id and a name
    ],
)
def test_other_messages_are_not_taken(data):
    assert not importer.recognise(source_of(data))
    assert importer.read(source_of(data)) is None


MUTABLE = run_metadata([*CLUSTER, *ON_GPU], PARTITIONS).SerializeToString()


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(MUTABLE) - 1), st.integers(0, 255)), max_size=6),
    st.one_of(st.just(len(MUTABLE)), st.integers(0, len(MUTABLE))),
)
def test_damage_never_surprises(flips, length):
    data = bytearray(MUTABLE)
    for position, value in flips:
        data[position] = value
    source = source_of(bytes(data[:length]))
    importer.recognise(source)
    try:
        trace = importer.read(source)
    except StepwhyError:
        return
    assert trace is None or len(trace.slices) + len(trace.nodes) > 0


@pytest.mark.traces
@pytest.mark.skipif(TRACES is None, reason="STEPWHY_TRACES names no directory")
@pytest.mark.parametrize("step", [0, 1])
def test_the_catalogue_agrees(step):
    folder = Path(TRACES)
    name = f"generated_cpu/run_metadata_step{step}.pb"
    facts = json.loads((folder / "FACTS.json").read_text())[name]
    trace = importer.read(source_of((folder / name).read_bytes()))
    fact = facts["devices"][CPU]
    assert len(trace.slices) == fact["nodes"]
    # The facts were rounded to microseconds op by op.
    rows = range(len(trace.slices))
    assert busy_ns(trace, rows) / 1e6 == pytest.approx(fact["busy_ms"], rel=1e-4)
    longest = sorted(rows, key=lambda i: -trace.slices.dur_ns[i])[:3]
    for i, (node, dur_ms) in zip(longest, facts["longest"], strict=True):
        assert trace.string(trace.slices.scope[i]) == node
        assert trace.slices.dur_ns[i] / 1e6 == pytest.approx(dur_ms, abs=1e-3)
    span_ns = int(trace.end_ns.max() - trace.slices.start_ns.min())
    assert span_ns / 1e6 == pytest.approx(facts["span_ms"], rel=1e-4)


@pytest.mark.traces
@pytest.mark.skipif(TRACES is None, reason="STEPWHY_TRACES names no directory")
def test_nothing_else_in_the_catalogue_is_taken():
    folder = Path(TRACES)
    files = [p for p in folder.rglob("*") if p.is_file() and p.stat().st_size < 1 << 24]
    taken = {str(p.relative_to(folder)) for p in files if importer.recognise(head_of(p))}
    assert taken == {f"generated_cpu/run_metadata_step{i}.pb" for i in (0, 1)}


def head_of(path):
    with path.open("rb") as file:
        return source_of(file.read(1 << 16))


@pytest.mark.framework
def test_tensorflow_agrees_with_itself(tmp_path, forks):
    """A real run: the same ops at the same times as in TensorFlow's own timeline of it."""
    source = run_tensorflow(forks, LOCAL_RUN, tmp_path)
    trace = importer.read(source)
    events = json.loads((tmp_path / "timeline.json").read_bytes())["traceEvents"]
    theirs = sorted((e["ts"], e["dur"], e["args"]["name"]) for e in events if e["ph"] == "X")
    ours = sorted(
        (int(start) // 1000, int(dur) // 1000, trace.string(scope))
        for start, dur, scope in zip(
            trace.slices.start_ns, trace.slices.dur_ns, trace.slices.scope, strict=True
        )
    )
    assert [(start, node) for start, _, node in ours] == [(t, node) for t, _, node in theirs]
    # TensorFlow rounds start and end to microseconds, each by itself.
    assert all(abs(a[1] - b[1]) <= 1 for a, b in zip(ours, theirs, strict=True))
    assert nodes(trace)["product"] == ("MatMul", "CPU:0", "CPU:0")


@pytest.mark.framework
def test_a_real_cluster_shows_its_transfers(tmp_path, forks):
    trace = importer.read(run_tensorflow(forks, CLUSTER_RUN, tmp_path))
    there, back = "/job:worker/task:0 CPU:0", "/job:worker/task:1 CPU:0"
    moved = {c[0]: c[1:5] for c in copies(trace)}
    assert moved["x"] == ("product", there, back, 64 * 64 * 4)
    assert moved["product"] == ("sum", back, there, 64 * 64 * 4)
    # Under load TensorFlow was seen to leave a transfer out of its step statistics; then the
    # duration is missing, which is not zero.
    durations = [c[5] for c in copies(trace) if c[5] is not None]
    assert durations
    assert min(durations) > 0
    assert nodes(trace)["product"] == ("MatMul", "/job:worker/task:1 CPU:0", back)
    assert set(directions(trace)) == {"PEER"}


def run_tensorflow(forks, script, folder):
    """Run a script that writes md.pb and graph.pb; returns the metadata, the graph beside it."""
    pytest.importorskip("tensorflow")
    forks("tensorflow").check_output(script, folder, str(folder))
    return write(folder, (folder / "md.pb").read_bytes())


def batches(trace):
    """Source and number of examples of the batches that a trace shows."""
    names = map(trace.string, trace.events.name)
    return list(zip(names, trace.events.count.tolist(), strict=True))


def test_the_examples_that_a_queue_hands_over_are_an_event():
    message = step_stats(LOCAL)
    for sizes in ([8, 3], [8]):
        output = message.dev_stats[0].node_stats[1].output.add()
        for size in sizes:
            output.tensor_description.shape.dim.add(size=size)
    message.dev_stats[0].node_stats[2].output[0].tensor_description.shape.dim.add(size=5)
    del message.dev_stats[0].node_stats[1].output[0]
    trace = importer.read(source_of(message.SerializeToString()))
    assert batches(trace) == [("QueueDequeueManyV2", 8)]


@pytest.mark.parametrize(
    ("shapes", "found"),
    [
        ([[2, 40], [2], []], [("feed_dict", 2)]),  # a scalar, such as a rate, has no examples
        ([[2, 40], [3]], []),
        ([[]], []),
        ([[0, 40]], []),
    ],
)
def test_the_examples_that_are_fed_are_an_event(tmp_path, shapes, found):
    feeds = [{"name": f"x{i}:0", "shape": shape} for i, shape in enumerate(shapes)]
    window = {"kind": "tf1-run", "start_ns": EPOCH_NS, "end_ns": EPOCH_NS + 900_000, "feeds": feeds}
    data = step_stats(LOCAL).SerializeToString()
    trace = importer.read(write(tmp_path, data, window_json=json.dumps(window).encode()))
    assert batches(trace) == found


PROLOGUE = """
import sys
import tensorflow.compat.v1 as tf
from tensorflow.python.client import timeline
out = sys.argv[1]
tf.disable_eager_execution()
metadata = tf.RunMetadata()

def run(session, fetch, level):
    options = tf.RunOptions(trace_level=level, output_partition_graphs=True)
    session.run(fetch, options=options, run_metadata=metadata)
    open(f"{out}/md.pb", "wb").write(metadata.SerializeToString())
    open(f"{out}/graph.pb", "wb").write(session.graph.as_graph_def().SerializeToString())
    text = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
    open(f"{out}/timeline.json", "w").write(text)
"""

LOCAL_RUN = (
    PROLOGUE
    + """
with tf.device("/cpu:0"):
    x = tf.random_uniform([64, 64])
    y = tf.matmul(x, x, name="product")
    loss = tf.reduce_sum(tf.nn.relu(y))
with tf.Session() as session:
    run(session, loss, tf.RunOptions.SOFTWARE_TRACE)
"""
)

CLUSTER_RUN = (
    PROLOGUE
    + """
import os
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
cluster = tf.train.ClusterSpec({"worker": ["%s:%d" % s.getsockname() for s in sockets]})
for s in sockets:
    s.close()
servers = [tf.train.Server(cluster, job_name="worker", task_index=i) for i in range(2)]
with tf.device("/job:worker/task:0"):
    x = tf.nn.relu(tf.random_uniform([64, 64]), name="x")
with tf.device("/job:worker/task:1/cpu:0"):
    y = tf.matmul(x, x, name="product")
with tf.device("/job:worker/task:0"):
    total = tf.reduce_sum(y, name="sum")
with tf.Session(servers[0].target) as session:
    run(session, total, tf.RunOptions.FULL_TRACE)
os._exit(0)  # servers have no way to stop
"""
)
