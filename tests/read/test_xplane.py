"""XPlane profiles: hand-made spaces, torn ones, and what must not show."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.tf_samples import run_metadata
from tests.read.xplane_samples import (
    EPOCH_NS,
    counters,
    event,
    host,
    line,
    plane,
    rows,
    source_of,
    trace_of,
    xspace,
)

from stepwhy.analyse.activity.callbacks import callback_rows
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import CorruptInputError, EmptyInputError, StepwhyError
from stepwhy.read.formats.xplane import reader as importer
from stepwhy.read.formats.xplane.frames import read_frame
from stepwhy.read.formats.xplane.names import (
    api_kind,
    copy_details,
    hlo_kind,
    host_kind,
    stream_kind,
)
from stepwhy.trace import NULL, Copy, Kind, Phase, Role
from stepwhy.trace.integrity import check

KERAS = host(
    line(
        "python",
        event("train", 0, 100, step_num=7, _r=1),
        event("EagerLocalExecute: __inference_step_7", 10, 60),
        event("FunctionRun", 20, 5, id=42, _r=1),
        event("my own range", 80, 10),
        event("MemoryAllocation", 90, 0, allocator_name="cpu"),
    ),
    line(
        "tf_Compute/1",
        event("ExecutorState::Process", 25, 40, id=42),
        event("model/dense/MatMul:_MklMatMul", 30, 10),
        event("gradient_tape/model/dense/MatMul:MatMul", 41, 10),
        event("_recv_x_0:_Recv", 52, 3),
        event("while:While", 56, 4),
    ),
    line(
        "tf_Compute/2",
        event("ExecutorState::Process", 25, 9, id=99),
        event("decode:DecodeJpeg", 26, 7),
    ),
    line("tf_data_iterator_get_next/3", event("IteratorGetNextOp::DoCompute", 21, 3)),
    line(
        "tf_data_iterator_resource/4",
        event("InstantiatedCapturedFunction::RunAsync", 1, 2, id=99),
        event("Iterator::Root::Map", 4, 30),
    ),
)


def test_threads_and_kinds_of_a_function_on_the_cpu():
    assert rows(trace_of(KERAS)) == [
        ("train", Kind.STEP, Role.HOST_THREAD),
        ("InstantiatedCapturedFunction::RunAsync", Kind.FRAMEWORK, Role.WORKER),
        ("Iterator::Root::Map", Kind.FRAMEWORK, Role.WORKER),
        ("EagerLocalExecute: __inference_step_7", Kind.FRAMEWORK, Role.HOST_THREAD),
        ("FunctionRun", Kind.FRAMEWORK, Role.HOST_THREAD),
        ("IteratorGetNextOp::DoCompute", Kind.INPUT, Role.EXECUTOR),
        ("ExecutorState::Process", Kind.FRAMEWORK, Role.EXECUTOR),
        ("ExecutorState::Process", Kind.FRAMEWORK, Role.EXECUTOR),
        ("DecodeJpeg", Kind.OP, Role.WORKER),
        ("MatMul", Kind.KERNEL, Role.EXECUTOR),
        ("MatMul", Kind.KERNEL, Role.EXECUTOR),
        ("_Recv", Kind.WAIT, Role.EXECUTOR),
        ("while:While", Kind.FRAMEWORK, Role.EXECUTOR),
        ("my own range", Kind.ANNOTATION, Role.HOST_THREAD),
    ]


def test_phases_come_from_name_scopes():
    by_kind = [r[3] for r in rows(trace_of(KERAS), "phase") if r[1] is Kind.KERNEL]
    assert by_kind == [Phase.FORWARD, Phase.BACKWARD]


def test_meta_of_a_run_on_the_cpu():
    meta = trace_of(KERAS).meta
    assert (meta.format, meta.framework, meta.device_expected) == ("xplane", "tensorflow", False)
    assert meta.signals == {"host-ops", "device-activity", "input"}


def test_the_pipeline_that_runs_ahead_computes_nothing_of_the_step():
    facts = Facts(trace_of(KERAS))
    assert facts.breakdown["compute"] == 20_000
    assert facts.breakdown["input_wait"] == 3_000
    assert facts.breakdown["communication"] == 3_000
    assert sum(facts.breakdown.values()) == 100_000


def test_an_eager_op_computes_where_its_kernel_runs():
    trace = trace_of(
        host(
            line(
                "python",
                event("EagerLocalExecute: MatMul", 0, 20),
                event("EagerKernelExecute", 2, 16),
                event("KernelAndDeviceFunc::Run", 3, 14),
                event("EagerLocalExecute: IteratorGetNext", 30, 9),
                event("KernelAndDeviceFunc::Run", 31, 5),
            )
        )
    )
    assert rows(trace) == [
        ("MatMul", Kind.OP, Role.HOST_THREAD),
        ("EagerKernelExecute", Kind.FRAMEWORK, Role.HOST_THREAD),
        ("MatMul", Kind.KERNEL, Role.EXECUTOR),
        ("EagerLocalExecute: IteratorGetNext", Kind.INPUT, Role.HOST_THREAD),
        ("IteratorGetNext", Kind.INPUT, Role.EXECUTOR),
    ]


def test_a_traced_call_is_compilation():
    call = {"tf_function_call": "traced-nonXla"}
    trace = trace_of(
        host(
            line(
                "python",
                event("f", 0, 50, **call),
                event("f", 60, 5, tf_function_call="notTraced-nonXla"),
            )
        )
    )
    assert [r[1] for r in rows(trace)] == [Kind.COMPILE, Kind.FRAMEWORK]


JAX_CPU = host(
    line(
        "python",
        event("step", 0, 100, step_num=0),
        event("PjitFunction(step)", 5, 20),
        event("$train.py:12 load", 30, 30),
        event("$builtins len", 31, 1),
        event("$pjit.py:250 cache_miss", 70, 20),
        event("$functools.py:9 wrapper", 72, 5),
        event("$pxla.py:700 lower_sharding_computation", 80, 5),
    ),
    line(
        "tf_XLAPjRtCpuClient/8",
        event("dot.3", 10, 2, hlo_op="dot.3", _p=77),
        event("all-reduce.1", 40, 5, hlo_op="all-reduce.1"),
        event("while.2", 50, 9, hlo_op="while.2"),
    ),
    line("tf_XLAEigen/9", event("end: dot.3", 25, 0, _c=77)),
)


def test_an_asynchronous_instruction_ends_where_its_mark_says():
    found = {r[0]: r[1:] for r in rows(trace_of(JAX_CPU), "dur_ns")}
    assert found["dot.3"] == (Kind.KERNEL, Role.EXECUTOR, 15_000)
    assert found["all-reduce.1"] == (Kind.COLLECTIVE, Role.EXECUTOR, 5_000)
    assert found["while.2"] == (Kind.FRAMEWORK, Role.EXECUTOR, 9_000)


def test_each_part_of_a_divided_cpu_is_a_device():
    ran = [event("dot", 9 * i, 5 + i, hlo_op="dot", device_ordinal=i) for i in range(2)]
    totals = Facts(trace_of(host(line("tf_XLAEigen/9", *ran)))).totals
    assert [(t.name, t.busy_ns) for t in totals] == [("CPU", 5_000), ("CPU:1", 6_000)]


def test_frames_belong_to_the_user_or_the_framework():
    trace = trace_of(JAX_CPU)
    assert trace.meta.framework == "jax"
    assert "python-stacks" in trace.meta.signals
    assert [
        (r[1], r[3]) for r in rows(trace, "source") if ".py" in r[0] or r[0] == "builtins len"
    ] == [
        (Kind.PYTHON, "train.py(12): load"),
        (Kind.PYTHON, ""),
        (Kind.FRAMEWORK, "pjit.py(250): cache_miss"),
        (Kind.FRAMEWORK, "functools.py(9): wrapper"),
        (Kind.COMPILE, "pxla.py(700): lower_sharding_computation"),
    ]


@pytest.mark.parametrize(
    ("name", "kind", "source"),
    [
        ("$train.py:3 main", Kind.PYTHON, "train.py(3): main"),
        ("$<string>:2 __init__", Kind.PYTHON, "<string>(2): __init__"),
        ("$api.py:3154 block_until_ready", Kind.SYNC, "api.py(3154): block_until_ready"),
        ("$trainer.py:300 fit", Kind.FRAMEWORK, "trainer.py(300): fit"),
        ("$compiler.py:9 backend_compile_and_load", Kind.COMPILE, None),
        ("$builtins isinstance", Kind.PYTHON, ""),
        ("$jaxlib._jax block_until_ready", Kind.SYNC, ""),
        ("$", Kind.PYTHON, ""),
    ],
)
def test_frames(name, kind, source):
    frame = read_frame(name)
    assert frame.kind is kind
    assert source is None or frame.source == source


GPU = plane(
    "/device:GPU:0",
    line(
        "Stream #7(Compute)",
        event("void gemm<nccl>(float)", 10, 5, correlation_id=1, tf_op="gradient_tape/m:MatMul"),
        event("ncclDevKernel_AllReduce_Sum", 16, 4, correlation_id=2),
        event("Memset", 21, 1),
    ),
    line(
        "Stream #8(MemcpyH2D)",
        event(
            "MemcpyH2D",
            2,
            6,
            correlation_id=3,
            memcpy_details="kind_src:pageable kind_dst:device size:4096 dest:0 async:1",
        ),
    ),
    line("Steps", event("0", 0, 30)),
    line("TensorFlow Ops", event("gradient_tape/m:MatMul", 10, 5)),
    line("XLA Ops", event("fusion.1", 10, 5)),
    gpu_device_name="NVIDIA H200",
)
GPU_HOST = host(
    line(
        "python",
        event("cuLaunchKernel", 5, 1, correlation_id=1),
        event("m:MatMul", 4, 3),
        event("cuStreamSynchronize", 12, 9),
        event("cuMemAlloc_v2", 22, 1),
        event("cuModuleLoadDataEx", 24, 1),
        event("TransferToDevice", 26, 1),
    ),
    line("tf_gpu_private_0/1", event("m/x:Relu", 7, 1), event("reduce:CollectiveReduceV2", 8, 1)),
)


def test_streams_count_once():
    trace = trace_of(GPU, GPU_HOST)
    assert counters(trace) == {"derived-row": 3}
    found = rows(trace, "copy", "bytes", "pageable", "phase")
    assert [r for r in found if r[2] is Role.STREAM] == [
        ("MemcpyH2D", Kind.MEMCPY, Role.STREAM, Copy.H2D, 4096, 1, Phase.UNKNOWN),
        ("void gemm<nccl>(float)", Kind.KERNEL, Role.STREAM, Copy.NONE, NULL, NULL, Phase.BACKWARD),
        (
            "ncclDevKernel_AllReduce_Sum",
            Kind.COLLECTIVE,
            Role.STREAM,
            Copy.NONE,
            NULL,
            NULL,
            Phase.UNKNOWN,
        ),
        ("Memset", Kind.MEMSET, Role.STREAM, Copy.NONE, NULL, NULL, Phase.UNKNOWN),
    ]


def test_host_of_an_accelerator_only_schedules():
    found = rows(trace_of(GPU, GPU_HOST), "correlation")
    assert [r for r in found if r[2] is not Role.STREAM] == [
        ("MatMul", Kind.OP, Role.EXECUTOR, NULL),
        ("cuLaunchKernel", Kind.LAUNCH, Role.HOST_THREAD, 1),
        ("Relu", Kind.OP, Role.EXECUTOR, NULL),
        ("CollectiveReduceV2", Kind.OP, Role.EXECUTOR, NULL),
        ("cuStreamSynchronize", Kind.SYNC, Role.HOST_THREAD, NULL),
        ("cuMemAlloc_v2", Kind.RUNTIME, Role.HOST_THREAD, NULL),
        ("cuModuleLoadDataEx", Kind.COMPILE, Role.HOST_THREAD, NULL),
        ("TransferToDevice", Kind.FRAMEWORK, Role.HOST_THREAD, NULL),
    ]


def test_calls_on_a_plane_of_their_own_belong_to_their_thread():
    calls = plane("/host:CUPTI", line("python", event("cuLaunchKernel", 3, 1), number=5))
    frames = plane("/host:python-tracer", line("5", event("$a.py:1 f", 1, 5), number=5))
    trace = trace_of(
        host(line("python", event("train", 0, 9, step_num=1), number=5)), calls, frames
    )
    assert [r[1] for r in rows(trace)] == [Kind.STEP, Kind.PYTHON, Kind.LAUNCH]
    assert len(trace.tracks) == 1


def test_meta_of_a_gpu():
    trace = trace_of(GPU, GPU_HOST)
    assert trace.meta.device_expected
    assert trace.meta.signals == {"host-ops", "device-activity", "runtime-calls", "copy-bytes"}
    assert trace.string(int(trace.devices.model[0])) == "NVIDIA H200"
    (gpu,) = Facts(trace).totals
    assert (gpu.name, gpu.busy_ns, gpu.kernels, gpu.h2d_bytes) == ("GPU:0", 16_000, 2, 4096)


def test_a_copy_kernel_takes_its_direction_from_the_call():
    call = event("hipMemcpyHtoDAsync", 0, 1, correlation_id=4, memcpy_details="kind:Unknown size:0")
    kernel = event("__amd_rocclr_copyBuffer.kd", 2, 1, correlation_id=4)
    trace = trace_of(
        plane("/device:GPU:0", line("Stream #1(Kernel)", kernel)),
        host(line("Host Threads/5", call)),
    )
    assert rows(trace, "copy", "bytes") == [
        ("hipMemcpyHtoDAsync", Kind.LAUNCH, Role.HOST_THREAD, Copy.NONE, NULL),
        ("__amd_rocclr_copyBuffer.kd", Kind.MEMCPY, Role.STREAM, Copy.H2D, NULL),
    ]


def test_a_copy_kernel_whose_call_is_unknown_copies_within_the_device():
    kernel = event("__amd_rocclr_copyBuffer.kd", 2, 1, correlation_id=4)
    trace = trace_of(plane("/device:GPU:0", line("Stream #1(Kernel)", kernel)))
    assert trace.slices.copy.tolist() == [Copy.D2D]


TPU = plane(
    "/device:TPU:0",
    line("Steps", event("3", 0, 40), event("4", 40, 40)),
    line("XLA Modules", event("jit_step", 0, 38)),
    line(
        "XLA Ops",
        event("while.1", 0, 30),
        event("%fusion.2", 1, 20),
        event("infeed.3", 22, 4),
        event("all-reduce-start.4", 27, 1),
    ),
    line("Async XLA Ops", event("copy-start.5", 2, 3)),
    device_type_string="TPU v5e",
)


def test_instructions_of_a_tpu():
    trace = trace_of(TPU)
    (device,) = Facts(trace).totals
    assert (device.name, device.kernels, device.kernel_ns) == ("TPU:0", 2, 21_000)
    assert (device.busy_ns, device.communication_ns) == (21_000, 1_000)
    assert counters(trace) == {"derived-row": 3}
    assert trace.string(int(trace.devices.model[0])) == "TPU v5e"


def test_a_tpu_marks_the_steps_where_the_host_does_not():
    assert Facts(trace_of(TPU)).steps.durations_ns.tolist() == [40_000, 40_000]
    marked = trace_of(TPU, host(line("python", event("train", 0, 99, step_num=1))))
    assert Facts(marked).steps.durations_ns.tolist() == [99_000]


def test_a_device_that_was_used_without_a_kernel_is_named():
    idle = plane("/device:GPU:1", line("Stream #3", event("MemcpyH2D", 0, 1)))
    unused = plane("/device:GPU:3")
    allocation = event("MemoryAllocation", 0, 0, allocator_name="GPU_2_bfc")
    trace = trace_of(GPU, idle, unused, host(line("python", allocation)))
    assert counters(trace)["device-without-kernels"] == 2
    assert "(GPU:1, GPU:2)" in trace.meta.notes[0]
    assert trace_of(GPU, unused).meta.notes == ()


def test_memory_on_a_gpu_without_any_activity_is_an_unrecorded_accelerator():
    allocation = event("MemoryAllocation", 0, 0, allocator_name="GPU_0_bfc")
    trace = trace_of(host(line("python", allocation, event("m:MatMul", 0, 5))))
    assert trace.meta.device_expected
    assert Facts(trace).activities == []


def test_times_are_on_the_epoch_where_the_session_says_when_it_began():
    session = plane("Task Environment", profile_start_time=EPOCH_NS)
    marked = host(line("python", event("train", 1, 2, step_num=1), at_ns=500))
    assert trace_of(marked, session).slices.start_ns.tolist() == [EPOCH_NS + 1500]
    assert trace_of(marked).slices.start_ns.tolist() == [1500]
    absolute = host(line("python", event("train", 1, 2, step_num=1), at_ns=EPOCH_NS + 500))
    assert trace_of(absolute, session).slices.start_ns.tolist() == [EPOCH_NS + 1500]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 10**13), min_size=4, max_size=4), st.integers(0, 10**10))
def test_what_lies_inside_still_does_after_rounding(bounds, at_ns):
    outer, inner, inner_end, outer_end = sorted(bounds)
    python = (
        "python",
        1,
        at_ns,
        [("a", outer, outer_end - outer, {}), ("b", inner, inner_end - inner, {})],
    )
    slices = trace_of(host(python)).slices
    by_length = sorted(
        zip(slices.start_ns.tolist(), slices.dur_ns.tolist(), strict=True), key=lambda s: s[1]
    )
    (start, dur), (outer_start, outer_dur) = by_length
    assert outer_start <= start
    assert start + dur <= outer_start + outer_dur
    assert abs(dur - (inner_end - inner) / 1000) < 1


SECRET = "s3cr3t-token"  # noqa: S105 - what must not be carried


def test_hosts_options_and_environment_are_not_carried():
    session = plane(
        "Task Environment", profile_options=SECRET, command_line=SECRET, hostname=SECRET
    )
    data = xspace(KERAS, session) + b"\x22" + bytes([len(SECRET)]) + SECRET.encode()
    trace = importer.read(source_of(data))
    shown = "\n".join([*trace.strings, repr(trace.meta), repr(trace.health.counters)])
    assert SECRET not in shown


def test_other_planes_are_counted():
    other = plane("/host:metadata", line("x", event("y", 0, 1)), jax_version="0.10.2")
    trace = trace_of(KERAS, other)
    assert counters(trace)["other-plane"] == 1
    assert (trace.meta.framework, trace.meta.framework_version) == ("jax", "0.10.2")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\n\x04abcd",
        run_metadata([]).SerializeToString(),
        xspace(plane("some text")),
        xspace(plane("/host:CPU" + "x" * 300)),
    ],
)
def test_other_files_are_not_recognised(data):
    assert not importer.recognise(source_of(data))


def test_a_space_without_an_event_is_empty():
    with pytest.raises(EmptyInputError, match="without an event"):
        trace_of(host(), plane("/device:GPU:0"))


def test_a_torn_file_keeps_its_whole_planes():
    whole = len(xspace(TPU))
    trace = importer.read(source_of(xspace(TPU, KERAS)[: whole + 100]))
    assert counters(trace)["protobuf-truncated"] == 1
    assert trace.slices.dur_ns.tolist() == trace_of(TPU).slices.dur_ns.tolist()


def test_a_tear_behind_the_names_costs_no_event():
    trace = importer.read(source_of(xspace(KERAS)[:-9]))
    assert counters(trace)["protobuf-truncated"] == 1
    assert len(trace.slices) == len(trace_of(KERAS).slices)


def test_numbers_beyond_the_columns_are_not_recorded():
    call = event("cuLaunchKernel", 0, 1, correlation_id=1)
    message = plane("/host:CPU", line("python", call))
    (stat,) = message.lines[0].events[0].stats
    stat.int64_value, stat.uint64_value = 0, 2**64 - 1
    assert rows(trace_of(message), "correlation")[0][3] == NULL


def test_events_without_names_are_counted():
    message = plane("/host:CPU", line("python", event("a", 0, 1), event("b", 2, 1)))
    del message.event_metadata[1]
    trace = trace_of(message)
    assert counters(trace) == {"event-without-name": 1}
    assert [r[0] for r in rows(trace)] == ["a"]


def test_events_without_a_usable_time_are_counted():
    early = ("a", -2_000_000, 1, {})
    trace = trace_of(host(line("python", early, event("b", 2, 1), at_ns=1)))
    assert counters(trace) == {"event-without-time": 1}


def read_or_refuse(data):
    source = source_of(data)
    if not importer.recognise(source):
        return
    try:
        trace = importer.read(source)
    except StepwhyError:
        return
    if trace is None:
        return
    check(trace)
    health = trace.health
    assert health.events_read == health.events_kept + health.dropped


SPACE = xspace(TPU, GPU, GPU_HOST, JAX_CPU)


def test_a_file_cut_anywhere_is_read_or_refused():
    for length in range(0, len(SPACE), 7):
        read_or_refuse(SPACE[:length])


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.integers(0, len(SPACE) - 1), st.integers(0, 255)), max_size=12))
def test_a_damaged_file_is_read_or_refused(changes):
    data = bytearray(SPACE)
    for position, value in changes:
        data[position] = value
    read_or_refuse(bytes(data))


def test_bytes_that_are_no_utf8_are_replaced():
    message = plane("/host:CPU", line("python", event("a", 0, 1)))
    message.event_metadata[0].value.name = b"caf\xe9"
    assert [r[0] for r in rows(trace_of(message))] == ["caf\N{REPLACEMENT CHARACTER}"]


def test_a_torn_file_without_an_event_left_is_not_read():
    assert importer.read(source_of(xspace(KERAS)[:60])) is None


def test_a_space_of_which_nothing_can_be_read_is_corrupt():
    with pytest.raises(CorruptInputError, match="damaged XPlane"):
        importer.read(source_of(b"\x0a\x02\xff\xff"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("IteratorGetNextOp::DoCompute", Kind.INPUT),
        ("MultiDeviceIteratorGetNextFromShard", Kind.INPUT),
        ("PjRtCpuClient::Compile", Kind.COMPILE),
        ("backend_compile_and_load", Kind.COMPILE),
        ("CommonPjRtBuffer::Await", Kind.SYNC),
        ("BlockHostUntilDone", Kind.SYNC),
        ("PJRT_LoadedExecutable_Execute", Kind.FRAMEWORK),
        ("RecvTensorAsync", Kind.WAIT),
        ("EagerLocalExecute: WriteSummary", Kind.STORAGE),
        ("lower_bound", None),
        ("epoch 3", None),
    ],
)
def test_annotations_of_the_frameworks(name, kind):
    assert host_kind(name) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaMemcpy", Kind.SYNC),
        ("cudaMemcpyAsync", Kind.LAUNCH),
        ("hipMemcpyDtoDAsync", Kind.LAUNCH),
        ("hipStreamSynchronize", Kind.SYNC),
        ("hipModuleLoad", Kind.COMPILE),
        ("cuEventQuery", Kind.RUNTIME),
        ("some_kernel<float>", Kind.LAUNCH),
    ],
)
def test_calls_of_the_device_api(name, kind):
    assert api_kind(name) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("custom-call.1", Kind.KERNEL),
        ("call.1", Kind.DEVICE_ANNOTATION),
        ("conditional", Kind.DEVICE_ANNOTATION),
        ("reduce-scatter.8", Kind.COLLECTIVE),
        ("ragged-all-to-all.1", Kind.COLLECTIVE),
        ("recv-done.2", Kind.COLLECTIVE),
        ("copy.3", Kind.KERNEL),
        ("copy-done.3", Kind.MEMCPY),
        ("outfeed", Kind.DEVICE_WAIT),
    ],
)
def test_instructions(name, kind):
    assert hlo_kind(name) is kind


def test_a_category_tells_a_collective_inside_a_fusion():
    assert hlo_kind("fusion.3", "all-reduce fusion") is Kind.COLLECTIVE


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("__amd_rocclr_fillBufferAligned.kd", Kind.MEMSET),
        ("CopyDeviceToDevice", Kind.MEMCPY),
        ("MemcpyP2P", Kind.MEMCPY),
        ("copy_fusion_1", Kind.KERNEL),
        ("rcclGenericKernel", Kind.COLLECTIVE),
    ],
)
def test_activities_on_streams(name, kind):
    assert stream_kind(name) is kind


@pytest.mark.parametrize(
    ("name", "details", "expected"),
    [
        ("MemcpyD2H", "size:112 dest:4 async:0", (Copy.D2H, 112, NULL)),
        ("MemcpyD2H", "kind_src:device kind_dst:pinned size:8 dest:0 async:1", (Copy.D2H, 8, 0)),
        ("hipMemcpyDtoDAsync", "kind:Unknown size:0 dest:512 async:1", (Copy.D2D, NULL, NULL)),
        ("Memcpy", "size:x", (Copy.NONE, NULL, NULL)),
    ],
)
def test_details_of_copies(name, details, expected):
    assert copy_details(name, details) == expected


def test_a_range_of_a_callback_beside_a_gpu_is_python():
    trace = trace_of(
        host(line("python", event("PjitFunction(step)", 0, 90), event("pure_callback.1", 10, 50))),
        plane("/device:GPU:0", line("Stream #1(MemcpyD2H)", event("MemcpyD2H", 10, 20))),
    )
    (row,) = callback_rows(trace)
    assert trace.string(int(trace.slices.name[row])) == "pure_callback.1"
    assert trace.slices.dur_ns[row] == 50_000


@pytest.mark.parametrize(
    ("stream", "kind"), [("Stream #1(Compute)", Kind.SYNC), ("", Kind.ANNOTATION)]
)
def test_reading_an_array_of_jax_waits_for_a_gpu(stream, kind):
    gpu = [plane("/device:GPU:0", line(stream, event("dot", 10, 20)))] if stream else []
    trace = trace_of(host(line("python", event("np.asarray(jax.Array)", 10, 50))), *gpu)
    (row,) = np.flatnonzero(trace.matches(trace.slices.name, lambda name: "asarray" in name))
    assert trace.slices.kind[row] == kind


@pytest.mark.parametrize("thread", ["tf_XLAPjRtCpuClient/8", "python"])
def test_a_thread_of_xla_that_copies_an_array_transfers(thread):
    trace = trace_of(
        host(
            line(thread, event("H2D Dispatch", 0, 20)),
            line("tf_XLAPjRtCpuClient/9", event("dot.3", 10, 20, hlo_op="dot.3")),
        )
    )
    (row,) = np.flatnonzero(trace.matches(trace.slices.name, lambda name: name == "H2D Dispatch"))
    copies = trace.slices.kind[row] == Kind.MEMCPY
    assert copies == (thread != "python")
    if copies:
        assert trace.slices.copy[row] == Copy.H2D
        (cpu,) = Facts(trace).activities
        assert (cpu.transfer.total_ns, cpu.compute.total_ns) == (20_000, 20_000)
