"""Chrome traces that no stricter importer takes: claimed is only what the file itself says."""

import json
import os
import re
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.chrome_samples import (
    directions,
    lost,
    named,
    pair,
    phases,
    slices,
    source_of,
    tracks,
    x,
)

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import StepwhyError
from stepwhy.engine.assemble import assemble
from stepwhy.read.formats.chrome_trace import reader as chrome_trace
from stepwhy.read.formats.chrome_trace import uses
from stepwhy.read.formats.chrome_trace.names import Meaning, on_device, on_host
from stepwhy.read.formats.kineto import reader as kineto
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.registry import read_trace
from stepwhy.read.shared import ranges
from stepwhy.trace import NULL, DeviceKind, Health, Kind, Role
from stepwhy.trace.integrity import check

TRACES = os.environ.get("STEPWHY_TRACES")


def read(events):
    source = source_of(events)
    assert chrome_trace.recognise(source)
    trace = chrome_trace.read(source)
    check(trace)
    return trace


def loop(steps=4, name="train_step", period_us=1000):
    """A tracer of one's own: a loop with its parts, all on the host."""
    events = []
    for step in range(steps):
        at = step * period_us
        events += [
            x(name, at, period_us - 100),
            x("load_batch", at, 300),
            x("forward", at + 300, 200),
            x("backward", at + 500, 350),
        ]
    return events


# --- files that name no device ------------------------------------------------------------------


def test_a_loop_of_ones_own_gives_steps_and_ranges_but_no_verdict():
    facts = Facts(read(loop()))
    assert facts.steps.source == "marker"
    assert facts.steps.durations_ns.tolist() == [900_000] * 4
    verdict = decide(facts)
    assert (verdict.bound_by, verdict.confidence) == ("unknown", 0.0)
    assert "calls none of them work of a device" in verdict.reason.why
    assert facts.breakdown["unexplained"] == facts.wall_ns == 900_000
    assert facts.activities == []
    (note,) = assemble(facts, "sample", "chrome-trace").notes
    assert note.startswith("Longest per step, excluding nested operations: ")
    assert note.endswith("'backward' 350 µs, 'load_batch' 300 µs, 'forward' 200 µs.")
    assert {r.name: (r.device, r.count, r.total_ns) for r in facts.ops.largest(100)} == {
        "load_batch": ("host", 4, 1_200_000),
        "forward": ("host", 4, 800_000),
        "backward": ("host", 4, 1_400_000),
    }
    assert phases(facts.trace) == {
        "load_batch": "INPUT",
        "forward": "FORWARD",
        "backward": "BACKWARD",
    }


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["iteration"] * 3, 3),
        (["iter 1", "iter 2"], 2),
        (["ProfilerStep#7"], 1),
        (["training_step"] * 3, 3),
        (["Step: 1", "Step: 2"], 2),
        (["step"], 0),
        (["evaluate"] * 3, 0),
        (["step_size"] * 3, 0),
        (["train_step (net/train.py:7)"] * 3, 3),
        (["step2 (net/train.py:7)"] * 3, 0),
    ],
)
def test_steps_by_their_names(names, found):
    trace = read([x(name, 100 * i, 90) for i, name in enumerate(names)])
    assert sum(s[1] == "STEP" for s in slices(trace)) == found


def test_the_step_of_an_optimizer_is_none():
    events = []
    for i in range(5):
        events += [x("forward", 100 * i, 60), x("step", 100 * i + 80, 5)]
    trace = read(events)
    assert not [s for s in slices(trace) if s[1] == "STEP"]


def test_beside_a_device_the_host_explains_its_idle_time():
    events = [named("process", "GPU 0", 2)]
    for i in range(12):
        at = 1000 * i
        events += [
            x("train_step", at, 1000),
            x("load_batch", at, 600),
            x("forward and backward", at + 600, 390, pid=2),
        ]
    facts = Facts(read(events))
    assert decide(facts).bound_by == "input"
    assert (facts.breakdown["compute"], facts.breakdown["input_wait"]) == (390_000, 600_000)
    first = assemble(facts, "sample", "chrome-trace").findings[0]
    assert (first.id, first.cost_ns_per_step) == ("input-bound", 600_000)
    # Nothing shows what the thread does inside of it.
    assert "who prepares the batch" not in {e.what for e in first.evidence}


