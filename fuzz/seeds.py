"""Valid files of the formats that have been read for long, from the tests' generators."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import kineto_samples
from tests.read import chrome_samples as chrome
from tests.read import megascan_samples as megatron
from tests.read import rocprof_samples as rocm
from tests.read import tf_samples, xplane_samples
from tests.read.chrome_samples import HorovodTimeline
from tests.read.cuda_samples import Nsys, Nvprof
from tests.read.tf_samples import CPU, EPOCH_NS, OLD_GPU, PS, WORKER
from tests.read.xplane_samples import event, host, line, plane

from fuzz.mutate.archive import undated
from fuzz.mutate.records import frame
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.tensorflow.messages import message_class
from stepwhy.show.export.chrome_trace import write_chrome_trace
from stepwhy.trace.store import save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuzz.formats import Files
    from stepwhy.trace import Trace

    Named = Iterator[tuple[str, bytes]]

_LABEL = "[4.0MB] [2.8Gb/s] edge_10_w/read from {} to {}"
_TIMELINE = {
    "/job:localhost/replica:0/task:0/cpu:0": [(0, "_SOURCE", "NoOp", 0, 4)],
    OLD_GPU: [
        (0, "x/MatMul", "MatMul", 10, 100),
        (1, "gradients/x/MatMul_grad/MatMul", "MatMul", 20, 30),
        (0, "sgd/update_w/ApplyGradientDescent", "ApplyGradientDescent", 150, 10),
    ],
    "/gpu:0/stream:all": [(0, "x/MatMul", "MatMul", 120, 72), (0, "w", "ReluGrad", 200, 5)],
    "/gpu:0/memcpy": [(0, "edge_1_x", "MEMCPYHtoD", 15, 51)],
    "/gpu:0/stream:12": [(0, "x/MatMul", "MatMul", 120, 72), (0, "w", "ReluGrad", 200, 5)],
    "/gpu:0/stream:13": [(0, "edge_1_x", "MEMCPYHtoD", 15, 51)],
}
_STATISTICS = [
    (
        CPU,
        [
            ("_SOURCE", "_SOURCE = NoOp()", 0, 1, None),
            ("batch", "batch = QueueDequeueManyV2(queue, n)", 2, 160, 98304),
            ("conv", "[mklcpu 0.5MB 0.5MB] conv = _MklNativeConv2D(batch, w)", 170, 240, 524288),
            ("gradients/pool", "gradients/pool = MaxPoolGrad(conv)", 420, 20, None),
        ],
    ),
    (WORKER, [("RecvTensor", _LABEL.format(PS, WORKER), 20, 30, 4194304)]),
    (PS, [("w/read", "w/read = Identity(w)", 5, 2, 4194304)]),
    ("/device:GPU:0/stream:7<MemcpyH2D>", [("edge_1_x", "x bytes:4096 y@@x:Const#1", 3, 9, None)]),
]


def kineto() -> Named:
    """One run in the spelling of every generation, and records that only some runs have."""
    for name in kineto_samples.GENERATIONS:
        yield "trace.json", kineto_samples.sample(name)
    new = kineto_samples.GENERATIONS["2022 categories"]
    records = [*kineto_samples.run(new), *_rare_records(new.base_us)]
    yield "trace.json", kineto_samples.dump(records, new.header)


def _rare_records(base_us: float) -> Iterator[dict[str, Any]]:
    """Allocations, stacks, arrows, collectives and spans of the profiler."""
    for n in range(6):
        memory = {"Device Type": n % 2, "Device Id": 0, "Addr": 77 + n % 3, "Bytes": 512 * (3 - n)}
        totals = {"Total Allocated": 4096 * (n + 1), "Total Reserved": 1 << 20}
        where = {"ts": base_us + 1000 * n, "pid": 100, "tid": 1}
        yield {"ph": "i", "name": "[memory]", **where, "args": memory | totals}
        frame_name = f"train.py({n + 3}): load" if n % 2 else "torch/nn/modules/module.py(9): call"
        span = {"dur": 900, "args": {"Python id": n, "Python parent id": n - 1}}
        yield {"ph": "X", "cat": "python_function", "name": frame_name, **where, **span}
        arrow = {"ph": "s" if n % 2 else "f", "id": n // 2, "cat": "ac2g", "name": "ac2g"}
        yield {**arrow, **where}
        device = {"device": 0, "stream": 20, "correlation": 10 * n + 2}
        row = {"pid": 0, "tid": 20, "ts": base_us + 5000 * n, "dur": 700, "args": device}
        yield {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce_RING_LL_Sum_float", **row}
        yield {"ph": "X", "cat": "gpu_user_annotation", "name": f"ProfilerStep#{n}", **row}
    yield {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": base_us, "dur": 1}


def tf_timeline() -> Named:
    """A timeline of ops, streams and copies, with counters and tensors."""
    counters = [
        {
            "ph": "C",
            "pid": 0,
            "tid": 0,
            "name": "cpu",
            "ts": tf_samples.EPOCH_US + t,
            "args": {"cpu": t},
        }
        for t in (0, 10, 20)
    ]
    tensors = [{"ph": p, "pid": 2, "tid": 0, "id": 3, "ts": tf_samples.EPOCH_US} for p in "NOD"]
    yield "timeline.json", tf_samples.timeline(_TIMELINE, (*counters, *tensors))
    cpu = {CPU: [(0, "x", "Const", 0, 4), (0, "y", "Neg", 10, 4), (1, "map", "PyFunc", 10, 9)]}
    yield "timeline.json", tf_samples.timeline(cpu)


def run_metadata() -> Iterator[Files]:
    """Step statistics alone, with partition graphs, and with the files of a capture beside them."""
    yield {"run_metadata.pb": tf_samples.step_stats(_STATISTICS).SerializeToString()}
    edge = tf_samples.rendezvous("edge_10_w/read", PS, WORKER, T=1, _dst="tower/MatMul")
    graphs = (
        tf_samples.graph(
            ("w/read", "Identity", PS, ["w"], {}), ("w/read_S2", "_Send", PS, ["w/read"], edge)
        ),
        tf_samples.graph(
            ("w/read_S3", "_Recv", WORKER, [], edge),
            ("conv", "_MklMatMul", WORKER, ["x", "w/read_S3"], {"_class": ["loc:@w"]}),
        ),
    )
    message = tf_samples.run_metadata(_STATISTICS, graphs)
    _add_memory(message.step_stats.dev_stats[0].node_stats[2])
    asked = tf_samples.graph(("conv", "Conv2D", CPU, ["batch"], {}), ("batch", "Q", "", [], {}))
    window = (
        b'{"kind":"tf1-run","start_ns":%d,"end_ns":%d,"step":3,"feeds":[{"name":"x","bytes":9}]}'
    )
    scopes = b'[{"device":"/gpu:0","line":"a.py(1): f"},{"device":"/cpu:0"},{"device":""}]'
    yield {
        "run_metadata.pb": message.SerializeToString(),
        "graph.pb": asked.SerializeToString(),
        "sources.json": b'{"ops":{"conv":{"source":"a.py(2): f","requested":"/gpu:0","scopes":%s}},'
        b'"devices":["%s"]}' % (scopes, CPU.encode()),
        "window.json": window % (EPOCH_NS - 1000, EPOCH_NS + 1_000_000),
    }


def _add_memory(entry: Any) -> None:
    entry.all_start_nanos, entry.all_end_rel_nanos = EPOCH_NS + 170_123, 240_824
    entry.op_end_rel_nanos = 200_000
    memory = entry.memory.add(allocator_name=b"cpu", total_bytes=100, peak_bytes=80, live_bytes=60)
    memory.allocation_records.add(alloc_micros=tf_samples.EPOCH_US + 180, alloc_bytes=100)
    memory.allocation_records.add(alloc_micros=tf_samples.EPOCH_US + 190, alloc_bytes=-40)
    entry.memory_stats.temp_memory_size = 7


def xplane() -> Named:
    """A function on the CPU, a JAX step with a GPU, and a TPU."""
    python = line(
        "python",
        event("train", 0, 100, step_num=7),
        event("EagerLocalExecute: __inference_step_7", 10, 60),
        event("$train.py:12 load", 30, 30),
        event("f", 75, 5, tf_function_call="traced-nonXla"),
        event("cuLaunchKernel", 81, 4, correlation_id=5),
        event("MemoryAllocation", 90, 0, allocator_name="GPU_0_bfc"),
        number=1,
    )
    pool = line(
        "tf_Compute/1",
        event("ExecutorState::Process", 25, 40, id=42),
        event("model/dense/MatMul:_MklMatMul", 30, 10),
        event("dot.3", 41, 9, hlo_op="dot.3", device_ordinal=1),
        number=2,
    )
    loader = line("tf_data_iterator_resource/4", event("Iterator::Root::Map", 4, 30), number=4)
    gpu = plane(
        "/device:GPU:0",
        line(
            "Stream #13(MemcpyH2D,compute)",
            event("volta_sgemm", 86, 12, correlation_id=5, tf_op="model/dense/MatMul:MatMul"),
            event("MemcpyH2D", 99, 3, memcpy_details="kind_src:pageable kind_dst:device size:4096"),
            number=13,
        ),
        line("Steps", event("7", 0, 100), number=99),
        device_type_string="V100",
    )
    tpu = plane(
        "/device:TPU:0",
        line("Steps", event("0", 0, 50), event("1", 50, 50), number=1),
        line("XLA Ops", event("%fusion.1", 1, 20, hlo_category="fusion"), number=2, at_ns=EPOCH_NS),
    )
    about = plane("Task Environment", profile_start_time=EPOCH_NS)
    yield "host.xplane.pb", xplane_samples.xspace(host(python, pool, loader))
    yield "gpu.xplane.pb", xplane_samples.xspace(host(python, pool, loader), gpu, about)
    yield "tpu.xplane.pb", xplane_samples.xspace(host(python), tpu)


def tensorboard() -> Named:
    """Fill levels of queues and rates of steps, as TensorFlow 1 and 2 write them."""
    levels = ("batch/fraction_of_32_full", "shuffle/fraction_over_200_of_192_full")
    events = [_summary(after_s=0, file_version=b"brain.Event:2")]
    for n in range(8):
        events.append(_summary(after_s=n, **{levels[0]: n / 8, levels[1]: 0.5, "loss": 3.0}))
        events.append(_summary(after_s=n, **{"global_step/sec": 2.5}))
    tensor = message_class("Event")(wall_time=1.5e9 + 9)
    value = tensor.summary.value.add(tag=levels[0].encode())
    value.tensor.float_val.append(0.25)
    events.append(tensor.SerializeToString())
    yield "run.tfevents", b"".join(map(frame, events))


def _summary(after_s: float, file_version: bytes = b"", **scalars: float) -> bytes:
    message = message_class("Event")(wall_time=1.5e9 + after_s, file_version=file_version)
    for tag, value in scalars.items():
        message.summary.value.add(tag=tag.encode(), simple_value=value)
    return bytes(message.SerializeToString())


def nsys() -> Named:
    """An export with ranges, and one that was made while nothing ran on a GPU."""
    sample = (
        Nsys(TARGET_INFO_GPU=[{"id": 0, "name": "NVIDIA H100"}, {"id": 1, "name": "NVIDIA H100"}])
        .call("cudaMemcpyAsync_v3020", 100, 110, 1)
        .call("cudaLaunchKernel_v7000", 120, 125, 2)
        .call("cudaStreamSynchronize_v3020", 130, 190, 4)
        .copy(1, 112, 120, 1, size=4096)
        .copy(8, 190, 195, 1, size=4096)
        .kernel("void at::native::softmax<float>(float*)", 130, 170, 2)
        .kernel("ncclDevKernel_AllReduce(args<4096>)", 175, 185, 5, device=1, stream=9)
        .fill(170, 175, 3, size=64)
        .graph(200, 260, 6)
    )
    for n in range(4):
        sample.range(f"step {n}", 100 + 40 * n, 140 + 40 * n, by_number=n % 2 == 0)
        sample.range("forward", 100 + 40 * n, 120 + 40 * n, kind=60)
    yield "trace.sqlite", _database(sample)
    yield "trace.sqlite", _database(Nsys().range("step 1", 100, 200).range("load", 100, 150))


def nvprof() -> Named:
    """A database with calls, copies, markers and overhead."""
    sample = (
        Nvprof()
        .call(211, 100, 105, 1)
        .call(41, 110, 112, 2)
        .call(131, 115, 160, 3)
        .call(307, 100, 104, 4, table="DRIVER")
        .kernel("_ZN2at6native7softmaxIfEEvPT_", 120, 140, 1)
        .copy(2, 145, 150, 2, srcKind=3, dstKind=1)
        .copy(10, 150, 155, 2, table="MEMCPY2", srcDeviceId=0, dstDeviceId=1)
        .overhead(2 << 16, 90, 99)
    )
    for n in range(4):
        sample.range(f"step {n}", 100 + 40 * n, 140 + 40 * n)
    yield "trace.sqlite", _database(sample)


def _database(sample: Nsys | Nvprof) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        written: Path = sample.write(Path(folder, "trace"))
        return written.read_bytes()


def rocprof() -> Named:
    """Two processes with kernels, calls, copies, markers and a collective."""
    buffers = {
        "kernel_dispatch": [rocm.kernel(n, 100 * n, 80, correlation=n) for n in rocm.KERNELS],
        "memory_copy": [rocm.copy("HOST_TO_DEVICE", 10, 30, rocm.CPU, rocm.GPU)],
        "hip_api": [rocm.record("hipLaunchKernel", 90 * n, 9, n) for n in rocm.KERNELS]
        + [rocm.record("hipDeviceSynchronize", 420, 90, 9)],
        "rccl_api": [rocm.record("ncclAllReduce", 190, 20, 8)],
        "marker_api": [rocm.record("roctxRangePushA", 50 * n, 40, 20 + n) for n in range(3)],
    }
    messages = {20 + n: f"step {n}" for n in range(3)}
    first = rocm.process(buffers, messages=messages)
    yield "results.json", rocm.results(first)
    second = rocm.process({**buffers, "hip_api": []}, pid=909)
    yield "results.json", rocm.results(first, second)


def megascan() -> Named:
    """The file of one rank, and ranks aggregated in both ways."""
    ranges = [
        ("forward", 1.0, 4.0, 0, 0), ("allreduce", 1.5, 2.0, 0, 0), ("backward", 5.0, 9.0, 0, 1),
        ("exchange-next", 4.0, 5.0, 0, 0), ("optimizer", 9.0, 9.5, 0, 0),
    ]  # fmt: skip
    iterations = [(0.2, 10.0, ranges)] * 3
    yield "rank0.json", megatron.raw(*iterations, rank=0)
    yield "rank0.json", megatron.raw(*iterations, rank=1, told={"g_rk": 3, "dev": 1})
    both = {
        rank: [(n, name, 12 * n + s, 12 * n + e) for n in range(3) for name, s, e, *_ in ranges]
        for rank in (0, 1)
    }
    yield "all.json", megatron.aggregated(both, begins={n: 12.0 * n for n in range(3)})
    yield "all.json", megatron.aggregated(both, whole=True)


def horovod() -> Named:
    """A few steps with two tensors, the second rank always late."""
    line = HorovodTimeline()
    line.exchange("w/broadcast", 1, 9, [("MPI_BCAST", 2, 8)], "BROADCAST")
    for at in range(100, 5100, 1000):
        for tensor, offset in (("grad/w", 0), ("grad/b", 3)):
            line.negotiate(tensor, at + offset, {0: at + 10 + offset, 1: at + 52 + offset})
            begin = at + 60 + offset
            parts = [("QUEUE", begin, begin + 5), ("NCCL_ALLREDUCE", begin + 20, begin + 120)]
            told = {"dtype": "float32", "shape": "[3, 4]"}
            line.exchange(tensor, begin, begin + 140, parts, **told)
        line.cycle(at)
    yield "timeline.json", line.text(closed=True).encode()
    yield "timeline.json", line.text().encode()


def chrome_trace() -> Named:
    """A loop of a tracer of one's own, and what names the streams of a device."""
    loop = []
    for at in range(0, 5000, 1000):
        loop += [
            chrome.x("train_step", at, 900),
            chrome.x("load_batch", at, 300),
            *chrome.pair("forward", at + 300, at + 500),
            chrome.x("backward", at + 500, 350),
        ]
    yield "trace.json", json.dumps(loop).encode()
    rows = [
        chrome.named("process", "/device:GPU:0", 7),
        chrome.named("thread", "Stream #3", 7, 3),
        chrome.x("sgemm", 300, 200, 7, 3),
        chrome.x("MemcpyH2D", 200, 90, 7, 3, args={"bytes": 4096}),
        {"ph": "C", "name": "memory", "ts": 5, "pid": 7, "args": {"used": 5}},
    ]
    yield "trace.json", json.dumps({"displayTimeUnit": "ms", "traceEvents": rows + loop}).encode()


def store() -> Named:
    """Stored traces of some of the others."""
    return (("run.stepwhy", undated(_written(trace, save))) for trace in _traces())


def exported() -> Named:
    """Exported timelines of some of the others."""
    return (("run.json", _written(trace, write_chrome_trace)) for trace in _traces())


def _traces() -> Iterator[Trace]:
    from stepwhy.read.formats.kineto import reader as pytorch  # noqa: PLC0415
    from stepwhy.read.formats.run_metadata import reader as session  # noqa: PLC0415

    for name, data in list(kineto())[-2:]:
        trace = pytorch.read(Source(data, name))
        if trace is not None:
            yield trace
    placed = session.read(Source([*run_metadata()][1]["run_metadata.pb"], "run_metadata.pb"))
    if placed is not None:
        yield placed


def _written(trace: Trace, write: Callable[[Trace, Path], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace")
        write(trace, path)
        return path.read_bytes()
