"""rocprofv3 results: records of every domain, and what becomes of damaged files."""

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.rocprof_samples import (
    CPU,
    GPU,
    OTHER_GPU,
    T0,
    copy,
    kernel,
    process,
    record,
    results,
)

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import CorruptInputError, StepwhyError
from stepwhy.read.formats.rocprof import reader as rocprof
from stepwhy.read.inputs.source import Source
from stepwhy.trace import NULL, Copy, Kind, Role
from stepwhy.trace.integrity import check


def read(data):
    source = Source(data, "sample")
    assert rocprof.recognise(source)
    trace = rocprof.read(source)
    check(trace)
    return trace


def slices(trace):
    """(track, kind, name, start and duration in ns) of every slice."""
    return [
        (
            trace.string(trace.tracks.name[trace.slices.track[i]]),
            Kind(trace.slices.kind[i]).name,
            trace.string(trace.slices.name[i]),
            int(trace.slices.start_ns[i]) - T0,
            int(trace.slices.dur_ns[i]),
        )
        for i in range(len(trace.slices))
    ]


def counters(trace):
    return {c.counter: c.count for c in trace.health.counters}


def devices(trace):
    return [trace.string(n) for n in trace.devices.name]


KERNELS = {
    "kernel_dispatch": [
        kernel(1, 0, 100),
        kernel(2, 50, 200, queue=18),
        kernel(3, 300, 7),
        kernel(99, 400, 1),
    ]
}


def test_kernels_lie_on_the_queues_of_their_gpu_with_their_names():
    trace = read(results(process(KERNELS)))
    name = "void at::native::elementwise_kernel<128, 2>(int)"
    rccl = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
    assert slices(trace) == [
        ("queue 16", "KERNEL", name, 0, 100),
        ("queue 18", "COLLECTIVE", rccl, 50, 200),
        ("queue 16", "KERNEL", "Cijk_Alik_Bljk_BBS", 300, 7),
        ("queue 16", "KERNEL", "kernel 99", 400, 1),
    ]
    assert devices(trace) == ["GPU:0"]
    assert trace.string(trace.devices.model[0]) == "AMD Instinct MI350X"
    assert trace.tracks.process.tolist() == [908, 908]
    assert trace.health.events_read == trace.health.events_kept == 4


def test_times_are_exact_to_the_nanosecond():
    trace = read(results(process({"kernel_dispatch": [kernel(1, 3, 5)]})))
    assert trace.slices.start_ns.tolist() == [T0 + 3]
    assert T0 > 2**53  # no float holds it


def test_totals_of_the_device_are_unions():
    (totals,) = Facts(read(results(process(KERNELS)))).totals
    assert (totals.busy_ns, totals.communication_ns) == (258, 200)
    assert totals.exposed_communication_ns == 150
    assert (totals.kernel_ns, totals.kernels) == (308, 4)


def test_streams_are_the_tracks_where_they_were_traced():
    records = [kernel(1, 0, 5, stream=567), kernel(1, 9, 5, stream=2, queue=19)]
    trace = read(results(process({"kernel_dispatch": records})))
    assert [s[0] for s in slices(trace)] == ["stream 567", "stream 2"]


def test_a_call_and_its_kernel_share_a_correlation_id():
    buffers = {
        "hip_api": [
            record("hipLaunchKernel", 0, 10, 7),
            record("hipDeviceSynchronize", 20, 30, 8),
            record("hipMalloc", 60, 5, 9),
        ],
        "kernel_dispatch": [kernel(1, 15, 30, correlation=7)],
    }
    trace = read(results(process(buffers)))
    assert slices(trace)[0][:3] == ("thread 908", "LAUNCH", "hipLaunchKernel")
    assert [s[1] for s in slices(trace)] == ["LAUNCH", "KERNEL", "SYNC", "RUNTIME"]
    assert trace.slices.correlation.tolist() == [7, 7, 8, 9]
    launches = Facts(trace).launches
    assert launches.call_row.tolist() == [0]
    assert trace.meta.signals == {"device-activity", "runtime-calls"}
    assert trace.meta.notes == ()