def test_names_that_only_sound_like_devices_claim_none():
    trace = read(
        [
            named("process", "GPU Process", 1),
            named("thread", "cuda:0 launcher", 1, 2),
            named("process", "GPU 1", 3),
            x("work", 0, 5),
            x("work", 0, 5, tid=2),
            x("cudaLaunchKernel", 0, 5, pid=3),
            x("train (loop.py:3)", 0, 9, pid=3),
            x("copy to GPU 0", 0, 5, tid=3),
        ]
    )
    assert {t[0] for t in tracks(trace)} == {"HOST_THREAD"}
    assert len(trace.devices) == 0
    assert trace.meta.limit


def test_python_functions_keep_their_line_without_the_home():
    trace = read(
        [
            x("train (/home/alice/job/src/net/train.py:12)", 0, 9, cat="FEE"),
            x("builtins.exec", 1, 5, cat="FEE"),
            x("open /Users/bob/data", 2, 1),
        ]
    )
    assert [s[1:3] for s in slices(trace)] == [
        ("PYTHON", "train"),
        ("PYTHON", "builtins.exec"),
        ("ANNOTATION", "open ~/data"),
    ]
    assert "src/net/train.py(12): train" in trace.strings
    assert not re.search("alice|bob", repr(trace.strings))
    # The line that takes most holds nothing up that is known.
    assert assemble(Facts(trace), "sample", "chrome-trace").breakdown.hottest_line == ""
    assert "python-stacks" in trace.meta.signals


def test_calls_of_a_devices_api_show_that_there_is_one():
    trace = read(
        [
            x("cudaLaunchKernel", 0, 1),
            x("cudaDeviceSynchronize", 2, 1),
            x("hipMalloc", 4, 1),
            x("aten::mm", 6, 1),
        ]
    )
    assert [s[1] for s in slices(trace)] == ["LAUNCH", "SYNC", "RUNTIME", "OP"]
    assert trace.meta.device_expected
    assert trace.meta.signals == {"runtime-calls", "host-ops", "ranges"}


# --- files that name devices --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("process", "thread", "device"),
    [
        ("GPU 0", "7", "GPU:0"),
        ("/device:GPU:1", "Stream #13(Kernel,MemcpyH2D)", "GPU:1"),
        ("/job:worker/task:0/device:TPU:3", "XLA Ops", "TPU:3"),
        ("cuda:0 (NVIDIA A100)", "kernels", "GPU:0"),
        ("python", "GPU 2", "GPU:2"),
        ("python", "stream 7", "accelerator:1"),
        ("NPU 4", "Stream 12", "NPU:4"),
    ],
)
def test_rows_that_the_file_calls_devices(process, thread, device):
    events = [named("process", process, 1), named("thread", thread, 1, 5), x("gemm", 0, 9, tid=5)]
    trace = read(events)
    assert [(role, d) for role, _, d in tracks(trace)] == [("STREAM", device)]
    assert [s[1] for s in slices(trace)] == ["KERNEL"]
    assert not trace.meta.limit
    assert trace.meta.device_expected


def test_rows_of_device_categories_are_devices():
    events = [
        *pair("gemm", 0, 9, tid=7, cat="kernel"),
        *pair("Memcpy HtoD (Pageable -> Device)", 9, 12, tid=8, cat="gpu_memcpy"),
        *pair("step 1", 0, 20, cat="loop"),
    ]
    trace = read(events)
    assert tracks(trace) == [
        ("HOST_THREAD", "thread 1", None),
        ("STREAM", "stream 7", "GPU:1"),
        ("STREAM", "stream 8", "GPU:1"),
    ]
    assert directions(trace) == ["H2D"]


