"""Kineto traces: one run in every generation's spelling gives one and the same trace."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kineto_samples import (
    BREAKDOWN_US,
    COPY_BYTES,
    GENERATIONS,
    SECRETS,
    STEP_US,
    STEPS,
    dump,
    run,
    sample,
    x,
)

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import StepwhyError
from stepwhy.diagnose.placement import idle_accelerator
from stepwhy.diagnose.shared.rule import examine
from stepwhy.read.formats.kineto import reader as kineto
from stepwhy.read.inputs.source import Source
from stepwhy.result.reasons import Gap, Lack
from stepwhy.result.wording.verdict import verdict_sentence
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Phase, Role

NEW = GENERATIONS["2022 categories"]


def read(data):
    source = Source(data, "trace.json")
    assert kineto.recognise(source)
    return kineto.read(source)


def read_records(*records, **header):
    return read(dump([*records], {"schemaVersion": 1, "deviceProperties": [], **header}))


def names(trace, *kinds):
    return [trace.string(i) for i in trace.slices.name[trace.rows(*kinds)]]


def kind_of(category, name, **fields):
    """The kind of a single record with this category and name."""
    record = x(category, name, 0, 5, **{"pid": 1, "tid": 1, **fields})
    anchor = x("cpu_op", "anchor", 10, 11, pid=1, tid=1)
    trace = read_records(record, anchor)
    assert len(trace.slices) == 2
    return Kind(trace.slices.kind[0])


def strings_of(trace):
    """Every string that a trace can show."""
    return [*trace.strings, repr(trace.meta), repr(trace.health.counters)]


# --- every generation ----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=GENERATIONS)
def generation(request):
    return read(sample(request.param))


def test_steps_are_those_of_the_markers(generation):
    steps = Facts(generation).steps
    assert steps.source == "marker"
    assert steps.durations_ns.tolist() == [STEP_US * 1000] * STEPS
    assert not steps.device_side


def test_breakdown_is_the_one_worked_out_by_hand(generation):
    expected = {category: us * 1000 for category, us in BREAKDOWN_US.items()}
    assert Facts(generation).breakdown == expected


def test_totals_of_the_device(generation):
    (gpu,) = Facts(generation).totals
    assert (gpu.kernels, gpu.kernel_ns) == (3 * STEPS, 4_800_000 * STEPS)
    assert gpu.busy_ns == (4_800_000 + 350_000) * STEPS
    assert (gpu.h2d_ns, gpu.h2d_bytes) == (350_000 * STEPS, COPY_BYTES * STEPS)
    assert (gpu.d2h_ns, gpu.d2h_bytes) == (0, 0)
    assert (gpu.communication_ns, gpu.exposed_communication_ns) == (0, 0)


def test_device_work_has_the_phase_of_the_call_that_launched_it(generation):
    facts = Facts(generation)
    kernels = generation.rows(Kind.KERNEL)
    assert facts.phases[kernels].tolist() == [
        Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER,
    ] * STEPS  # fmt: skip


def test_host_and_device_rows_are_told_apart_by_category(generation):
    roles = generation.tracks.role.tolist()
    assert sorted(roles) == [Role.HOST_THREAD, Role.HOST_THREAD, Role.STREAM]
    assert len(generation.devices) == 1
    assert generation.devices.kind.tolist() == [DeviceKind.GPU]


def test_every_record_is_kept_or_counted(generation):
    health = generation.health
    assert health.events_read == 1 + 17 * STEPS + 1
    assert health.events_kept == len(generation.slices) == 17 * STEPS + 1
    assert [(c.counter, c.count, c.dropped) for c in health.counters] == [
        ("metadata-record", 1, True)
    ]


def test_secrets_in_a_header_stay_out_of_the_trace():
    shown = "\n".join(strings_of(read(sample("secrets in the header"))))
    assert [secret for secret in SECRETS if secret in shown] == []


def test_meta_of_a_rank():
    meta = read(sample("2024 fractional")).meta
    assert (meta.format, meta.framework) == ("kineto", "pytorch")
    assert (meta.rank, meta.world_size) == (3, 8)
    assert meta.device_expected
    assert {"host-ops", "device-activity", "runtime-calls", "input", "copy-bytes"} <= meta.signals
    assert "python-stacks" not in meta.signals


def test_meta_of_a_lone_process_has_no_rank():
    meta = read(sample("2020 list")).meta
    assert (meta.rank, meta.world_size) == (NULL, NULL)


def test_fractional_times_are_offset_by_the_base():
    trace = read(sample("2024 fractional"))
    assert trace.slices.start_ns[0] == 1_700_000_000_000_000_000 + 4_242_375


@pytest.mark.parametrize("base", [10**30, -(10**30), 2**62, "soon", None, 1.5])
def test_an_absurd_base_is_no_offset(base):
    record = x("cpu_op", "aten::mm", 5, 7, pid=1, tid=1)
    assert read_records(record, baseTimeNanoseconds=base).slices.start_ns.tolist() == [5000]


def test_device_model_comes_from_the_header():
    trace = read(sample("rocm"))
    assert trace.string(trace.devices.model[0]) == "AMD Radeon Graphics"
    assert trace.string(trace.devices.name[0]) == "GPU:2"
    assert read(sample("2020 list")).devices.model.tolist() == [NULL]


def test_a_copy_without_a_size_has_none():
    spelling = NEW.__class__(copy_args={})
    trace = read(dump(run(spelling), spelling.header))
    (gpu,) = Facts(trace).totals
    assert gpu.h2d_bytes is None
    assert "copy-bytes" not in trace.meta.signals


def test_pageable_and_direction_of_copies():
    def copy(name, at):
        args = {"device": 0, "stream": 7}
        return x("gpu_memcpy", name, at, at + 1, pid=0, tid=7, args=args)

    trace = read_records(
        copy("Memcpy HtoD (Pageable -> Device)", 0),
        copy("Memcpy HtoD (Pinned -> Device)", 1),
        copy("Memcpy DtoH (Device -> Pinned)", 2),
        copy("Memcpy DtoD (Device -> Device)", 3),
        copy("Memcpy PtoP (Device -> Device)", 4),
        copy("CopyDeviceToHost", 5),
        copy("Memcpy", 6),
    )
    assert trace.slices.kind.tolist() == [Kind.MEMCPY] * 7
    assert trace.slices.copy.tolist() == [
        Copy.H2D, Copy.H2D, Copy.D2H, Copy.D2D, Copy.PEER, Copy.D2H, Copy.NONE,
    ]  # fmt: skip
    assert trace.slices.pageable.tolist() == [1, 0, 0, -1, -1, -1, -1]


@pytest.mark.parametrize(
    ("name", "kind", "copy"),
    [
        ("__amd_rocclr_copyBuffer.kd", Kind.MEMCPY, Copy.D2D),
        ("__amd_rocclr_copyBufferRectAligned", Kind.MEMCPY, Copy.D2D),
        ("__amd_rocclr_fillBufferAligned.kd", Kind.MEMSET, Copy.NONE),
        ("__amd_rocclr_streamOpsWait", Kind.KERNEL, Copy.NONE),
    ],
)
def test_kernels_of_rocm_that_copy_and_fill(name, kind, copy):
    kernel = x("kernel", name, 0, 1, pid=0, tid=7, args={"device": 0, "stream": 7})
    trace = read_records(kernel)
    assert (trace.slices.kind.tolist(), trace.slices.copy.tolist()) == ([kind], [copy])


# --- what a generation has besides ---------------------------------------------------------------


def test_allocations_of_2021_have_no_totals():
    instants = [
        {"ph": "i", "name": "[memory]", "ts": 5, "pid": 1, "tid": 1,
         "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512}},
        {"ph": "i", "name": "[memory]", "ts": 6, "pid": 1, "tid": 1,
         "args": {"Device Type": 0, "Bytes": -512, "Addr": 77, "Total Allocated": 512}},
        {"ph": "i", "name": "[memory]", "ts": 6, "pid": 1, "tid": 1, "args": {"Device Type": 1}},
        {"ph": "i", "name": "Record Window End", "ts": 7},
    ]  # fmt: skip
    trace = read(dump([*run(NEW), *instants], NEW.header))
    counted = {c.counter: c.count for c in trace.health.counters if c.dropped}
    assert counted == {"metadata-record": 1, "allocation-without-size": 1, "other-record": 1}
    assert len(trace.counters) == 0
    table = trace.allocations
    assert [trace.string(n) for n in table.pool] == ["GPU:0", "CPU"]
    assert (table.host.tolist(), table.change.tolist()) == ([0, 1], [512, -512])
    assert (table.block.tolist(), table.total.tolist()) == ([-1, 77], [-1, -1])
    assert "memory" in trace.meta.signals


def test_the_memory_of_equal_devices_is_read_where_allocations_are():
    instant = {"ph": "i", "name": "[memory]", "ts": 5, "pid": 1, "tid": 1,
               "args": {"Device Type": 1, "Bytes": 512}}  # fmt: skip
    devices = [{"id": i, "totalGlobalMem": 1 << 34} for i in range(2)]
    header = {**NEW.header, "deviceProperties": devices}
    trace = read(dump([*run(NEW), instant], header))
    assert (trace.string(trace.counters.name[0]), trace.counters.value.tolist()) == (
        "memory capacity", [1 << 34],
    )  # fmt: skip
    assert len(read(dump(run(NEW), header)).counters) == 0
    unlike = {**header, "deviceProperties": [*devices, {"totalGlobalMem": 1 << 30}]}
    assert len(read(dump([*run(NEW), instant], unlike)).counters) == 0


def test_allocator_totals_become_counters():
    def instant(ts, allocated, reserved):
        args = {"Device Type": 1, "Total Allocated": allocated, "Total Reserved": reserved}
        return {"ph": "i", "name": "[memory]", "ts": ts, "pid": 1, "tid": 1, "args": args}

    trace = read(dump([*run(NEW), instant(20, 300, 512), instant(10, 0, 512)], NEW.header))
    rows = [
        (int(t), trace.string(n), int(v))
        for t, n, v in zip(
            trace.counters.time_ns, trace.counters.name, trace.counters.value, strict=True
        )
    ]
    assert rows == [
        (10_000, "memory allocated", 0),
        (10_000, "memory reserved", 512),
        (20_000, "memory allocated", 300),
        (20_000, "memory reserved", 512),
    ]
    assert "memory" in trace.meta.signals


def test_rows_of_2022_that_repeat_or_link_others_change_no_number():
    base = NEW.base_us
    step = x("gpu_user_annotation", "ProfilerStep#2", base, base + 9000, pid=0, tid=7)
    step["args"] = {"device": 0, "stream": 7}
    arrows = [
        {"ph": phase, "cat": cat, "id": 1, "name": cat, "ts": base, "pid": 100, "tid": 1}
        for phase, cat in [("s", "fwdbwd"), ("f", "fwdbwd"), ("s", "ac2g"), ("f", "ac2g")]
    ]
    wait = x("cuda_sync", "Stream Wait Event", base + 100, base + 200, pid=0, tid=7)
    wait["args"] = {"device": 0, "stream": 7}
    span = x("Trace", "PyTorch Profiler (0)", base, base + 30_000, pid="Spans", tid="PyTorch")
    trace = read(dump([*run(NEW), step, wait, span, *arrows], NEW.header))
    assert Facts(trace).breakdown == Facts(read(sample("2022 categories"))).breakdown
    assert Facts(trace).steps.durations_ns.tolist() == [STEP_US * 1000] * STEPS
    counted = {c.counter: c.count for c in trace.health.counters}
    assert counted == {"metadata-record": 1, "flow-arrow": 4, "profiler-span": 1}


def test_python_stacks_explain_silence_and_name_their_line():
    spelling, base = NEW, NEW.base_us
    line = "/home/someone/project/model/train.py(42): compute_mask"
    frame = x("python_function", line, base + 7750, base + 8950, pid=100, tid=1)
    trace = read(dump([*run(spelling), frame], spelling.header))
    row = trace.rows(Kind.PYTHON)[0]
    assert trace.string(trace.slices.source[row]) == "project/model/train.py(42): compute_mask"
    assert "python-stacks" in trace.meta.signals
    per_step = Facts(trace).per_step
    quiet = Facts(read(sample("2022 categories"))).per_step
    # The frame takes 1200 µs of the long silence; what is left around it is short: Python too.
    moved = (per_step - quiet)[0]
    assert moved.sum() == 0
    assert np.abs(moved).max() >= 1_200_000


@pytest.mark.parametrize(
    "path", ["/home/someone/train.py", "/root/train.py", "/Users/someone/train.py", "train.py"]
)
def test_home_folders_are_left_out_of_source_lines(path):
    trace = read_records(x("python_function", f"{path}(3): main", 0, 5, pid=1, tid=1))
    assert names(trace, Kind.PYTHON) == ["train.py(3): main"]


def test_call_stack_of_an_operation_names_the_users_own_frame():
    stack = (
        "torch/nn/functional.py(100): linear;/usr/lib/site-packages/lib/x.py(1): f;"
        "/data/someone/project/net/model.py(7): forward;train.py(3): main"
    )
    args = {"Call stack": stack}
    trace = read_records(x("cpu_op", "aten::linear", 0, 5, pid=1, tid=1, args=args))
    assert trace.string(trace.slices.source[0]) == "project/net/model.py(7): forward"


def test_addresses_do_not_make_every_call_unique():
    calls = [
        x("python_function", f"<built-in method f of X object at 0x7f{i}>", i, i + 1, pid=1, tid=1)
        for i in range(3)
    ]
    assert set(names(read_records(*calls), Kind.PYTHON)) == {"<built-in method f of X object>"}


def test_a_trace_stripped_of_its_device_rows_cannot_tell():
    records = [r for r in run(NEW) if r.get("cat") not in {"kernel", "gpu_memcpy"}]
    trace = read(dump(records, {"schemaVersion": 1}))
    facts = Facts(trace)
    assert trace.meta.device_expected
    assert facts.activities == []
    assert facts.totals == []
    verdict = decide(facts)
    assert (verdict.bound_by, verdict.confidence) == ("unknown", 0.0)
    assert verdict.reason == Gap(Lack.DEVICE_ACTIVITY)
    assert facts.breakdown["compute"] == 0


def test_launches_on_a_known_device_without_any_kernel_are_reported():
    records = [r for r in run(NEW) if r.get("cat") not in {"kernel", "gpu_memcpy"}]
    header = {"schemaVersion": 1, "deviceProperties": [{"name": "NVIDIA H100"}]}
    trace = read(dump(records, header))
    assert trace.health.has("kernels-missing")
    assert decide(Facts(trace)).reason == Gap(Lack.KERNELS)
    assert not read(dump(run(NEW), header)).health.has("kernels-missing")


def test_range_profiler_kernels_are_counted_and_the_verdict_abstains():
    ranges = [
        x("cuda_profiler_range", "volta_sgemm", i * 100, i * 100 + 99, pid=0, tid=0)
        for i in range(5)
    ]
    host = [r for r in run(NEW) if r.get("cat") in {"cpu_op", "user_annotation"}]
    trace = read(dump([*host, *ranges], {"schemaVersion": 1}))
    assert {c.counter: c.count for c in trace.health.counters}["profiler-range"] == 5
    assert trace.meta.device_expected
    assert len(trace.meta.notes) == 1
    assert decide(Facts(trace)).bound_by == "unknown"


def test_another_accelerator_is_a_device_with_its_own_name():
    records = [
        x("mtia_runtime", "runtimeLaunch", 0, 5, pid=1, tid=1),
        x("mtia_ccp_events", "fc_kernel", 10, 30, pid=0, tid=4, args={"device": 0}),
        x("mtia_ccp_events", "dma_in", 30, 40, pid=0, tid=5, args={"device": 0}),
        x("mtia_ccp_events", "semaphore_wait", 40, 90, pid=0, tid=5, args={"device": 0}),
        x("cpu_op", "aten::linear", 0, 9, pid=1, tid=1),
    ]
    trace = read_records(*records)
    (device,) = Facts(trace).totals
    assert device.name == "MTIA:0"
    assert trace.devices.kind.tolist() == [DeviceKind.OTHER]
    assert (device.kernels, device.kernel_ns, device.busy_ns) == (1, 20_000, 30_000)


def test_copies_of_an_xpu_have_directions():
    where = {"pid": 0, "tid": 7, "args": {"device": 0, "sycl queue": 64, "bytes": 8}}
    names = ("M2D (MEMORY(Unknown) -> DEVICE)", "D2M (DEVICE -> MEMORY(Unknown))", "H2D", "D2H")
    copies = [
        x("gpu_memcpy", f"Memcpy {n}", 9 * i, 9 * i + 9, **where) for i, n in enumerate(names)
    ]
    copied = read_records(x("cpu_op", "aten::copy_", 0, 5, pid=1, tid=1), *copies)
    rows = copied.rows(Kind.MEMCPY)
    assert copied.slices.copy[rows].tolist() == [Copy.H2D, Copy.D2H, Copy.H2D, Copy.D2H]
    assert copied.slices.pageable[rows].tolist() == [1, 1, -1, -1]


def test_an_xpus_wait_lies_on_its_thread_although_its_process_is_not_told():
    trace = read_records(
        x("cpu_op", "aten::item", 0, 90, pid=500, tid=501),
        x("xpu_sync", "zeEventHostSynchronize", 10, 80, pid=-1, tid=501),
        x("xpu_sync", "zeEventHostSynchronize", 10, 80, pid=-1, tid=777),
    )
    assert trace.slices.track.tolist() == [0, 0, 1]


def test_a_call_of_oneccl_is_no_device():
    records = [
        x("cpu_op", "c10d::allreduce_", 0, 50, pid=500, tid=500),
        x("collective_comm", "xccl::allreduce", 10, 30, pid=500, tid=500),
        x("kernel", "gemm_kernel", 20, 90, pid=0, tid=64, args={"device": 0}),
    ]
    trace = read_records(*records)
    assert [device.name for device in Facts(trace).totals] == ["GPU:0"]
    (row,) = trace.rows(Kind.COLLECTIVE)
    assert trace.tracks.role[trace.slices.track[row]] == Role.HOST_THREAD


@pytest.mark.parametrize(
    ("types", "shapes", "size"),
    [
        (["float"], [[128, 10]], 5120),
        (["float"], [[]], 4),
        (["long int", "c10::BFloat16"], [[3], [2, 2]], 32),
        (["float"], [[-1]], NULL),
        (["TensorList"], [[[3]]], NULL),
        (["float"], [], NULL),
        ("float", 7, NULL),
    ],
)
def test_collectives_of_gloo_have_the_bytes_of_their_tensors(types, shapes, size):
    recorded = {"Input type": types, "Input Dims": shapes}
    trace = read_records(x("user_annotation", "gloo:all_reduce", 10, 30, args=recorded))
    assert trace.slices.bytes[trace.rows(Kind.COLLECTIVE)].tolist() == [size]


def test_a_profile_of_paddle():
    def record(category, name, start_us, dur_us, language="C++", **more):
        written = f"{name}[{dur_us / 1000:.3f} ms]"
        where = {"pid": 7, "tid": f"7({language})", **more}
        return {**x(category, written, start_us, start_us + dur_us), **where}

    records = []
    for step in range(3):
        at = 1000 * step
        records += [
            record("ProfileStep", f"ProfileStep#{step}", at, 990, "Python"),
            record("Dataloader", "MultiProcessDataLoader", at, 200, "Python"),
            record("Forward", "Linear", at + 200, 300, "Python"),
            record("Operator", "matmul dygraph", at + 210, 280),
            record("DygraphKernelLaunch", "matmul kernel launch", at + 220, 260),
            record("Backward", "Gradient Backward", at + 500, 400, "Python"),
            record("UserDefined", "backward", at + 500, 400),
            record("Operator", "matmul_grad dygraph", at + 500, 400),
        ]
    trace = read_records(*records, span_index="0")
    facts = Facts(trace)
    assert trace.meta.framework == "paddle"
    assert len(trace.tracks) == 1
    assert names(trace, Kind.STEP) == [f"ProfileStep#{step}" for step in range(3)]
    assert names(trace, Kind.INPUT) == ["MultiProcessDataLoader"] * 3
    assert (facts.breakdown["compute"], facts.breakdown["input_wait"]) == (680_000, 200_000)


def test_a_cuda_call_of_paddle_launches():
    assert kind_of("CudaRuntime", "cudaLaunchKernel[0.012 ms]") is Kind.LAUNCH


@pytest.mark.parametrize(
    ("category", "device"),
    [("mlu_runtime", "MLU:0"), ("gcu_runtime", "GCU:0"), ("hpu_op", "HPU:0"), ("Runtime", "GPU:0")],
)
def test_accelerators_are_called_by_their_names(category, device):
    trace = read_records(
        x(category, "cnInvokeKernel", 0, 5, pid=1, tid=1),
        x("kernel", "gemm", 10, 30, pid=0, tid=4, args={"device": 0}),
    )
    assert [d.name for d in Facts(trace).totals] == [device]


def test_ranks_merged_into_one_file_keep_their_own_device():
    def kernel(row, at):
        args = {"device": 0, "stream": 7, "correlation": at}
        return x("kernel", "k", at, at + 5, pid=row, tid=7, args=args)

    trace = read_records(kernel(0, 0), kernel(1, 2), kernel(0, 10))
    totals = Facts(trace).totals
    assert [(t.name, t.kernels) for t in totals] == [("GPU:0", 2), ("GPU:0 (row 1)", 1)]


def test_threads_with_names_instead_of_numbers_are_told_apart():
    trace = read_records(
        x("cpu_op", "a", 0, 10, pid=1, tid="main"), x("cpu_op", "b", 5, 15, pid=1, tid="worker")
    )
    assert [trace.string(n) for n in trace.tracks.name] == ["thread main", "thread worker"]
    assert Facts(trace).nesting.parent.tolist() == [NULL, NULL]


# --- what a record is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", Kind.LAUNCH),
        ("cudaLaunchKernelExC", Kind.LAUNCH),
        ("cuLaunchKernelEx", Kind.LAUNCH),
        ("hipModuleLaunchKernel", Kind.LAUNCH),
        ("hipExtModuleLaunchKernel", Kind.LAUNCH),
        ("cudaGraphLaunch", Kind.LAUNCH),
        ("cudaMemcpyAsync", Kind.LAUNCH),
        ("hipMemcpyDtoHAsync", Kind.LAUNCH),
        ("cuMemcpyHtoDAsync_v2", Kind.LAUNCH),
        ("cudaMemsetAsync", Kind.LAUNCH),
        ("cudaMemcpy", Kind.SYNC),
        ("hipMemcpy", Kind.SYNC),
        ("hipMemcpyWithStream", Kind.SYNC),
        ("cudaMemcpy2D", Kind.SYNC),
        ("cuMemcpyDtoH_v2", Kind.SYNC),
        ("cudaDeviceSynchronize", Kind.SYNC),
        ("hipStreamSynchronize", Kind.SYNC),
        ("cudaEventSynchronize", Kind.SYNC),
        ("cuCtxSynchronize", Kind.SYNC),
        ("cudaEventQuery", Kind.RUNTIME),
        ("cudaStreamWaitEvent", Kind.RUNTIME),
        ("cudaMalloc", Kind.RUNTIME),
        ("hipFree", Kind.RUNTIME),
        ("cuModuleLoadData", Kind.COMPILE),
        ("cuLibraryLoadData", Kind.COMPILE),
    ],
)
def test_runtime_calls(name, kind):
    assert kind_of("cuda_runtime", name) is kind
    assert kind_of("Runtime", name) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)", Kind.COLLECTIVE),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", Kind.COLLECTIVE),
        ("ncclDevKernel_Generic(ncclDevComm*)", Kind.COLLECTIVE),
        ("void multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", Kind.COLLECTIVE),
        ("void vllm::cross_device_reduce_1stage<__half, 2>(vllm::RankData*)", Kind.COLLECTIVE),
        ("void at::native::foo<all_reduce_functor>(int)", Kind.KERNEL),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<float>(int)", Kind.COLLECTIVE),
        ("void at::native::(anonymous namespace)::f<all_gather>(int)", Kind.KERNEL),
        ("triton_poi_fused_all_gather_into_tensor_wait_tensor_0", Kind.KERNEL),
        ("void deep_ep::intranode::combine<__nv_bfloat16, 8>(int)", Kind.COLLECTIVE),
        ("Cijk_Ailk_Bljk_SB_MT128x64x8", Kind.KERNEL),
        ("volta_sgemm_128x64_nn", Kind.KERNEL),
    ],
)
def test_kernels(name, kind):
    assert kind_of("kernel", name, args={"device": 0, "stream": 7}) is kind


@pytest.mark.parametrize(
    ("category", "name", "kind"),
    [
        ("user_annotation", "ProfilerStep#12", Kind.STEP),
        ("cpu_op", "_compile.compile_inner (dynamo_timed)", Kind.COMPILE),
        ("cpu_op", "entire_frame_compile", Kind.COMPILE),
        ("Operator", "ProfilerStep#12", Kind.STEP),
        ("user_annotation", "train step 3", Kind.STEP),
        ("user_annotation", "iteration_7", Kind.STEP),
        ("user_annotation", "step into the dark", Kind.ANNOTATION),
        ("cpu_op", "aten::stack", Kind.OP),
        ("cpu_op", "autograd::engine::evaluate_function: MmBackward0", Kind.OP),
        ("cpu_op", "enumerate(DataPipe)#IterDataPipe", Kind.INPUT),
        ("user_annotation", "data_loading", Kind.INPUT),
        ("user_annotation", "fetch_batch", Kind.INPUT),
        ("cpu_op", "mine::get_batch_norm_stats", Kind.OP),
        ("user_annotation", "get_batch_size", Kind.ANNOTATION),
        ("xpu_runtime", "urEventWait", Kind.SYNC),
        ("xpu_runtime", "urEnqueueUSMFill", Kind.LAUNCH),
        ("xpu_sync", "zeEventHostSynchronize", Kind.SYNC),
        ("mlu_runtime", "cnInvokeKernel", Kind.LAUNCH),
        ("mlu_runtime", "cnrtQueueSync", Kind.SYNC),
        ("mlu_user_annotation", "ProfilerStep#3", Kind.DEVICE_ANNOTATION),
        ("GCU_USER_ANNOTATION", "ProfilerStep#3", Kind.DEVICE_ANNOTATION),
        ("user_annotation", "Optimizer.step#Adam.step", Kind.FRAMEWORK),
        ("user_annotation", "DistributedDataParallel.forward", Kind.FRAMEWORK),
        ("user_annotation", "nccl:all_reduce", Kind.FRAMEWORK),
        ("user_annotation", "gloo:all_reduce", Kind.COLLECTIVE),
        ("user_annotation", "## forward ##", Kind.ANNOTATION),
        ("user_annotation", "checkpoint:save", Kind.STORAGE),
        ("user_annotation", "compile_fx (dynamo_timed)", Kind.COMPILE),
        ("collective_comm", "hcclAllReduce", Kind.COLLECTIVE),
        ("overhead", "Activity Buffer Request", Kind.PROFILER),
        ("overhead", "Lazy Function Loading", Kind.COMPILE),
        ("gpu_memset", "Memset (Device)", Kind.MEMSET),
        ("gpu_user_annotation", "## forward ##", Kind.DEVICE_ANNOTATION),
        ("cuda_sync", "Event Sync", Kind.DEVICE_WAIT),
        ("a category of tomorrow", "x", Kind.OTHER),
        ("python_function", "torch/nn/modules/module.py(1501): _call_impl", Kind.FRAMEWORK),
        ("python_function", "/usr/lib/torch/serialization.py(441): save", Kind.STORAGE),
        ("python_function", "torch/_dynamo/convert_frame.py(1): f", Kind.COMPILE),
        ("python_function", "torch/utils/data/dataloader.py(9): __next__", Kind.INPUT),
        ("python_function", "data/mine.py(9): collate_batch", Kind.INPUT),
        ("python_function", "train.py(116): get_batch", Kind.INPUT),
        ("python_function", "train.py(116): get_batch_size", Kind.PYTHON),
        ("python_function", "train.py(9): main", Kind.PYTHON),
        ("python_function", "nn.Module: Linear_0", Kind.FRAMEWORK),
        ("python_function", "<built-in method acquire of _thread.lock object>", Kind.WAIT),
        ("python_function", "<built-in function len>", Kind.PYTHON),
    ],
)  # fmt: skip
def test_categories_and_names(category, name, kind):
    assert kind_of(category, name) is kind


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("## forward ##", Phase.FORWARD),
        ("Backward pass", Phase.BACKWARD),
        ("optimizer", Phase.OPTIMIZER),
        ("forwarding table", Phase.UNKNOWN),
        ("Optimizer.zero_grad#SGD.zero_grad", Phase.OPTIMIZER),
    ],
)
def test_phase_of_annotations(name, phase):
    trace = read_records(x("user_annotation", name, 0, 5, pid=1, tid=1))
    assert trace.slices.phase.tolist() == [phase]


def test_a_forward_thread_marks_a_backward_operation():
    def op(at, forward_thread):
        args = {"Sequence number": 4, "Fwd thread id": forward_thread}
        return x("cpu_op", "aten::mm", at, at + 1, pid=1, tid=1, args=args)

    trace = read_records(op(0, 0), op(1, 1), op(2, "2"))
    assert trace.slices.phase.tolist() == [Phase.UNKNOWN, Phase.BACKWARD, Phase.BACKWARD]
    assert trace.slices.sequence.tolist() == [4, 4, 4]


def test_negative_and_missing_times_are_counted():
    bad = [
        {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": -2, "pid": 1, "tid": 1},
        {"ph": "X", "cat": "cpu_op", "name": "a", "dur": 2, "pid": 1, "tid": 1},
    ]
    trace = read(dump([*run(NEW), *bad], NEW.header))
    assert {c.counter: c.count for c in trace.health.counters}["unusable-time"] == 2
    assert trace.health.events_read == trace.health.events_kept + trace.health.dropped


def test_device_work_without_a_time_is_counted():
    late = 1_615_207_264_505_000
    work = {"pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    trace = read_records(
        x("cpu_op", "aten::mm", late, late + 9, pid=1, tid=1),
        x("kernel", "gemm", 0, 0, **work),
        x("kernel", "gemm", late + 5, late + 8, **work),
    )
    assert trace.slices.start_ns.tolist() == [1000 * late, 1000 * (late + 5)]
    counted = {c.counter: c.count for c in trace.health.counters}
    assert counted["unusable-time"] == 1


def stream_of(first_ends, others, *, launch=None, stream=7):
    """A kernel at 0, and others of 100 us each behind it."""
    where = {"pid": 0, "tid": stream}
    args = {"device": 0, "stream": stream}
    kernels = [x("kernel", "first", 0, first_ends, args=args | {"correlation": 1}, **where)]
    for i in range(others):
        numbered = args | {"correlation": launch or i + 2}
        at = 1000 + 100 * i
        kernels.append(x("kernel", "gemm", at, at + 100, args=numbered, **where))
    return kernels


@pytest.mark.parametrize(
    ("kernels", "first_ends", "cut"),
    [
        (stream_of(50_000, 9), 1000, 1),
        (stream_of(50_000, 7), 50_000, 0),  # too few to be sure
        (stream_of(50_000, 9, launch=1), 50_000, 0),  # branches of one graph
        (stream_of(9_000, 9), 9_000, 0),
        (stream_of(900, 9), 900, 0),
    ],
)
def test_device_work_ends_where_what_ran_after_it_begins(kernels, first_ends, cut):
    trace = read_records(x("cpu_op", "aten::mm", 0, 9, pid=1, tid=1), *kernels)
    (first,) = trace.slices.dur_ns[trace.slices.name == trace.strings.index("first")]
    assert first == 1000 * first_ends
    assert {c.counter: c.count for c in trace.health.counters}.get("late-end", 0) == cut


def test_work_of_another_stream_ends_nothing():
    long, *others = stream_of(50_000, 9)
    beside = [{**other, "tid": 8, "args": {**other["args"], "stream": 8}} for other in others]
    trace = read_records(x("cpu_op", "aten::mm", 0, 9, pid=1, tid=1), long, *beside)
    assert trace.slices.dur_ns.max() == 50_000_000


def test_records_without_slices_are_no_kineto_trace():
    records = [{"ph": "i", "cat": "cpu_op", "name": "ProfilerStep#1", "ts": 1}]
    assert kineto.read(Source(dump(records, {}), "x")) is None


def test_chrome_traces_of_others_are_not_recognised():
    record = {"ph": "X", "cat": "Op", "name": "MatMul", "ts": 1, "dur": 1}
    assert not kineto.recognise(Source(dump([record], {}), "x"))
    assert not kineto.recognise(Source(b'"cat": "cpu_op"', "x"))


@pytest.mark.parametrize(
    ("written", "read_as"),
    [(7, 7), ("7", 7), (7.9, 7), ("seven", NULL), (2**63, NULL), ("1e99", NULL), (None, NULL)],
)
def test_numbers_are_read_loosely(written, read_as):
    args = {"correlation": written}
    trace = read_records(x("cpu_op", "a", 0, 1, pid=1, tid=1, args=args))
    assert trace.slices.correlation.tolist() == [read_as]


# --- damage --------------------------------------------------------------------------------------


def test_a_cut_file_says_so():
    data = sample("2022 categories")
    trace = read(data[: len(data) // 2])
    assert trace.health.has("json-truncated")
    assert any("cut off" in note for note in trace.meta.notes)
    assert 0 < len(trace.slices) < 17 * STEPS


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_mutated_files_are_read_or_refused_and_always_closed(data):
    raw = bytearray(sample(data.draw(st.sampled_from(list(GENERATIONS)))))
    for _ in range(data.draw(st.integers(1, 12))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(
            st.sampled_from(b'0123456789-e."{}[],:\\u\xff\x00') | st.integers(0, 255)
        )
    source = Source(bytes(raw), "x")
    if not kineto.recognise(source):
        return
    try:
        trace = kineto.read(source)
    except StepwhyError:
        return
    if trace is None:
        return
    facts = Facts(trace)
    assert (facts.per_step.sum(axis=1) == facts.steps.durations_ns).all()
    assert (facts.per_step >= 0).all()
    assert verdict_sentence(decide(facts).reason)
    json.dumps(strings_of(trace)).encode()


def test_an_odd_argument_loses_no_record():
    data = json.loads(sample("2022 categories"))
    for event in data["traceEvents"]:
        if event.get("cat") == "kernel":
            event["args"]["bytes"] = [1, 2]
    trace = read(json.dumps(data).encode())
    assert not trace.health.has("malformed-record")
    assert len(trace.rows(Kind.KERNEL)) == len(read(sample("2022 categories")).rows(Kind.KERNEL))


def test_a_list_for_a_stream_or_device_is_no_number():
    data = json.loads(sample("2022 categories"))
    for event in data["traceEvents"]:
        if event.get("cat") == "kernel":
            event["args"] |= {"stream": [7], "device": {"index": 0}}
    trace = read(json.dumps(data).encode())
    assert len(trace.rows(Kind.KERNEL)) == 3 * STEPS


@pytest.mark.parametrize("filler", [{"ph": "s", "cat": "fwdbwd"}, {"ph": "M", "name": "x"}])
def test_a_head_full_of_arrows_or_names_is_recognised(filler):
    data = json.loads(sample("2022 categories"))
    data["traceEvents"] = [filler] * 5000 + data["traceEvents"]
    assert len(read(json.dumps(data).encode()).slices) > 0


@pytest.mark.parametrize(
    "hint",
    [
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 1, "tid": 1, "ts": 1},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7 7"}},
    ],
)
def test_traces_of_a_device_whose_rows_are_gone_expect_one(hint):
    record = x("cpu_op", "aten::mm", 0, 5, pid=1, tid=1)
    assert read_records(record, hint).meta.device_expected
    assert not read_records(record).meta.device_expected


@pytest.mark.parametrize(
    "name",
    [
        "aten::cudnn_is_acceptable",
        "aten::_use_cudnn_rnn_flatten_weight",
        "aten::pin_memory",
        "aten::_pin_memory",
        "aten::is_pinned",
        "aten::_fused_adam_",
        "Optimizer.step#cuda_graph_wrapper.step",
    ],
)
def test_operations_that_a_cpu_runs_as_well_expect_no_device(name):
    category = "cpu_op" if name.startswith("aten") else "user_annotation"
    assert not read_records(x(category, name, 0, 5, pid=1, tid=1)).meta.device_expected


@pytest.mark.parametrize(
    "name",
    ["nccl:all_to_all", "aten::cudnn_convolution", "aten::_cudnn_rnn", "aten::record_stream"],
)
def test_operations_that_no_cpu_runs_expect_a_device(name):
    assert read_records(x("cpu_op", name, 0, 5, pid=1, tid=1)).meta.device_expected


@pytest.mark.parametrize(
    ("call", "is_expected"),
    [
        # The profiler makes these calls on a machine with a GPU that the model does not use.
        ("cudaDeviceSynchronize", False),
        ("cudaGetDeviceCount", False),
        ("cudaStreamSynchronize", True),
        ("cudaMemcpy", True),
        ("cudaLaunchKernel", True),
    ],
)
def test_calls_that_prove_device_work(call, is_expected):
    records = (
        x("cpu_op", "aten::addmm", 0, 50, pid=1, tid=1),
        x("cuda_runtime", call, 60, 65, pid=1, tid=1),
        {"ph": "f", "id": 1, "pid": 1, "tid": 1, "ts": 60, "cat": "ac2g", "name": "ac2g"},
    )
    assert read_records(*records).meta.device_expected is is_expected


_GPU = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}


def _large(name, seconds, *, size=3_000_000_000):
    """An operation on a tensor of 12 GB."""
    args = {"Input type": ["float", "Scalar"], "Input Dims": [[size], []]}
    return x("cpu_op", name, 0, seconds * 1e6, pid=1, tid=1, args=args)


@pytest.mark.parametrize(
    "operation",
    [_large("aten::mul", 1.3), x("cpu_op", "aten::mkldnn_convolution", 0, 5000, pid=1, tid=1)],
)
def test_operations_that_compute_on_the_host_leave_a_named_accelerator_idle(operation):
    trace = read(dump([operation], _GPU))
    assert (trace.meta.device_expected, trace.meta.idle_accelerator) == (
        False,
        _GPU["deviceProperties"][0]["name"],
    )
    assert examine(idle_accelerator, Facts(trace)).verdict == "found"


@pytest.mark.parametrize(
    "operation",
    [
        _large("aten::mul", 20e-6),  # no memory is that fast
        _large("aten::copy_", 1.3),  # may wait for the device
        _large("aten::mul", 1.3, size=3_000),
        x("cpu_op", "aten::mul", 0, 5000, pid=1, tid=1),
    ],
)
def test_a_named_accelerator_may_have_been_used(operation):
    trace = read(dump([operation], _GPU))
    assert trace.meta.device_expected
    assert decide(Facts(trace)).reason == Gap(Lack.DEVICE_USE)
    assert examine(idle_accelerator, Facts(trace)).verdict == "no_data"


def test_processes_with_names_instead_of_numbers_are_told_apart():
    trace = read_records(
        x("cpu_op", "a", 0, 10, pid="rank 0", tid=1), x("cpu_op", "b", 5, 15, pid="rank 1", tid=1)
    )
    assert len(set(trace.tracks.process.tolist())) == len(trace.tracks) == 2


def operands(trace):
    """Name, types and shapes of the operations whose arguments were recorded."""
    rows = zip(trace.operands.slice, trace.operands.types, trace.operands.shapes, strict=True)
    names = trace.slices.name
    return [tuple(map(trace.string, (names[row], *texts))) for row, *texts in rows]


def described(name, start, types, dims):
    args = {"Input type": types, "Input Dims": dims}
    return x("cpu_op", name, start, start + 1, pid=1, tid=1, args=args)


def test_types_and_shapes_of_arguments():
    trace = read_records(
        described("aten::mul", 0, ["float", "double"], [[8, 3], []]),
        described("aten::to", 2, ["long int", "Scalar", "", "Rare"], [[4], [], [], [2]]),
        described("aten::cat", 4, ["TensorList"], [[[2, 3], [4, 3]]]),
        x("cpu_op", "aten::add", 6, 7, pid=1, tid=1),
    )
    assert operands(trace) == [
        ("aten::mul", "float32,float64", "8x3,"),
        ("aten::to", "int64,,,", "4,,,2"),
        ("aten::cat", "", "2x3+4x3"),
    ]


def test_damaged_types_and_shapes_are_null():
    trace = read_records(described("aten::mul", 0, {"a": 1}, 5))
    assert operands(trace) == [("aten::mul", "", "")]
    assert trace.operands.types.tolist() == [NULL]


def test_arguments_are_not_searched_for_where_none_is_recorded():
    plain = [x("cpu_op", "aten::add", i, i + 1, pid=1, tid=1) for i in range(1, 300)]
    late = described("aten::mul", 400, ["float"], [[8]])
    assert operands(read_records(*plain, late)) == []
    early = described("aten::mul", 0, ["float"], [[8]])
    assert len(operands(read_records(early, *plain, late))) == 2
