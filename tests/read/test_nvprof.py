"""nvprof databases: hand-made tables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.cuda_samples import (
    PID,
    TID,
    Nvprof,
    copies,
    counters,
    slices,
    source_of,
    tracks,
    write_database,
)

from stepwhy.analyse.activity.launches import join_launches
from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import InputError
from stepwhy.read.formats.nvprof import reader as nvprof
from stepwhy.read.formats.nvprof.calls import DRIVER_CALLS, RUNTIME_CALLS
from stepwhy.read.inputs.source import Source
from stepwhy.result.wording.verdict import verdict_sentence
from stepwhy.trace import Phase
from stepwhy.trace.integrity import check

MS = 1_000_000
LAUNCH_KERNEL, MEMCPY_ASYNC, STREAM_SYNCHRONIZE = 211, 41, 131
INSTRUMENTATION = 2 << 16


@pytest.fixture
def read(tmp_path):
    """Reads a sample as the program does."""

    def read_sample(sample):
        source = source_of(sample.write(tmp_path / "a.nvvp"))
        assert nvprof.recognise(source)
        trace = nvprof.read(source)
        check(trace)
        return trace

    return read_sample


def one_step():
    return (
        Nvprof()
        .call(LAUNCH_KERNEL, 100, 105, 1)
        .call(MEMCPY_ASYNC, 110, 112, 2)
        .call(STREAM_SYNCHRONIZE, 115, 160, 3)
        .kernel("_ZN2at6native7softmaxIfEEvPT_", 120, 140, 1)
        .copy(2, 145, 150, 2, srcKind=3, dstKind=1)
    )


def test_calls_and_device_activity(read):
    trace = read(one_step())
    assert slices(trace) == [
        ("thread 701", "LAUNCH", "cudaLaunchKernel", 100, 5),
        ("thread 701", "LAUNCH", "cudaMemcpyAsync", 110, 2),
        ("thread 701", "SYNC", "cudaStreamSynchronize", 115, 45),
        ("stream 7", "KERNEL", "at::native::softmax", 120, 20),
        ("stream 7", "MEMCPY", "Memcpy DtoH", 145, 5),
    ]
    assert tracks(trace) == [
        ("HOST_THREAD", "thread 701", PID, TID, None),
        ("STREAM", "stream 7", PID, 7, "GPU:0"),
    ]
    assert copies(trace) == [("D2H", 1, 8)]
    assert [trace.string(m) for m in trace.devices.model] == ["Tesla V100"]
    assert join_launches(trace).call_row.tolist() == [0, 1]
    assert counters(trace) == {}
    assert trace.meta.framework == "pytorch"
    assert trace.meta.signals == {"device-activity", "runtime-calls", "copy-bytes"}
    assert trace.meta.limit == ""


def test_kernels_of_all_tables_and_calls_of_both_apis(read):
    sample = Nvprof().call(307, 0, 5, 9, table="DRIVER").call(17, 6, 9, table="DRIVER")
    for i, table in enumerate(("KERNEL", "CONCURRENT_KERNEL", "CDP_KERNEL")):
        sample.kernel(f"k{i}", 10 * i, 10 * i + 5, table=table)
    assert [s[1:3] for s in slices(read(sample))] == [
        ("LAUNCH", "cuLaunchKernel"),
        ("KERNEL", "k0"),
        ("SYNC", "cuCtxSynchronize"),
        ("KERNEL", "k1"),
        ("KERNEL", "k2"),
    ]


@pytest.mark.parametrize(
    ("kind", "more", "expected"),
    [
        (1, {"srcKind": 1, "dstKind": 3}, ("H2D", 1, 8)),
        (1, {"srcKind": 2, "dstKind": 3}, ("H2D", 0, 8)),
        (1, {"srcKind": 0, "dstKind": 3}, ("H2D", -1, 8)),
        (8, {"srcKind": 3, "dstKind": 3}, ("D2D", -1, 8)),
        (8, {"table": "MEMCPY2", "srcDeviceId": 0, "dstDeviceId": 1}, ("PEER", -1, 8)),
        (8, {"table": "MEMCPY2", "srcDeviceId": 1, "dstDeviceId": 1}, ("D2D", -1, 8)),
    ],
)
def test_directions_and_memory_of_copies(read, kind, more, expected):
    assert copies(read(Nvprof().copy(kind, 0, 5, **more))) == [expected]


def test_what_the_profiler_did_inside_of_a_launch_is_no_time_of_the_program(read):
    sample = Nvprof().kernel("k", 2400 * MS, 2401 * MS, 1)
    sample.call(LAUNCH_KERNEL, 0, 2400 * MS, 1).call(LAUNCH_KERNEL, 2500 * MS, 2600 * MS, 2)
    sample.overhead(INSTRUMENTATION, 1 * MS, 1000 * MS)
    sample.overhead(INSTRUMENTATION, 1001 * MS, 2399 * MS)
    sample.overhead(INSTRUMENTATION, 2510 * MS, 2520 * MS)  # a small part: the call stays
    sample.overhead(4 << 16, 2530 * MS, 2590 * MS)  # loading code is the program's
    trace = read(sample)
    assert [s[1:] for s in slices(trace) if s[1] != "KERNEL"] == [
        ("PROFILER", "instrumentation", 1 * MS, 999 * MS),
        ("PROFILER", "instrumentation", 1001 * MS, 1398 * MS),
        ("LAUNCH", "cudaLaunchKernel", 2399 * MS, 1 * MS),
        ("LAUNCH", "cudaLaunchKernel", 2500 * MS, 100 * MS),
        ("PROFILER", "instrumentation", 2510 * MS, 10 * MS),
        ("COMPILE", "module loading", 2530 * MS, 60 * MS),
    ]
    assert counters(trace) == {"call-instrumented": 1}


def test_markers_become_ranges_of_their_threads(read):
    sample = (
        Nvprof()
        .call(LAUNCH_KERNEL, 12, 14, 1, tid=-5)
        .range("mm, seq = 5", 10, 20, tid=-5)
        .range("AddBackward0, seq = 6", 30, 40)
        .range("forward", 50, 60, kind=1)
        .marker(1, 55, 900, "mark")
        .marker(2, 70, 901, "still open")
    )
    trace = read(sample)
    number = -5 & 0xFFFFFFFF
    assert slices(trace) == [
        (f"thread {number}", "OP", "mm", 10, 10),
        (f"thread {number}", "LAUNCH", "cudaLaunchKernel", 12, 2),
        ("thread 701", "OP", "AddBackward0", 30, 10),
        ("unknown thread", "ANNOTATION", "forward", 50, 10),
    ]
    assert trace.slices.phase.tolist()[2] == Phase.BACKWARD
    assert counters(trace) == {"nvtx-instant": 1, "range-not-closed": 1}
    assert trace.health.events_read == 1 + 3 * 2 + 2


def test_a_range_that_ends_before_it_begins_is_counted_with_both_of_its_records(read):
    trace = read(Nvprof().kernel("k", 0, 5).range("a", 20, 10))
    assert counters(trace) == {"unusable-time": 2}


def test_records_with_one_number_are_paired_once(read):
    sample = Nvprof().range("a", 10, 20).marker(2, 30, 1, "again").marker(4, 40, 1)
    trace = read(sample)
    assert [s[2:] for s in slices(trace)] == [("a", 10, 10)]
    assert counters(trace) == {"range-not-closed": 2}


def test_ranges_of_pyprof_are_told_by_their_lines_and_functions(read):
    lines = (
        "{'traceMarker': ['train.py:31', '/home/jane/lib/python3.6/site-packages/torch/a.py:5']}"
    )
    function = "{'mod': 'torch.nn.functional', 'op': 'linear', 'args': [{'name': 'secret'}]}"
    trace = read(Nvprof().range(lines, 0, 50).range(function, 10, 40))
    assert [s[1:3] for s in slices(trace)] == [
        ("ANNOTATION", "train.py(31)"),
        ("ANNOTATION", "torch.nn.functional.linear"),
    ]
    assert trace.string(trace.slices.source[0]) == "train.py(31)"
    assert "faster without it" in trace.meta.notes[0]
    assert not any("jane" in text or "secret" in text for text in trace.strings)


def test_an_empty_database_is_readable(read):
    trace = read(Nvprof())
    assert (len(trace.slices), len(trace.devices)) == (0, 0)
    assert "profiling was never started" in trace.meta.limit
    assert trace.meta.device_expected


def test_calls_alone_say_that_the_gpu_was_not_recorded(read):
    meta = read(Nvprof().call(LAUNCH_KERNEL, 0, 5)).meta
    assert "nothing that a GPU did" in meta.limit


def test_a_database_of_another_program_is_not_taken(tmp_path):
    path = write_database(tmp_path / "a.db", {"StringTable": [{"_id_": 1, "value": "x"}]})
    assert nvprof.read(source_of(path)) is None


@pytest.mark.parametrize(
    ("names", "number", "name"),
    [
        # The last of each long block: one name too many or too few would shift it.
        (RUNTIME_CALLS, 52, "cudaMemset2DAsync"),
        (RUNTIME_CALLS, 145, "cudaMemcpy3DAsync"),
        (RUNTIME_CALLS, 211, "cudaLaunchKernel"),
        (RUNTIME_CALLS, 239, "cudaStreamSynchronize"),
        (RUNTIME_CALLS, 253, "cudaMemPrefetchAsync"),
        (RUNTIME_CALLS, 312, "cudaGraphLaunch"),
        (DRIVER_CALLS, 20, "cuModuleLoadDataEx"),
        (DRIVER_CALLS, 121, "cuEventSynchronize"),
        (DRIVER_CALLS, 254, "cuMemsetD2D32"),
        (DRIVER_CALLS, 295, "cuStreamWaitEvent"),
        (DRIVER_CALLS, 307, "cuLaunchKernel"),
        (DRIVER_CALLS, 416, "cuMemsetD2D32"),
        (DRIVER_CALLS, 433, "cuMemsetD2D32Async"),
        (DRIVER_CALLS, 515, "cuGraphLaunch"),
    ],
)
def test_numbers_of_calls(names, number, name):
    assert names[number] == name


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.data())
def test_damage_never_surprises(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "mutable.nvvp"
    if not path.exists():
        one_step().range("iteration", 0, 90).overhead(1, 0, 5).write(path)
    content = bytearray(path.read_bytes())
    places = st.tuples(st.integers(16, len(content) - 1), st.integers(0, 255))
    for position, value in data.draw(st.lists(places, max_size=20)):
        content[position] = value
    try:
        trace = nvprof.read(Source(bytes(content), "damaged"))
    except InputError:
        return
    if trace is not None:
        check(trace)


anything = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 300),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=13),
)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.data())
def test_whatever_stands_in_a_column_every_record_is_kept_or_counted(tmp_path_factory, data):
    sample = one_step().range("iteration", 0, 90).overhead(INSTRUMENTATION, 0, 5)
    for table, records in sample.tables.items():
        for record in records:
            for column in data.draw(st.lists(st.sampled_from(sorted(record)), max_size=2), table):
                record[column] = data.draw(anything, column)
    path = tmp_path_factory.mktemp("odd") / "a.nvvp"
    trace = nvprof.read(source_of(sample.write(path)))
    check(trace)
    assert verdict_sentence(decide(Facts(trace)).reason)