def test_what_runs_on_a_device_by_its_name():
    names = {
        "ncclDevKernel_AllReduce": "COLLECTIVE",
        "all-reduce.3": "COLLECTIVE",
        "hcom_allReduce__1": "COLLECTIVE",
        "Memcpy DtoH": "MEMCPY",
        "Memset (Device)": "MEMSET",
        "__amd_rocclr_copyBuffer.kd": "MEMCPY",
        "__amd_rocclr_fillBufferAligned.kd": "MEMSET",
        "EVENT_WAIT": "DEVICE_WAIT",
        "ProfilerStep#3": "DEVICE_ANNOTATION",
        "triton_poi_fused_all_reduce_0": "KERNEL",
        "fusion.17": "KERNEL",
    }
    events = [named("process", "GPU 0", 1)]
    events += [x(name, 10 * i, 9) for i, name in enumerate(names)]
    assert {s[2]: s[1] for s in slices(read(events))} == names


PARTS = (
    *("step ", "train_step", "ProfilerStep#", "batch ", "DataLoader ", "request ", "backward "),
    *(", seq = ", ", op_id = ", "aten::mm", "{'op': 'mm', 'mod': '", "c10d ", "all_reduce", "nccl"),
    *("Memcpy H2D ", "D2H", "cuMemcpyDtoHAsync_v", "wait_event", " DmaI", "[sync=", "\n"),
    *("/home/ann/", "(", ".py:", ")", *["{number}"] * 8),
)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=6),
    st.integers(1, 5),
    st.sampled_from(["GPU 0", "app"]),
)
def test_names_with_numbers_say_what_each_says_alone(parts, length, process):
    """What was found for one of them holds for those that differ in nothing but long numbers."""
    digits = ("7" * length, "3" * length + "1", "12" * 90)
    names = ["".join(parts).replace("{number}", number) for number in digits]
    assert [ranges.annotation(n) for n in names] == [ranges._annotation(n) for n in names]
    trace = read([named("process", process, 1), *(x(n, 500 * i, 9) for i, n in enumerate(names))])
    is_device = Role(trace.tracks.role[trace.slices.track[0]]) is Role.STREAM
    told = [on_device(name) if is_device else on_host(name, "") for name in names]
    columns = ("kind", "name", "source", "copy", "phase")
    rows = zip(*(vars(trace.slices)[column].tolist() for column in columns), strict=True)
    found = [
        Meaning(kind, trace.string(name), trace.string(source), *others)
        for kind, name, source, *others in rows
    ]
    assert [f for f, t in zip(found, told, strict=True) if f != t and f.kind != Kind.STEP] == []


def test_a_name_of_its_own_for_every_range_takes_little_memory():
    """Its text, its numbers in the file and in the trace, and the columns of its slice."""
    count = 20_000
    source = source_of([x(f"request {i}", 30 * i, 9, tid=i % 3) for i in range(count)])
    collect = chrome_trace.collect
    tracemalloc.start()
    try:
        found = collect(source, Health())
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.ranges.finish().names) == 1 + count
    assert held < 200 * count


def test_an_ascend_npu_has_its_exchanges_and_counts_nothing_twice():
    hardware, exchanges, overlap = (1084473760 + 2 + 128 * i for i in range(3))  # of device 2
    events = [
        named("process", "Python", 7),
        named("process", "CANN", 8),
        named("process", "Ascend Hardware", hardware),
        named("process", "Communication", exchanges),
        named("process", "Overlap Analysis", overlap),
        named("thread", "Stream 2", hardware, 2),
        named("thread", "Group 0 Communication", exchanges, 0),
        named("thread", "Plane 0", exchanges, 1),
        named("thread", "Computing", overlap, 2),
        x("ProfilerStep#3", "0", 100, pid=7, tid=7, cat="cpu_op"),
        x("aten::mm", "5", 10, pid=7, tid=7, cat="cpu_op"),
        x("AscendCL@aclrtSynchronizeStream", "60", 30, pid=8, tid=7),
        x("MatMulV2", "10.500", 40, pid=hardware, tid=2),
        x("EVENT_RECORD", "50.500", 1, pid=hardware, tid=2),
        x("hcom_allReduce__661_0_1", "55", 30, pid=exchanges, tid=0),
        x("Memcpy", "60", 20, pid=exchanges, tid=1),
        x("Computing", "10.500", 40, pid=overlap, tid=2),
        {"ph": "f", "cat": "async_npu", "name": "torch_to_npu", "ts": "10", "pid": hardware},
    ]
    assert not kineto.recognise(source_of(events))
    trace = read(events)
    assert [(s[1], s[2]) for s in slices(trace) if s[1] not in {"STEP", "OP"}] == [
        ("KERNEL", "MatMulV2"),
        ("DEVICE_ANNOTATION", "Computing"),
        ("DEVICE_WAIT", "EVENT_RECORD"),
        ("COLLECTIVE", "hcom_allReduce__661_0_1"),
        ("SYNC", "AscendCL@aclrtSynchronizeStream"),
        ("DEVICE_ANNOTATION", "Memcpy"),
    ]
    (npu,) = Facts(trace).totals
    assert (npu.name, npu.busy_ns, npu.communication_ns) == ("NPU:2", 70_000, 30_000)