def test_calls_of_hsa_and_rccl_wait_launch_or_neither():
    buffers = {
        "hsa_api": [
            record("hsa_signal_wait_scacquire", 0, 5),
            record("hsa_amd_memory_async_copy_on_engine", 10, 5),
            record("hsa_init", 20, 5),
        ],
        "rccl_api": [record("ncclAllReduce", 30, 5), record("ncclCommInitRank", 40, 5)],
        "rocdecode_api": [record("hsa_init", 50, 5)],
    }
    kinds = [s[1] for s in slices(read(results(process(buffers))))]
    assert kinds == ["SYNC", "LAUNCH", "RUNTIME", "LAUNCH", "RUNTIME", "RUNTIME"]


def test_ranges_of_roctx_are_what_their_names_say():
    buffers = {
        "marker_api": [
            record("roctxRangePushA", 0, 100, 1),
            record("roctxRangePushA", 10, 20, 2),
            record("roctxRangePushA", 40, 20, 3),
            record("roctxMarkA", 70, 0, 4),
            record("roctxRangePushA", 80, 5, 5),
        ],
        "kernel_dispatch": [kernel(1, 50, 5)],
    }
    messages = {1: "step 3", 2: "load_batch", 3: "aten::mm, seq = 12, op_id = 7", 4: "here"}
    trace = read(results(process(buffers, messages=messages)))
    assert [s[1:3] for s in slices(trace) if s[0] == "thread 908"] == [
        ("STEP", "step 3"),
        ("INPUT", "load_batch"),
        ("OP", "aten::mm"),
        ("ANNOTATION", "roctxRangePushA"),
    ]
    assert trace.slices.sequence.tolist() == [NULL, NULL, 12, NULL, NULL]
    assert counters(trace) == {"instant-mark": 1}
    assert Facts(trace).steps.source == "marker"
    assert trace.meta.signals == {"device-activity", "input", "host-ops"}


def test_ranges_that_repeat_and_cover_the_loop_are_its_steps():
    loop = [record("roctxRangePushA", 100 * i, 90, i + 1) for i in range(3)]
    parts = [record("roctxRangePushA", 100 * i, 20, i + 4) for i in range(3)]
    names = {i: "iteration" if i < 4 else "step" for i in range(1, 7)}
    trace = read(results(process({"marker_api": [*loop, *parts]}, messages=names)))
    kinds = {s[1:3] for s in slices(trace)}
    assert kinds == {("STEP", "iteration"), ("ANNOTATION", "step")}


def test_ranges_of_the_process_need_not_nest():
    buffers = {
        "marker_api": [
            record("roctxRangePushA", 0, 100, 1),
            record("roctxRangeStartA", 50, 100, 2),
        ]
    }
    trace = read(results(process(buffers, messages={1: "one", 2: "other"})))
    assert [s[0] for s in slices(trace)] == ["thread 908", "ranges of the process"]


def test_kernels_that_copy_and_fill_are_work_of_their_device():
    records = [kernel(4, 0, 10), kernel(5, 10, 30), kernel(1, 50, 5)]
    trace = read(results(process({"kernel_dispatch": records})))
    assert [s[1] for s in slices(trace)] == ["MEMSET", "MEMCPY", "KERNEL"]
    assert [Copy(c).name for c in trace.slices.copy] == ["NONE", "D2D", "NONE"]
    (activity,) = Facts(trace).activities
    assert (activity.compute.total_ns, activity.transfer.total_ns) == (45, 0)


def test_a_kernel_that_copies_takes_its_direction_from_its_call():
    calls = [record("hipMemcpyHtoDAsync", 0, 5, 7), record("hipMemcpyAsync", 6, 5, 8)]
    kernels = [kernel(5, 10, 30, correlation=7), kernel(5, 50, 30, correlation=8)]
    trace = read(results(process({"kernel_dispatch": kernels, "hip_api": calls})))
    assert [Copy(c).name for c in trace.slices.copy] == ["NONE", "NONE", "H2D", "D2D"]
    (activity,) = Facts(trace).activities
    assert (activity.compute.total_ns, activity.transfer.total_ns) == (30, 30)


def test_copies_have_a_direction_a_size_and_a_gpu():
    buffers = {
        "memory_copy": [
            copy("HOST_TO_DEVICE", 0, 10, CPU, GPU, size=1000),
            copy("DEVICE_TO_HOST", 20, 10, OTHER_GPU, CPU, size=0),
            copy("DEVICE_TO_DEVICE", 40, 10, GPU, GPU),
            copy("DEVICE_TO_DEVICE", 60, 10, GPU, OTHER_GPU),
            copy("NONE", 80, 10, CPU, GPU),
            copy("HOST_TO_HOST", 100, 10, CPU, CPU),
        ]
    }
    trace = read(results(process(buffers)))
    assert [Copy(c).name for c in trace.slices.copy] == ["H2D", "D2H", "D2D", "PEER", "H2D"]
    assert trace.slices.bytes.tolist() == [1000, NULL, 4096, 4096, 4096]
    where = trace.tracks.device[trace.slices.track].tolist()
    assert [devices(trace)[d] for d in where] == ["GPU:0", "GPU:1", "GPU:0", "GPU:1", "GPU:0"]
    assert counters(trace) == {"host-copy": 1}
    assert "copy-bytes" in trace.meta.signals


