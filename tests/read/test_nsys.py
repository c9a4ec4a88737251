"""Exports of Nsight Systems: hand-made databases of its schema generations."""

import gzip
import sqlite3
import tracemalloc
from contextlib import closing

import pytest
from fuzz.extremes.databases import NSYS
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.cuda_samples import (
    PID,
    TID,
    Nsys,
    copies,
    counters,
    global_id,
    slices,
    source_of,
    tracks,
    write_database,
)

from stepwhy.analyse.activity.launches import join_launches
from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import CorruptInputError, InputError
from stepwhy.read.formats.nsys import export
from stepwhy.read.formats.nsys import reader as nsys
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared import database
from stepwhy.result.wording.verdict import verdict_sentence
from stepwhy.trace import DeviceKind, Phase
from stepwhy.trace.integrity import check

MS = 1_000_000


@pytest.fixture
def read(tmp_path):
    """Reads a sample as the program does; `None` is not this format."""
    numbers = iter(range(100))

    def read_sample(sample):
        path = sample.write(tmp_path / f"{next(numbers)}.sqlite")
        source = source_of(path)
        assert nsys.recognise(source)
        trace = nsys.read(source)
        if trace is not None:
            check(trace)
        return trace

    return read_sample


def one_step():
    return (
        Nsys()
        .call("cudaMemcpyAsync_v3020", 100, 110, 1)
        .call("cudaLaunchKernel_v7000", 120, 125, 2)
        .call("cudaMemsetAsync_ptsz_v7000", 126, 128, 3)
        .call("cudaStreamSynchronize_v3020", 130, 190, 4)
        .copy(1, 112, 120, 1, size=4096)
        .kernel("void at::native::softmax<float>(float*)", 130, 170, 2)
        .fill(170, 175, 3, size=64)
        .kernel("ncclDevKernel_AllReduce(args<4096>)", 175, 185, 5)
    )