@pytest.mark.parametrize(("gpus", "of_copies"), [((6,), "GPU:0"), ((6, 7), "GPU")])
def test_copies_of_rocprof_lie_on_a_gpu(gpus, of_copies):
    events = [
        {},
        named("process", "CPU HIP API", 2),
        named("process", "COPY", 1),
        *(named("process", f"GPU{pid - 6}", pid) for pid in gpus),
        x("hipMemcpyAsync", "0", "9", pid=2),
        x("CopyHostToDevice", "2", "8", pid=1),
        *(x("gemm", "10", "5", pid=pid) for pid in gpus),
    ]
    trace = read({"traceEvents": events})
    assert directions(trace) == ["H2D"]
    (copy,) = trace.rows(Kind.MEMCPY)
    device = trace.tracks.device[trace.slices.track[copy]]
    assert trace.string(trace.devices.name[device]) == of_copies


def test_a_name_around_device_work_is_no_device_time():
    events = [
        named("process", "GPU 0", 1),
        x("forward", 0, 100),
        x("gemm", 0, 40),
        x("relu", 50, 10),
        x("gemm", 100, 40),
    ]
    trace = read(events)
    assert [s[1] for s in slices(trace)] == ["DEVICE_ANNOTATION", "KERNEL", "KERNEL", "KERNEL"]
    assert Facts(trace).totals[0].busy_ns == 90_000


def test_rows_that_repeat_streams_are_no_device_time():
    events = [
        named("process", "/device:GPU:0", 1),
        named("thread", "Stream #7(Kernel)", 1, 7),
        named("thread", "XLA Modules", 1, 8),
        named("thread", "XLA Ops", 1, 9),
        x("gemm", 0, 40, tid=7),
        x("jit_train", 0, 90, tid=8),
        x("dot.1", 0, 40, tid=9),
    ]
    assert {s[2]: s[1] for s in slices(read(events))} == {
        "gemm": "KERNEL",
        "jit_train": "DEVICE_ANNOTATION",
        "dot.1": "DEVICE_ANNOTATION",
    }
    assert Facts(read(events)).totals[0].busy_ns == 40_000


def test_without_streams_xlas_operations_are_the_device_time():
    events = [
        named("process", "/device:TPU:0", 1),
        named("thread", "Steps", 1, 1),
        named("thread", "XLA Ops", 1, 9),
        x("1", 0, 90),
        x("while.1", 0, 50, tid=9),
        x("dot.1", 0, 40, tid=9),
    ]
    trace = read(events)
    assert [s[2] for s in slices(trace) if s[1] == "KERNEL"] == ["dot.1"]
    assert trace.devices.kind.tolist() == [DeviceKind.TPU]


def test_the_same_device_of_two_hosts_is_two_devices():
    events = [
        named("process", "/host:a.example.com/device:GPU:0", 1),
        named("process", "/host:b.example.com/device:GPU:0", 2),
        x("gemm", 0, 9),
        x("gemm", 5, 9, pid=2),
    ]
    trace = read(events)
    assert [t[2] for t in tracks(trace)] == ["GPU:0 of host 0", "GPU:0 of host 1"]
    assert "example" not in repr(trace.strings)