def test_what_has_no_time_or_says_nothing_about_it_is_counted():
    buffers = {
        "kernel_dispatch": [
            kernel(1, 0, 5),
            {**kernel(1, 0, 5), "start_timestamp": 0},
            {**kernel(1, 0, 5), "end_timestamp": T0 - 1},
            {**kernel(1, 0, 5), "end_timestamp": 2**64 - 1},
            {**kernel(1, 0, 5), "start_timestamp": "soon"},
        ],
        "memory_allocation": [record("hipMalloc", 0, 5)],
        "scratch_memory": [],
    }
    trace = read(results(process(buffers)))
    assert counters(trace) == {"unusable-time": 3, "malformed-record": 1, "other-record": 1}
    assert (trace.health.events_read, trace.health.events_kept) == (6, 1)


def test_absurd_ids_are_null():
    call = {**record("hipMalloc", 0, 5), "thread_id": 2**70, "correlation_id": {"internal": 2**63}}
    trace = read(results(process({"hip_api": [call]}, pid=-(2**80))))
    assert (trace.tracks.thread.tolist(), trace.tracks.process.tolist()) == ([NULL], [NULL])
    assert trace.slices.correlation.tolist() == [NULL]


def test_missing_tables_leave_numbers_for_names():
    bare = {"buffer_records": {"kernel_dispatch": [kernel(3, 0, 5)]}}
    trace = read(results(bare))
    assert slices(trace) == [("queue 16", "KERNEL", "kernel 3", 0, 5)]
    assert (devices(trace), trace.tracks.process.tolist()) == (["GPU:0"], [NULL])


def test_several_processes_have_their_own_tracks_and_gpus():
    other = {**kernel(1, 10, 5, gpu=OTHER_GPU)}
    renumbered = [{**a, "logical_node_type_id": 0} for a in process({})["agents"]]
    trace = read(
        results(
            process({"kernel_dispatch": [kernel(1, 0, 5)]}),
            process({"kernel_dispatch": [other]}, pid=909, agents=renumbered),
        )
    )
    assert devices(trace) == ["GPU:0", "GPU:0 (process 909)"]
    assert trace.tracks.process.tolist() == [908, 909]


def test_hosts_users_and_commands_stay_out():
    trace = read(results(process(KERNELS)))
    shown = repr((trace.strings, trace.meta, trace.health))
    assert not [s for s in ("secret-host", "someone", "hunter2") if s in shown]


def test_the_framework_is_named_where_its_kernels_ran():
    assert read(results(process(KERNELS))).meta.framework == "pytorch"
    trace = read(results(process({"kernel_dispatch": [kernel(3, 0, 5)]})))
    assert trace.meta.framework == ""


def test_kernels_alone_say_that_the_host_is_missing():
    (note,) = read(results(process(KERNELS))).meta.notes
    assert note.startswith("rocprofv3 recorded kernels only")


def test_kernels_under_performance_counters_are_left_out():
    counted = {"counter_collection": [{"thread_id": 908, "dispatch_data": {}, "records": []}]}
    trace = read(results(process(KERNELS, callback_records=counted)))
    assert counters(trace) == {"counter-collection": 1}
    assert any("one by one" in note for note in trace.meta.notes)


def loop(count, first=0):
    """Iterations of 1000 ns: one kernel computes for 100, an all-reduce takes 800."""
    records = []
    for i in range(count):
        start = first + 1000 * i
        records += [kernel(1, start, 60), kernel(3, start + 60, 40)]
        records.append(kernel(2, start + 100, 800, queue=18))
    return records


def test_a_loop_of_kernels_alone_is_cut_into_its_steps():
    facts = Facts(read(results(process({"kernel_dispatch": loop(6)}))))
    assert facts.steps.source == "periodicity"
    assert facts.steps.durations_ns.tolist() == [1000] * 5 + [900]
    (note,) = facts.steps.notes
    assert note.count == 6
    assert note.name.startswith("void at::native")
    assert decide(facts).bound_by == "communication"