def test_processes_beyond_the_most_count_as_one_on_the_devices(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_MOST_PROCESSES", 3, raising=False)
    path = tmp_path / "many.sqlite"
    path.write_bytes(NSYS["processes"](38 * 9))
    trace = nsys.read(source_of(path))
    check(trace)
    names = [trace.string(name) for name in trace.devices.name.tolist()]
    devices = [names[device] for device in trace.tracks.device[trace.slices.track].tolist()]
    alone = ["GPU:0", "GPU:0 (process 2)", "GPU:0 (process 3)"]
    assert devices == [*alone, *["GPU:0 (other processes)"] * 6]
    assert counters(trace)["processes-together"] == 6


def test_calls_and_device_activity_of_one_gpu(read):
    trace = read(one_step())
    assert slices(trace) == [
        ("thread 701", "LAUNCH", "cudaMemcpyAsync", 100, 10),
        ("stream 7", "MEMCPY", "Memcpy HtoD", 112, 8),
        ("thread 701", "LAUNCH", "cudaLaunchKernel", 120, 5),
        ("thread 701", "LAUNCH", "cudaMemsetAsync", 126, 2),
        ("thread 701", "SYNC", "cudaStreamSynchronize", 130, 60),
        ("stream 7", "KERNEL", "void at::native::softmax<float>(float*)", 130, 40),
        ("stream 7", "MEMSET", "Memset", 170, 5),
        ("stream 7", "COLLECTIVE", "ncclDevKernel_AllReduce(args<4096>)", 175, 10),
    ]
    assert tracks(trace) == [
        ("HOST_THREAD", "thread 701", PID, TID, None),
        ("STREAM", "stream 7", PID, 7, "GPU:0"),
    ]
    assert copies(trace) == [("H2D", 1, 4096)]
    assert trace.devices.kind.tolist() == [DeviceKind.GPU]
    assert counters(trace) == {}
    assert trace.health.events_read == trace.health.events_kept == 8
    assert trace.meta.framework == "pytorch"
    assert trace.meta.signals == {"device-activity", "runtime-calls", "copy-bytes"}
    assert (trace.meta.device_expected, trace.meta.limit) == (True, "")


def test_device_slices_join_the_calls_of_their_own_process(read):
    sample = Nsys()
    for pid, device in ((700, 0), (800, 1)):
        sample.call("cudaLaunchKernel_v7000", pid, pid + 5, 9, pid=pid, tid=pid)
        sample.kernel("k", pid + 10, pid + 20, 9, pid=pid, device=device)
    trace = read(sample)
    launches = join_launches(trace)
    assert not launches.reused
    gaps = trace.slices.start_ns[launches.device_rows] - trace.slices.start_ns[launches.call_row]
    assert gaps.tolist() == [10, 10]
    assert [t[4] for t in tracks(trace)] == [None, None, "GPU:0", "GPU:1"]


def test_calls_of_the_autograd_engine_are_of_the_backward_pass(read):
    sample = Nsys().call("cudaLaunchKernel_v7000", 0, 5, 1)
    sample.call("cudaLaunchKernel_v7000", 6, 9, 2, tid=702)
    name = sample.strings("pt_autograd_0")
    sample.add("ThreadNames", nameId=name, globalTid=global_id(PID, 702))
    trace = read(sample)
    assert trace.slices.phase.tolist() == [Phase.UNKNOWN, Phase.BACKWARD]
    assert "pt_autograd_0" not in trace.strings


def test_one_number_in_two_processes_is_two_devices(read):
    sample = Nsys().kernel("k", 0, 9, pid=700).kernel("k", 0, 9, pid=800)
    trace = read(sample)
    assert [trace.string(n) for n in trace.devices.name] == ["GPU:0", "GPU:0 (process 800)"]


def test_two_numbers_of_one_gpu_are_one_device(read):
    sample = (
        Nsys()
        .kernel("k", 0, 9, pid=700, device=0)
        .kernel("k", 10, 19, pid=800, device=3)
        .add("TARGET_INFO_CUDA_DEVICE", gpuId=3, cudaId=0, pid=700)
        .add("TARGET_INFO_CUDA_DEVICE", gpuId=3, cudaId=3, pid=800)
        .add("TARGET_INFO_GPU", id=0, name="NVIDIA T4", cuDevice=0)
        .add("TARGET_INFO_GPU", id=3, name="NVIDIA A100", cuDevice=3)
    )
    trace = read(sample)
    assert [trace.string(n) for n in trace.devices.name] == ["GPU:0"]
    assert [trace.string(n) for n in trace.devices.model] == ["NVIDIA A100"]


@pytest.mark.parametrize(
    ("kind", "source", "target", "expected"),
    [
        (1, 0, 2, ("H2D", 1, 8)),
        (1, 1, 2, ("H2D", 0, 8)),
        (2, 2, 1, ("D2H", 0, 8)),
        (2, 2, 7, ("D2H", -1, 8)),
        (8, 2, 2, ("D2D", -1, 8)),
        (10, 2, 2, ("PEER", -1, 8)),
        (9, 0, 0, ("H2H", -1, 8)),
        (11, 4, 4, ("H2D", -1, 8)),
        (0, 0, 2, ("NONE", -1, 8)),
        (77, 0, 2, ("NONE", -1, 8)),
    ],
)
def test_directions_and_memory_of_copies(read, kind, source, target, expected):
    assert copies(read(Nsys().copy(kind, 0, 5, source=source, target=target))) == [expected]


def test_an_enumeration_in_the_export_decides(read):
    sample = Nsys().copy(1, 0, 5, source=5, target=5)
    sample.add("ENUM_CUDA_MEMCPY_OPER", id=1, name="CUDA_MEMCPY_KIND_DTOH", label="Device-to-Host")
    sample.add("ENUM_CUDA_MEM_KIND", id=5, name="CUDA_MEMOPR_MEMORY_KIND_PAGEABLE")
    assert copies(read(sample)) == [("D2H", 1, 8)]


def loop_that_waits_for_input(steps):
    """Steps of 100 ms: 60 fetch a batch, 30 compute, half of it launched by the autograd engine."""
    sample = Nsys()
    sample.add("ThreadNames", nameId=sample.strings("pt_autograd_0"), globalTid=global_id(PID, 702))
    for i in range(steps):
        start = 100 * MS * i
        sample.range(f"iteration {i}", start, start + 99 * MS)
        sample.range("load_batch", start, start + 60 * MS)
        for j in range(10):
            for half, tid in ((61, TID), (76, 702)):
                at, number = start + half * MS + j * MS, 100 * i + 10 * (tid - TID) + j + 1
                sample.call("cudaLaunchKernel_v7000", at, at + MS // 2, number, tid=tid)
                sample.kernel(
                    "void at::native::gemm<float>(int)", at + MS, at + 5 * MS // 2, number
                )
        sample.call("cudaStreamSynchronize_v3020", start + 88 * MS, start + 95 * MS, 100 * i + 50)
    return sample


def test_a_loop_that_waits_for_input_is_told_by_its_ranges(read):
    facts = Facts(read(loop_that_waits_for_input(8)))
    assert (facts.steps.source, len(facts.steps.starts)) == ("marker", 8)
    verdict = decide(facts)
    assert verdict.bound_by == "input"
    assert facts.breakdown["input_wait"] == 60 * MS
    (autograd,) = facts.threads.autograd
    assert facts.trace.string(facts.trace.tracks.name[autograd]) == "thread 702"


# --- ranges ------------------------------------------------------------------------------------


def test_ranges_of_the_framework_and_of_the_user(read):
    sample = (
        Nsys()
        .range("aten::mm, seq = 12, op_id = 7, sizes = [[2, 2], [2, 2]]", 10, 20)
        .range("MmBackward0, seq = 12, op_id = 8", 30, 40, tid=702)
        .range("aten::mul, op_id = 9", 32, 35, tid=702, by_number=True)
        .range("Optimizer.step#SGD.step", 50, 60)
        .range("encoder", 70, 80)
        .range("ncclAllReduce", 82, 84, domain=1, by_number=True)
        .range("load_batch", 90, 95)
    )
    trace = read(sample)
    assert [(s[1], s[2]) for s in slices(trace)] == [
        ("OP", "aten::mm"),
        ("OP", "MmBackward0"),
        ("OP", "aten::mul"),
        ("FRAMEWORK", "Optimizer.step#SGD.step"),
        ("ANNOTATION", "encoder"),
        ("FRAMEWORK", "ncclAllReduce"),
        ("INPUT", "load_batch"),
    ]
    assert [t[1] for t in tracks(trace)] == ["thread 701", "thread 702"]
    assert trace.slices.sequence.tolist() == [12, 12, -1, -1, -1, -1, -1]
    assert [Phase(p).name for p in trace.slices.phase] == [
        "UNKNOWN",
        "BACKWARD",
        "UNKNOWN",
        "OPTIMIZER",
        "UNKNOWN",
        "UNKNOWN",
        "INPUT",
    ]


def test_operations_of_tensorflow_are_told_by_their_domain(read):
    sample = Nsys().range("tensorflow-core", 0, None, kind=75, domain=4)
    text = "Conv2D: block/conv1"
    sample.range(text, 10, 20, kind=60, domain=4).range(text, 30, 40, domain=5)
    trace = read(sample)
    assert [s[:3] for s in slices(trace)] == [
        ("thread 701", "OP", "Conv2D"),
        ("thread 701", "ANNOTATION", text),
    ]


@pytest.fixture
def chunks_of_three(monkeypatch):
    monkeypatch.setattr(database, "_ROWS_AT_ONCE", 3)


@pytest.mark.usefixtures("chunks_of_three")
def test_a_domain_may_be_named_behind_its_ranges(read):
    sample = Nsys()
    for i in range(4):
        sample.range("Conv2D: block/conv1", 10 * i, 10 * i + 5, domain=4)
    sample.range("tensorflow-core", 0, None, kind=75, domain=4)
    assert [s[:3] for s in slices(read(sample))] == [("thread 701", "OP", "Conv2D")] * 4


def test_marks_names_and_open_ranges_are_counted(read):
    sample = Nsys().range("mark", 5, None, kind=34).range("still open", 6, None)
    sample.range("category", 0, None, kind=33).range("whole", 7, 9)
    trace = read(sample)
    assert [s[2] for s in slices(trace)] == ["whole"]
    assert counters(trace) == {"nvtx-instant": 2, "range-not-closed": 1}


def test_repeated_ranges_become_steps(read):
    sample = Nsys()
    for i in range(4):
        sample.range("iteration", 100 * i, 100 * i + 90)
        sample.range("step", 100 * i + 70, 100 * i + 80)  # the optimizer's: a part of it
    trace = read(sample)
    assert [s[3:] for s in slices(trace) if s[1] == "STEP"] == [
        (0, 90),
        (100, 90),
        (200, 90),
        (300, 90),
    ]


@pytest.mark.usefixtures("chunks_of_three")
def test_steps_are_found_across_chunks_and_are_on_their_thread(read):
    sample = Nsys()
    for i in range(5):
        sample.range("iteration", 100 * i, 100 * i + 90, kind=60)
        sample.range("part", 100 * i + 10, 100 * i + 80, kind=60)
    found = {(s[0], s[1], s[2]): [] for s in slices(read(sample))}
    assert set(found) == {
        ("thread 701", "STEP", "iteration"),
        ("ranges of thread 701", "ANNOTATION", "part"),
    }


def test_steps_are_no_operations_whatever_they_are_recorded_as(read):
    trace = read(Nsys().range("step 1, op_id = 7", 0, 50).range("step 2, op_id = 8", 50, 90))
    assert [s[1] for s in slices(trace)] == ["STEP", "STEP"]
    assert "host-ops" not in trace.meta.signals


# So many that what they take is more than all else; of each, 21 bytes are in the trace
# (a table as a whole: 160 of each).
_MANY_RANGES = 40_000
_MOST_BYTES_PER_RANGE = 70


def test_no_table_of_ranges_is_held_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_ROWS_AT_ONCE", 512)
    columns = ["start", "end", "eventType", "globalTid", "domainId", "text"]
    thread = global_id(PID, TID)
    rows = [
        [10 * i, 10 * i + 5, 59, thread, 0, f"aten::mm, op_id = {i}"] for i in range(_MANY_RANGES)
    ]
    path = Nsys(NVTX_EVENTS=(columns, rows)).write(tmp_path / "x.sqlite")
    del rows
    nsys.read(source_of(one_step().write(tmp_path / "warm.sqlite")))
    tracemalloc.start()
    trace = nsys.read(source_of(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(trace.slices) == _MANY_RANGES
    assert peak < _MOST_BYTES_PER_RANGE * _MANY_RANGES


def test_ranges_that_may_cross_lie_beside_their_thread(read):
    sample = Nsys().range("a", 0, 50, kind=60).range("b", 20, 70, kind=60).range("c", 10, 30)
    trace = read(sample)
    assert [(s[0], s[2]) for s in slices(trace)] == [
        ("ranges of thread 701", "a"),
        ("thread 701", "c"),
        ("ranges of thread 701", "b"),
    ]
    assert len(trace.tracks) == 2


# --- graphs, overhead, libraries ---------------------------------------------------------------


def test_a_graph_traced_as_a_whole_counts_as_computation_and_says_so(read):
    trace = read(Nsys().call("cudaGraphLaunch_v10000", 0, 5, 3).graph(10, 90, 3, number=17))
    assert slices(trace)[1] == ("stream 7", "KERNEL", "CUDA graph 17", 10, 80)
    assert counters(trace) == {"guessed-device-time": 1}


def test_a_graph_whose_nodes_were_traced_only_frames_them(read):
    trace = read(Nsys().kernel("k", 20, 40, 3, graphNodeId=5).graph(10, 90, 3))
    assert [s[1] for s in slices(trace)] == ["DEVICE_ANNOTATION", "KERNEL"]
    assert counters(trace) == {}


def test_a_graph_that_begins_on_the_host_is_on_the_device_of_its_process(read):
    trace = read(Nsys().kernel("k", 0, 5, device=2).graph(10, 90, device=2**31 - 1))
    assert [trace.string(n) for n in trace.devices.name] == ["GPU:2"]


def test_overhead_is_the_profilers_or_loads_code(read):
    sample = Nsys().kernel("k", 0, 5)
    kinds = {2: "OVERHEAD_DRIVER_COMPILER", 3: "OVERHEAD_CUPTI_BUFFER_FLUSH"}
    kinds |= {7: "OVERHEAD_LAZY_FUNCTION_LOADING", 8: "OVERHEAD_COMMAND_BUFFER_FULL"}
    for number, name in kinds.items():
        sample.add("ENUM_CUPTI_OVERHEAD_TYPE", id=number, name=name)
        where = {"start": 10 * number, "end": 10 * number + 5, "globalTid": global_id(PID, TID)}
        sample.add("PROFILER_OVERHEAD", **where, nameId=0, overheadType=number)
    trace = read(sample)
    assert [s[1] for s in slices(trace)][1:] == ["COMPILE", "PROFILER", "COMPILE", "OTHER"]


def test_calls_of_libraries(read):
    sample = Nsys()
    where = {"globalTid": global_id(PID, TID)}
    name = sample.strings
    sample.add("CUBLAS_EVENTS", start=0, end=9, nameId=name("cublasGemmEx"), **where)
    sample.add("MPI_COLLECTIVES_EVENTS", start=10, end=19, textId=name("MPI_Allreduce"), **where)
    trace = read(sample)
    assert [(s[1], s[2]) for s in slices(trace)] == [
        ("FRAMEWORK", "cublasGemmEx"),
        ("COLLECTIVE", "MPI_Allreduce"),
    ]


def test_what_has_no_place_is_counted(read):
    sample = Nsys().kernel("k", 0, 5)
    sample.add("OSRT_API", start=0, end=9).add("OSRT_API", start=0, end=9)
    sample.add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=0, end=9)
    trace = read(sample)
    assert counters(trace) == {"system-call": 2, "synchronisation-record": 1}
    assert trace.health.events_read == 4


@pytest.mark.parametrize(
    ("text", "severity", "lost"),
    [
        ("Not all CUDA events might have been collected.", 2, 1),
        ("CUPTI buffers overflowed: events were dropped.", 3, 1),
        ("Number of CUDA events collected: 12.", 1, 0),
        ("Number of NVTX events dropped: 0.", 1, 0),
        ("Unified Memory cannot be traced on this device.", 2, 0),
    ],
)
def test_the_profiler_says_what_it_lost(read, text, severity, lost):
    sample = Nsys().kernel("k", 0, 5).add("DIAGNOSTIC_EVENT", severity=severity, text=text)
    found = counters(read(sample))
    assert found.pop("profiler-message") == 1
    assert found == ({"profiler-lost-records": 1} if lost else {})


# --- what is missing or odd --------------------------------------------------------------------


def test_an_export_without_any_activity_is_readable(read):
    trace = read(Nsys())
    assert len(trace.slices) == 0
    assert trace.meta.limit.startswith("the file holds nothing that a GPU did")


@pytest.mark.parametrize(
    ("traced", "gpu", "expected"),
    [("Cuda", False, False), ("Cuda", True, True), ("NvtxEvents", False, True), ("", False, True)],
)
def test_only_a_trace_of_cuda_without_a_gpu_is_of_a_cpu(read, traced, gpu, expected):
    sample = Nsys().range("forward", 0, 9)
    if traced:
        sample.add("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value=traced)
    if gpu:
        sample.add("TARGET_INFO_GPU", id=0, name="NVIDIA T4")
    meta = read(sample).meta
    assert meta.device_expected is expected
    assert bool(meta.limit) is expected
    assert ("ranges" in meta.signals) is expected


def test_columns_that_an_older_export_lacks_are_unknown(read):
    sample = Nsys(
        CUPTI_ACTIVITY_KIND_KERNEL=[{"start": 10, "end": 30, "deviceId": 1, "shortName": 1}],
        CUPTI_ACTIVITY_KIND_MEMCPY=[{"start": 40, "end": 45, "copyKind": 1}],
        NVTX_EVENTS=[{"start": 0, "end": 50, "text": "forward", "globalTid": global_id(PID, TID)}],
    )
    sample.strings("gemm")
    trace = read(sample)
    assert slices(trace) == [
        ("thread 701", "ANNOTATION", "forward", 0, 50),
        ("unknown stream", "KERNEL", "gemm", 10, 20),
        ("unknown stream", "MEMCPY", "Memcpy HtoD", 40, 5),
    ]
    assert copies(trace) == [("H2D", -1, -1)]
    assert "copy-bytes" not in trace.meta.signals
    assert trace.slices.correlation.tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, 0),
        (20, 10),
        (None, 10),
        (10, None),
        ("soon", 10),
        (1.5, 10),
        (-(2**62), 10),
        (-(2**63), 10),
        (1, 2**63 - 1),
    ],
)
def test_device_activity_without_a_time_is_counted(read, start, end):
    trace = read(Nsys().kernel("k", start, end).kernel("k", 100, 105))
    assert [s[3] for s in slices(trace)] == [100]
    assert counters(trace) == {"unusable-time": 1}


def test_a_call_of_no_length_at_zero_is_one(read):
    assert [s[3:] for s in slices(read(Nsys().call("cudaSetDevice", 0, 0)))] == [(0, 0)]


def test_texts_that_are_no_utf8_are_replaced(tmp_path):
    path = Nsys().kernel("caf#", 0, 5).write(tmp_path / "a.sqlite")
    path.write_bytes(path.read_bytes().replace(b"caf#", b"caf\xe9"))
    trace = nsys.read(source_of(path))
    assert slices(trace)[0][2] == "caf\N{REPLACEMENT CHARACTER}"


def test_nothing_of_the_machine_is_carried(read):
    secrets = ["tok-4711", "node17.example", "jane", "/home/jane/exp"]
    sample = one_step().range("/home/jane/exp/train.py:12 forward", 0, 200)
    for secret in secrets:
        sample.strings(f"API_KEY={secret}\0PATH=/bin")
        sample.add("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT", value=secret)
        sample.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", value=secret)
        sample.add("DIAGNOSTIC_EVENT", severity=1, text=f"wrote {secret}")
    trace = read(sample)
    shown = "\n".join([*trace.strings, repr(trace.meta), repr(trace.health.counters)])
    assert "~/exp/train.py:12 forward" in shown
    assert [s for s in secrets if s in shown] == []


def test_only_real_tables_are_asked(tmp_path):
    path = Nsys().range("forward", 0, 9).write(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS "
            "(SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n"
        )
    assert len(nsys.read(source_of(path)).slices) == 1


# --- files -------------------------------------------------------------------------------------


def test_packed_databases_and_bytes_are_read_alike(tmp_path):
    path = one_step().write(tmp_path / "a.sqlite")
    packed = tmp_path / "b.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    expected = slices(nsys.read(source_of(path)))
    assert slices(nsys.read(read_source(packed))) == expected
    assert slices(nsys.read(Source(path.read_bytes(), "bytes"))) == expected


def test_reading_leaves_no_trace(tmp_path):
    path = one_step().write(tmp_path / "a.sqlite")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert nsys.read(source_of(path)) is not None
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.sqlite"]


def test_a_database_with_a_part_in_its_log_is_refused(tmp_path):
    path = one_step().write(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
        connection.commit()
        with pytest.raises(CorruptInputError, match=r"still being written.*a\.sqlite-wal"):
            nsys.read(source_of(path))
    assert counters(nsys.read(source_of(path))) == {}  # the log is written back, the mode stays


def test_a_locked_database_is_refused(tmp_path):
    path = one_step().write(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CorruptInputError, match="another process is writing"):
            nsys.read(source_of(path))
    assert nsys.read(source_of(path)) is not None


def test_a_torn_database_gives_what_is_whole_or_says_what_to_do(tmp_path):
    sample = one_step()
    for i in range(3000):
        sample.kernel(f"kernel number {i}", 1000 + 10 * i, 1005 + 10 * i)
    path = sample.write(tmp_path / "a.sqlite")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    trace = nsys.read(source_of(path))
    assert 0 < len(trace.slices) < 3008
    assert counters(trace)["table-damaged"] > 0


def test_a_database_of_another_program_is_not_taken(tmp_path):
    path = write_database(tmp_path / "a.sqlite", {"moz_places": [{"url": "x"}]})
    assert nsys.read(source_of(path)) is None


def test_a_file_that_only_begins_as_a_database_is_corrupt():
    with pytest.raises(CorruptInputError, match="damaged SQLite database"):
        nsys.read(Source(b"SQLite format 3\x00" + bytes(80), "a.sqlite"))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.data())
def test_damage_never_surprises(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "mutable.sqlite"
    if not path.exists():
        one_step().range("iteration", 0, 90).write(path)
    content = bytearray(path.read_bytes())
    places = st.tuples(st.integers(16, len(content) - 1), st.integers(0, 255))
    for position, value in data.draw(st.lists(places, max_size=20)):
        content[position] = value
    try:
        trace = nsys.read(Source(bytes(content), "damaged"))
    except InputError:
        return
    if trace is not None:
        check(trace)


anything = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 80),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=9),
)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.data())
def test_whatever_stands_in_a_column_every_record_is_kept_or_counted(tmp_path_factory, data):
    sample = one_step().range("iteration", 0, 90).graph(5, 9)
    sample.add("CUPTI_ACTIVITY_KIND_OVERHEAD", start=1, end=2, globalTid=3, overheadType=4)
    sample.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=PID)
    sample.add("TARGET_INFO_GPU", id=0, name="NVIDIA T4", cuDevice=0)
    sample.add("ThreadNames", nameId=1, globalTid=7).add("DIAGNOSTIC_EVENT", severity=2, text="x")
    for table, records in sample.tables.items():
        for record in records:
            for column in data.draw(st.lists(st.sampled_from(sorted(record)), max_size=2), table):
                record[column] = data.draw(anything, column)
    path = tmp_path_factory.mktemp("odd") / "a.sqlite"
    trace = nsys.read(source_of(sample.write(path)))
    check(trace)
    assert verdict_sentence(decide(Facts(trace)).reason)