def autograd_profile():
    """What `torch.autograd.profiler` wrote until 1.8: processes are words, arrows join them."""
    host, device = {"pid": "CPU functions"}, {"pid": "CUDA functions", "tid": 0}
    events = []
    for i in range(12):
        at = 100 * i
        events += [
            x("aten::mm", at, 20, **host),
            {
                "ph": "s",
                "name": "aten::mm",
                "ts": at,
                "tid": 1,
                "id": i,
                "cat": "cpu_to_cuda",
                **host,
            },
            {"ph": "f", "name": "aten::mm", "ts": at, "id": i, "cat": "cpu_to_cuda", **device},
            x("aten::mm", at + 5, 90, **device),
        ]
    return events


def test_profiles_of_old_pytorch_releases():
    facts = Facts(read(autograd_profile()))
    assert tracks(facts.trace) == [
        ("HOST_THREAD", "thread 1", None),
        ("STREAM", "stream 0", "GPU:0"),
    ]
    assert facts.totals[0].busy_ns == 12 * 90_000
    assert lost(facts.trace) == {"flow-arrow": 24}
    assert decide(facts).bound_by == "compute"


def flex(pid, at):
    """A computation of an AIU, that waits for what it receives."""
    return [
        *pair("SenRdmaReceive_7 [512B] [sync=AllReduce_1_s0] DmaI", at, at + 30, pid, 2**63 + 1),
        *pair("AllReduce_Add_1 Cmpt Prep", at, at + 30, pid, 2**63 + 2),
        *pair("AllReduce_Add_1 Cmpt Exec", at + 30, at + 40, pid, 2**63 + 3),
        *pair("weights DmaI", at + 50, at + 55, pid, 2**63 + 1),
        *pair("result DmaO", at + 60, at + 62, pid, 2**63 + 4),
    ]


def test_an_aiu_waits_while_it_prepares():
    trace = read(flex(0, 100))
    assert [(s[1], s[2]) for s in slices(trace)] == [
        ("COLLECTIVE", "SenRdmaReceive_7 [512B] [sync=AllReduce_1_s0] DmaI"),
        ("DEVICE_WAIT", "AllReduce_Add_1 Cmpt Prep"),
        ("COLLECTIVE", "AllReduce_Add_1 Cmpt Exec"),
        ("MEMCPY", "weights DmaI"),
        ("MEMCPY", "result DmaO"),
    ]
    assert directions(trace) == ["H2D", "D2H"]
    assert {t[2] for t in tracks(trace)} == {"AIU:0"}


def test_devices_of_several_processes_are_not_laid_side_by_side():
    facts = Facts(read([*flex(0, 100), *flex(1, 2100)]))
    verdict = decide(facts)
    assert verdict.bound_by == "unknown"
    assert "devices of 2 processes" in verdict.reason.why
    assert [t.name for t in facts.totals] == ["AIU:0", "AIU:1"]
    assert [t.busy_ns for t in facts.totals] == [47_000] * 2


@pytest.mark.parametrize(("hosts", "limited"), [((1, 2), True), ((9,), False), ((1,), False)])
def test_one_host_may_have_several_devices(hosts, limited):
    events = [x("gemm", 10 * i, 9, pid=1 + i % 2, tid="stream 7") for i in range(20)]
    events += [x("step 1", 0, 200, pid=pid, tid=1) for pid in hosts]
    assert bool(read(events).meta.limit) is limited


# --- layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrap",
    [
        json.dumps,
        lambda e: json.dumps({"traceEvents": e}),
        lambda e: json.dumps({"displayTimeUnit": "ns", "traceEvents": e, "otherData": {}}),
        lambda e: json.dumps({"stackFrames": {str(i): {} for i in range(9999)}, "traceEvents": e}),
        lambda e: "[" + ",\n".join(map(json.dumps, e)),
        lambda e: "[" + ",\n".join(map(json.dumps, e)) + ",\n",
        lambda e: "\ufeff" + json.dumps(e),
    ],
)
def test_layouts(wrap):
    trace = read(wrap(loop()))
    assert slices(trace) == slices(read(loop()))
    assert trace.health.events_kept == 16