def test_set_up_before_the_loop_is_warm_up_of_its_first_step():
    records = [kernel(4, 0, 50), kernel(4, 60, 50), *loop(6, first=5000)]
    records[2]["start_timestamp"] -= 4500
    records[2]["end_timestamp"] -= 4500
    facts = Facts(read(results(process({"kernel_dispatch": records}))))
    assert facts.steps.warm_up == 1


def test_statistics_that_are_no_numbers_do_no_harm():
    data = results(process(KERNELS)).replace(b'"agents"', b'"summary": [{"x": NaN}], "agents"', 1)
    assert len(read(data).slices) == 4


def test_bytes_that_are_no_text_are_replaced():
    trace = read(results(process(KERNELS)).replace(b"Cijk_Alik", b"Cijk_\xe9lik"))
    assert "Cijk_\N{REPLACEMENT CHARACTER}lik_Bljk_BBS" in trace.strings
    assert counters(trace) == {"invalid-utf8": 1}


def test_half_of_a_character_is_replaced():
    data = results(process(KERNELS)).replace(b"Cijk_Alik", b"Cijk_\\ud800lik")
    assert any(s.startswith("Cijk_") for s in read(data).strings)


def test_a_torn_file_gives_what_is_whole():
    data = results(process({"kernel_dispatch": loop(10)}))
    trace = read(data[: len(data) - 1500])
    assert 20 < len(trace.slices) < 30
    assert counters(trace) == {"json-truncated": 1}


def test_a_torn_file_takes_a_few_times_its_size():
    """Text with a character beyond 16 bits takes four bytes for each of all."""
    data = results(process({"kernel_dispatch": loop(10)}))
    padding = "𝄞 " + "x" * (8 << 20)
    data = data.replace(b'"agents"', f'"note": "{padding}", "agents"'.encode(), 1)[:-1500]
    tracemalloc.start()
    try:
        trace = read(data)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 20 < len(trace.slices) < 30
    assert most < 12 * len(data)


def test_damage_that_nests_deeply_takes_no_time():
    data = results(process(KERNELS)).replace(b'"agents"', b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(CorruptInputError):
        read(data)


def test_a_file_torn_before_the_first_record_is_refused():
    data = results(process({"kernel_dispatch": loop(10)}))
    with pytest.raises(CorruptInputError, match="holds no kernel"):
        read(data[: data.index(b'"buffer_records": {"kernel')])


def test_a_file_without_records_is_refused():
    with pytest.raises(CorruptInputError, match="holds no kernel"):
        read(results(process({})))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"traceEvents": []}',
        b'{"rocprofiler-sdk-json-tool": []}',
        b'["rocprofiler-sdk-tool"]',
        b'{"a": {"rocprofiler-sdk-tool": []}}',
    ],
)
def test_other_files_are_not_taken(data):
    assert not rocprof.recognise(Source(data, "sample"))


@pytest.mark.parametrize("value", [b"null", b"3", b"{}", b'"x"', b"[3]"])
def test_a_file_of_another_shape_is_refused(value):
    data = b'{"rocprofiler-sdk-tool": ' + value + b"}"
    with pytest.raises(CorruptInputError):
        rocprof.read(Source(data, "sample"))


def test_the_only_process_need_not_be_in_a_list():
    data = json.dumps({"rocprofiler-sdk-tool": process(KERNELS)}).encode()
    assert len(read(data).slices) == 4


MUTABLE = results(process({**KERNELS, "hip_api": [record("hipLaunchKernel", 0, 10, 7)]}))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, len(MUTABLE) - 1), st.integers(0, 255)), max_size=8),
    st.one_of(st.just(len(MUTABLE)), st.integers(0, len(MUTABLE))),
)
def test_damage_never_surprises(flips, length):
    data = bytearray(MUTABLE)
    for position, value in flips:
        data[position] = value
    source = Source(bytes(data[:length]), "sample")
    rocprof.recognise(source)
    try:
        trace = rocprof.read(source)
    except StepwhyError:
        return
    check(trace)


def test_host_tracks_are_host_threads():
    trace = read(results(process({"hip_api": [record("hipMalloc", 0, 5, thread=42)]})))
    assert [Role(r) for r in trace.tracks.role] == [Role.HOST_THREAD]
    assert trace.tracks.thread.tolist() == [42]
    assert trace.meta.device_expected
