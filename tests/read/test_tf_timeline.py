"""TensorFlow 1 timelines: hand-made rows, and the catalogue's files against their facts."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.tf_samples import (
    CPU,
    EPOCH_NS,
    EPOCH_US,
    OLD_GPU,
    busy_ns,
    counters,
    directions,
    op_event,
    process_row,
    slices,
    source_of,
    timeline,
    tracks,
)

from stepwhy.base.errors import CorruptInputError, StepwhyError
from stepwhy.read.formats.tf_timeline import reader as tf_timeline
from stepwhy.trace import NULL, DeviceKind, Role

TRACES = os.environ.get("STEPWHY_TRACES")

GPU_ROWS = {
    "/job:localhost/replica:0/task:0/cpu:0": [(0, "_SOURCE", "NoOp", 0, 4)],
    OLD_GPU: [
        (0, "x/MatMul", "MatMul", 10, 100),
        (1, "gradients/x/MatMul_grad/MatMul", "MatMul", 20, 30),
        (0, "sgd/update_w/ApplyGradientDescent", "ApplyGradientDescent", 150, 10),
    ],
    "/gpu:0/stream:all": [(0, "x/MatMul", "MatMul", 120, 72), (0, "w", "ReluGrad", 200, 5)],
    "/gpu:0/memcpy": [
        (0, "edge_1_x", "MEMCPYHtoD", 15, 51),
        (0, "edge_9_gradients/Prod", "MEMCPYDtoH", 300, 2),
        (0, "x/MatMul", "MatMul", 90, 1),
    ],
    "/gpu:0/stream:12": [(0, "x/MatMul", "MatMul", 120, 72), (0, "w", "ReluGrad", 200, 5)],
    "/gpu:0/stream:13": [(0, "edge_1_x", "MEMCPYHtoD", 15, 51)],
    "/gpu:0/stream:14": [(0, "edge_9_gradients/Prod", "MEMCPYDtoH", 300, 2)],
    "/gpu:0/stream:7": [(0, "x/MatMul", "MatMul", 90, 1)],
}


def read(data):
    source = source_of(data)
    assert tf_timeline.recognise(source)
    return tf_timeline.read(source)


def test_ops_of_a_cpu_are_the_time_of_that_device():
    trace = read(
        timeline(
            {
                "/job:localhost/replica:0/task:0/cpu:0": [
                    (0, "_SOURCE", "NoOp", 0, 2),
                    (0, "batch", "QueueDequeueManyV2", 5, 90),
                    (1, "conv/Conv2D", "_MklNativeConv2D", 100, 50),
                    (
                        0,
                        "gradients/conv_grad/Conv2DBackpropFilter",
                        "Conv2DBackpropFilter",
                        110,
                        40,
                    ),
                    (0, "SGD/update_w/ResourceApplyGradientDescent", "AssignSub", 160, 3),
                    (0, "save/SaveV2", "SaveV2", 170, 9),
                    (0, "map", "PyFunc", 180, 5),
                ]
            }
        )
    )
    assert slices(trace) == [
        ("executor 0", "KERNEL", "NoOp", "_SOURCE", "OTHER", 0, 2),
        ("executor 0", "INPUT", "QueueDequeueManyV2", "batch", "INPUT", 5, 90),
        ("executor 1", "KERNEL", "Conv2D", "conv/Conv2D", "FORWARD", 100, 50),
        (
            "executor 0",
            "KERNEL",
            "Conv2DBackpropFilter",
            "gradients/conv_grad/Conv2DBackpropFilter",
            "BACKWARD",
            110,
            40,
        ),
        (
            "executor 0",
            "KERNEL",
            "AssignSub",
            "SGD/update_w/ResourceApplyGradientDescent",
            "OPTIMIZER",
            160,
            3,
        ),
        ("executor 0", "STORAGE", "SaveV2", "save/SaveV2", "OTHER", 170, 9),
        ("executor 0", "PYTHON", "PyFunc", "map", "FORWARD", 180, 5),
    ]
    assert tracks(trace) == [
        ("EXECUTOR", "executor 0", "CPU:0"),
        ("EXECUTOR", "executor 1", "CPU:0"),
    ]
    assert trace.meta.signals == {"host-ops", "device-activity", "whole-step"}
    assert not trace.meta.device_expected


def test_streams_are_device_time_and_the_gpu_row_is_launch_time():
    trace = read(timeline(GPU_ROWS))
    assert tracks(trace) == [
        ("EXECUTOR", "executor 0", "CPU:0"),
        ("HOST_THREAD", "GPU:0 scheduling 0", None),
        ("HOST_THREAD", "GPU:0 scheduling 1", None),
        ("STREAM", "stream 12", "GPU:0"),
        ("STREAM", "stream 13", "GPU:0"),
        ("STREAM", "stream 14", "GPU:0"),
        ("STREAM", "stream 7", "GPU:0"),
    ]
    assert [s for s in slices(trace) if s[0].startswith("stream")] == [
        ("stream 13", "MEMCPY", "MEMCPYHtoD", "x", "UNKNOWN", 15, 51),
        ("stream 7", "MEMCPY", "MEMCPY", "x/MatMul", "UNKNOWN", 90, 1),
        ("stream 12", "KERNEL", "MatMul", "x/MatMul", "FORWARD", 120, 72),
        ("stream 12", "KERNEL", "ReluGrad", "w", "BACKWARD", 200, 5),
        ("stream 14", "MEMCPY", "MEMCPYDtoH", "gradients/Prod", "UNKNOWN", 300, 2),
    ]
    assert directions(trace) == ["H2D", "NONE", "D2H"]
    assert trace.meta.device_expected
    assert trace.meta.signals == {"host-ops", "device-activity", "copies", "whole-step"}


def test_a_flow_leads_to_each_op_from_those_that_it_reads():
    trace = read(timeline({CPU: [(0, "x", "Const", 0, 4), (0, "y", "Neg", 10, 4)]}))
    assert [trace.string(s) for s in trace.slices.scope[trace.flows.source]] == ["x"]
    assert [trace.string(s) for s in trace.slices.scope[trace.flows.target]] == ["y"]


def test_repeating_rows_are_counted_and_never_added():
    trace = read(timeline(GPU_ROWS))
    assert counters(trace) == {"repeated-row": 5}
    assert trace.health.events_read == trace.health.events_kept + 5


def test_the_summary_row_counts_where_there_is_no_numbered_stream():
    rows = {"/gpu:0/stream:all": GPU_ROWS["/gpu:0/stream:all"]}
    trace = read(timeline(rows))
    assert tracks(trace) == [("STREAM", "all streams", "GPU:0")]
    assert len(trace.slices) == 2
    assert counters(trace) == {}


def test_what_a_torn_stream_lacks_comes_from_the_summary_row():
    rows = {**GPU_ROWS, "/gpu:0/stream:12": GPU_ROWS["/gpu:0/stream:12"][:1]}
    trace = read(timeline(rows))
    kernels = [s[:3] for s in slices(trace) if s[0] in {"stream 12", "all streams"}]
    assert kernels == [("stream 12", "KERNEL", "MatMul"), ("all streams", "KERNEL", "ReluGrad")]


def test_without_streams_the_gpu_row_stands_in_and_says_so():
    trace = read(timeline({OLD_GPU: GPU_ROWS[OLD_GPU]}))
    assert tracks(trace) == [("STREAM", "executor 0", "GPU:0"), ("STREAM", "executor 1", "GPU:0")]
    assert counters(trace) == {"guessed-device-time": 3}
    assert "device-activity" not in trace.meta.signals
    assert trace.devices.kind.tolist() == [DeviceKind.GPU]


def test_streams_lost_to_a_tear_do_not_make_launches_device_time():
    trace = read(timeline({OLD_GPU: GPU_ROWS[OLD_GPU], "/gpu:0/stream:12": []}))
    assert {t[0] for t in tracks(trace)} == {"HOST_THREAD"}
    assert trace.meta.signals == {"host-ops", "whole-step"}
    assert trace.meta.device_expected


def test_servers_are_devices_of_their_own():
    rows = {
        f"/job:worker/replica:0/task:{i}/device:CPU:0": [(0, "x", "Relu", 0, 5)] for i in (0, 1)
    }
    trace = read(timeline(rows))
    names = [trace.string(n) for n in trace.devices.name]
    assert names == ["/job:worker/task:0 CPU:0", "/job:worker/task:1 CPU:0"]
    assert trace.meta.notes


def test_tensor_rows_are_dropped_by_design_and_memory_is_kept():
    extra = [
        {"ph": "s", "name": "x", "pid": 1, "tid": 0, "ts": EPOCH_US, "id": 0, "cat": "DataFlow"},
        {"ph": "N", "name": "x", "pid": 2, "tid": 0, "ts": EPOCH_US, "id": 1},
        {"ph": "O", "name": "x", "pid": 2, "tid": 0, "ts": 1, "id": 1, "args": {"snapshot": {}}},
        {"ph": "C", "name": "cpu", "pid": 0, "ts": EPOCH_US + 7, "args": {"cpu": 4096}},
        {"ph": "C", "name": "cpu", "pid": 0, "ts": EPOCH_US + 8, "args": {"cpu": "much"}},
        {"ph": "X", "name": "x", "pid": 99, "tid": 0, "ts": EPOCH_US, "dur": 1, "args": {}},
        {"ph": "X", "name": "x", "pid": 1, "tid": 0, "dur": 1, "args": {"name": "x", "op": "Relu"}},
    ]
    trace = read(timeline({CPU: [(0, "x", "Relu", 0, 5)]}, extra))
    assert counters(trace) == {
        "tensor-lifetime": 3,
        "unreadable-counter": 1,
        "event-without-device": 1,
        "unusable-time": 1,
    }
    assert trace.counters.value.tolist() == [4096]
    assert trace.counters.time_ns.tolist() == [EPOCH_NS + 7000]
    assert trace.string(trace.counters.name[0]) == "cpu bytes in use"
    assert "memory" in trace.meta.signals


def test_a_torn_file_gives_what_is_whole():
    data = timeline({CPU: [(0, f"x{i}", "Relu", 10 * i, 5) for i in range(20)]})
    trace = read(data[: len(data) * 2 // 3])
    assert 0 < len(trace.slices) < 20
    assert trace.health.has("json-truncated")


def test_bytes_that_are_no_text_are_replaced():
    data = timeline({CPU: [(0, "caf#", "Relu", 0, 5)]}).replace(b"caf#", b"caf\xe9")
    trace = read(data)
    assert slices(trace)[0][3] == "caf\N{REPLACEMENT CHARACTER}"
    assert trace.health.has("invalid-utf8")


def test_a_timeline_without_ops_is_refused():
    with pytest.raises(CorruptInputError, match="without a single readable op"):
        read(timeline({CPU: []}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"traceEvents": [{"ph": "X", "name": "aten::mm", "pid": 1, "ts": 1, "dur": 1}]}',
        b"/job:localhost/replica:0/task:0/cpu:0 Compute",
        json.dumps({"traceEvents": [process_row(1, "python 3 Compute")]}).encode(),
    ],
)
def test_other_files_are_not_taken(data):
    assert not tf_timeline.recognise(source_of(data))


def test_device_names_elsewhere_do_not_make_a_timeline():
    named = {"ph": "X", "name": f"{CPU} Compute", "pid": 1, "ts": 1, "dur": 1}
    assert tf_timeline.read(source_of(json.dumps({"traceEvents": [named]}).encode())) is None


MUTABLE = timeline({**GPU_ROWS, CPU: [(0, "x", "Relu", 0, 5)]})


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(MUTABLE) - 1), st.integers(0, 255)), max_size=12),
    st.one_of(st.just(len(MUTABLE)), st.integers(0, len(MUTABLE))),
)
def test_damage_never_surprises(flips, length):
    data = bytearray(MUTABLE)
    for position, value in flips:
        data[position] = value
    source = source_of(bytes(data[:length]))
    tf_timeline.recognise(source)
    try:
        trace = tf_timeline.read(source)
    except StepwhyError:
        return
    assert trace is None or len(trace.slices) > 0


@pytest.mark.traces
@pytest.mark.skipif(TRACES is None, reason="STEPWHY_TRACES names no directory")
@pytest.mark.parametrize(
    "name",
    [
        "anna_cpu_train",
        "ikh_cpu_mnist_step0",
        "ikh_gpu_mnist_step0",
        "ikh_gpu_mnist_step1",
        "ikh_gpu_mnist_step2",
        "riptide_gpu_infer",
    ],
)
def test_the_catalogue_agrees_row_by_row(name):
    folder = Path(TRACES)
    facts = json.loads((folder / "FACTS.json").read_text())[f"tf_timeline/{name}.json"]
    trace = read((folder / "tf_timeline" / f"{name}.json").read_bytes())
    measured = rows_of(trace)
    for row, fact in facts["rows"].items():
        title = row.removesuffix(" Compute")
        if title.endswith(("stream:all", "memcpy")):
            continue
        key = title.rpartition("/")[2].replace("device:", "").upper()
        assert measured.pop(key) == (fact["events"], fact["busy_ms"], fact["sum_ms"]), row
    assert measured == {}
    span_ns = int(trace.end_ns.max() - trace.slices.start_ns.min())
    assert round(span_ns / 1e6, 3) == facts["span_ms"]


def rows_of(trace):
    """(events, busy ms, sum ms) of the tracks that were one row."""
    groups = {}
    for row, track in enumerate(trace.slices.track.tolist()):
        groups.setdefault(row_title(trace, track), []).append(row)
    return {
        title: (
            len(rows),
            round(busy_ns(trace, rows) / 1e6, 3),
            round(int(trace.slices.dur_ns[rows].sum()) / 1e6, 3),
        )
        for title, rows in groups.items()
    }


def row_title(trace, track):
    """'STREAM:12', 'CPU:0' or 'GPU:0'."""
    name = trace.string(trace.tracks.name[track])
    if trace.tracks.role[track] == Role.STREAM:
        return f"STREAM:{trace.tracks.thread[track]}"
    device = trace.tracks.device[track]
    return name.partition(" ")[0] if device == NULL else trace.string(trace.devices.name[device])


# --- in pieces ----------------------------------------------------------------------------------


def renamed(*order):
    """A timeline of two processes that are named among their ops: 'op', or the name of a row."""
    events = []
    for at, name in enumerate(order):
        if name == "op":
            events.append(op_event(1, (0, f"n{at}", "MatMul", 10 * at, 5)))
        else:
            events.append(process_row(1, f"{name} Compute"))
    return source_of(json.dumps({"traceEvents": events}).encode())


@pytest.mark.parametrize(
    "order",
    [
        ("op", CPU, "op"),
        (OLD_GPU, "op", CPU, "op"),
        (CPU, "op", OLD_GPU, "op", CPU, "op"),
        (CPU, "op", CPU, "op"),
    ],
)
def test_the_last_name_of_a_row_counts_for_all_of_its_ops(order):
    trace = tf_timeline.read(renamed(*order))
    assert {device for _, _, device in tracks(trace)} == {"CPU:0"}
    assert len(trace.slices) == order.count("op")
    assert (trace.health.events_read, trace.health.events_kept) == (len(order), len(order))