def test_threads_and_processes_without_numbers():
    events = [
        x("a", 0, 1, pid="main", tid="loader"),
        x("b", 0, 1, pid="main", tid="alice@host.example/7"),
        x("b", 0, 1, pid="Node 10.0.0.7", tid="10.0.0.7:123"),
        x("c", 0, 1, pid=-3, tid=2**64 - 1),
        {"ph": "X", "name": "d", "ts": 0, "dur": 1},
        {"ph": "X", "name": "e", "ts": 0, "dur": 1, "pid": 9},
    ]
    trace = read(events)
    assert len(trace.tracks) == 6
    assert len(set(zip(trace.tracks.process, trace.tracks.thread, strict=True))) == 6
    assert (trace.tracks.process >= NULL).all()
    titles = [t[1] for t in tracks(trace)]
    assert titles[0] == "loader"
    assert not re.search(r"alice|10\.0\.0", repr(trace.strings))


def test_async_ranges_lie_on_lanes():
    def detached(letter, at, number, name="request"):
        return {
            "ph": letter,
            "name": name,
            "cat": "rpc",
            "id": number,
            "pid": 1,
            "tid": 1,
            "ts": at,
        }

    events = [
        detached("b", 0, 1),
        detached("b", 5, 2),
        detached("e", 10, 1),
        detached("b", 12, 3),
        detached("e", 20, 2),
        detached("e", 30, 3),
    ]
    assert sorted(slices(read(events))) == [
        ("async rpc 0", "ANNOTATION", "request", 0, 10),
        ("async rpc 0", "ANNOTATION", "request", 12, 18),
        ("async rpc 1", "ANNOTATION", "request", 5, 15),
    ]


def test_counters_that_are_whole_numbers():
    events = [
        x("a", 0, 1),
        {"ph": "C", "name": "memory", "ts": 5, "pid": 1, "args": {"used": 7, "free": 3.0}},
        {"ph": "C", "name": "queue", "ts": 6, "pid": 1, "args": {"value": 2, "share": 0.5}},
        {"ph": "C", "name": "load", "ts": 7, "pid": 1, "args": {"load": 0.7}},
        {"ph": "C", "name": "untimed", "pid": 1, "args": {"value": 7}},
        {"ph": "C", "name": "nothing", "ts": 7, "pid": 1},
    ]
    trace = read(events)
    found = zip(trace.counters.time_ns, trace.counters.name, trace.counters.value, strict=True)
    assert [(t, trace.string(n), v) for t, n, v in found] == [
        (5000, "memory used", 7),
        (5000, "memory free", 3),
        (6000, "queue", 2),
    ]
    assert lost(trace) == {"unreadable-counter": 3}


def test_every_other_record_is_counted():
    letters = "iIRnTpstfNODPvV"
    events = [x("a", 0, 1), *({"ph": p, "name": "?", "ts": 1, "pid": 1} for p in letters)]
    trace = read([*events, named("thread", "main", 1, 1), {"name": "no phase"}])
    assert lost(trace) == {"flow-arrow": 3, "instant": 6, "other-record": 7}
    assert (trace.health.events_read, trace.health.events_kept) == (18, 2)


def test_the_summary_of_a_file_with_everything():
    trace = read([*loop(), *autograd_profile(), *flex(3, 50)])
    assert Counter(s[1] for s in slices(trace)) == {
        "ANNOTATION": 8,
        "INPUT": 4,
        "STEP": 4,
        "OP": 12,
        "KERNEL": 12,
        "COLLECTIVE": 2,
        "DEVICE_WAIT": 1,
        "MEMCPY": 2,
    }
    assert trace.meta.format == "chrome-trace"
    assert trace.meta.signals == {"device-activity", "host-ops", "input"}


# --- what is no such file -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[",
        b"{}",
        b'{"ph": 7.2}',
        b'{"ph": "X", "name": "a", "ts": 1, "dur": 1}',
        b'"ph": "X"',
        b'[{"name": "a"}]',
        b"SQLite format 3\x00",
        b'{"metadata":{"highres-ticks":true},"traceEvents":[{"ph":"M","name":"/device:TPU:0"}]}',
        b'{"traceEvents":[{"ph":"M","args":{"name":"/host:CPU"}}]}',
    ],
)
def test_other_files_are_not_taken(data):
    assert not chrome_trace.recognise(source_of(data))


@pytest.mark.parametrize(
    "events",
    [
        [{"ph": "B", "name": "a", "pid": 1, "ts": 1}],
        [{"ph": "i", "name": "a", "pid": 1, "ts": 1}],
        [{"ph": "X", "name": "a"}],
        [named("process", "GPU 0", 1)],
    ],
)
def test_a_file_without_a_range_is_none(events):
    assert chrome_trace.read(source_of(events)) is None


MUTABLE = json.dumps([*loop(2), *autograd_profile()[:8], *flex(1, 0)]).encode()


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, len(MUTABLE) - 1), st.integers(0, 255)), max_size=12),
    st.one_of(st.just(len(MUTABLE)), st.integers(0, len(MUTABLE))),
)
def test_damage_never_surprises(flips, length):
    data = bytearray(MUTABLE)
    for position, value in flips:
        data[position] = value
    source = source_of(bytes(data[:length]))
    chrome_trace.recognise(source)
    try:
        trace = chrome_trace.read(source)
    except StepwhyError:
        return
    if trace is not None:
        check(trace)


# --- what others recorded -----------------------------------------------------------------------


@pytest.mark.traces
@pytest.mark.skipif(TRACES is None, reason="STEPWHY_TRACES names no directory")
def test_an_aiu_agrees_with_the_facts():
    name = "other/ibm_aiu_allreduce_tp4.json"
    facts = json.loads(Path(TRACES, "FACTS.json").read_text())[name]
    trace, found = read_trace(read_source(Path(TRACES, name)))
    assert found == "chrome-trace"
    assert trace.health.events_read == trace.health.events_kept == facts["n_events"]
    assert len(trace.slices) == (facts["n_events"] - facts["unpaired"]) // 2
    assert len(trace.devices) == facts["pids"]
    totals, counts = Counter(), Counter()
    for _, _, title, _, dur_us in slices(trace):
        general = re.sub(r"_\d+(?=[ _]|$)", "_N", title)
        totals[general[:60]] += dur_us / 1000
        counts[general[:60]] += 1
    for fact in facts["top"]:
        key = fact["name"][:60]
        assert counts[key] == fact["count"], key
        assert totals[key] == pytest.approx(fact["total_ms"], abs=0.001), key


@pytest.mark.traces
@pytest.mark.skipif(TRACES is None, reason="STEPWHY_TRACES names no directory")
def test_a_list_without_its_end_is_whole():
    source = read_source(Path(TRACES, "malformed/unterminated_list_trailing_comma.json"))
    trace = chrome_trace.read(source)
    written = source.data.count(b'"ph": "')
    assert trace.health.events_read == written
    assert lost(trace)["unclosed-list"] == 1
    assert not trace.health.has("json-truncated")


@pytest.mark.parametrize(
    ("device", "kinds"),
    [
        ("", ["ANNOTATION", "INPUT", "ANNOTATION", "ANNOTATION", "ANNOTATION", "ANNOTATION"]),
        ("GPU:0", ["MEMCPY", "KERNEL", "KERNEL", "KERNEL", "KERNEL", "KERNEL"]),
    ],
    ids=["host", "device"],
)
def test_names_beyond_the_most_are_shown_but_not_looked_up(device, kinds, monkeypatch):
    monkeypatch.setattr(uses, "_MOST_NAMES", 3, raising=False)
    names = ["Memcpy HtoD", "load_batch", "a", "Memcpy DtoH", "/home/ann/b", "fetch_data"]
    titles = [named("process", device, 1)] if device else []
    trace = read([*titles, *(x(name, 10 * at, 5) for at, name in enumerate(names))])
    found = [(name, kind) for _, kind, name, *_ in slices(trace)]
    assert found == [*zip([*names[:4], "~/b", names[5]], kinds, strict=True)]
    assert lost(trace)["names-unread"] == 3
