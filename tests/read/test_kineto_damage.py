"""Kineto traces that were cut off, written twice into one file, or merged from several ranks."""

import json

import pytest
from tests.kineto_samples import GENERATIONS, dump, run, x

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import CorruptInputError
from stepwhy.read.formats.kineto import reader as kineto
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.result.reasons import Gap, Lack

SPELLING = GENERATIONS["2024 fractional"]
RECORDS = run(SPELLING)
BASE_NS = SPELLING.header["baseTimeNanoseconds"]
GPU = "NVIDIA A100-SXM4-80GB"


def read(data):
    return kineto.read(Source(data, "trace.json"))


def counted(trace):
    return {c.counter: c.count for c in trace.health.counters if c.severity != "info"}


def help_of(trace, counter):
    return next(c.help for c in trace.health.counters if c.counter == counter)


def header_behind(records=RECORDS):
    """A file that was written again with its header after the events."""
    return json.dumps({"traceEvents": records, **SPELLING.header}).encode()


def assert_whole(trace):
    """Check clock, device, rank and rows of the run."""
    whole = read(dump(RECORDS, SPELLING.header))
    assert trace.slices.start_ns.tolist() == whole.slices.start_ns.tolist()
    assert trace.slices.start_ns[0] > BASE_NS
    assert [trace.string(m) for m in trace.devices.model] == [GPU]
    assert (trace.meta.rank, trace.meta.world_size) == (3, 8)
    assert trace.meta == whole.meta


# --- what follows the end ---


@pytest.mark.parametrize("data", [dump(RECORDS, SPELLING.header), header_behind()])
@pytest.mark.parametrize("rest", [b"\nTraining finished.\n", b"}", b"\x00" * 9 + b"x"])
def test_text_after_the_end_changes_nothing_and_is_counted(data, rest):
    trace = read(data + rest)
    assert_whole(trace)
    assert counted(trace) == {"text-after-end": 1}


@pytest.mark.parametrize("data", [dump(RECORDS, SPELLING.header), header_behind()])
@pytest.mark.parametrize("between", [b"", b"\n", b",\n"])
def test_a_second_trace_is_named_and_not_mixed_with_the_first(data, between):
    trace = read(data + between + dump(RECORDS[:5], {"schemaVersion": 1}))
    assert_whole(trace)
    assert counted(trace) == {"further-trace": 1}
    assert "Save each as a file of its own" in help_of(trace, "further-trace")


def test_a_second_list_is_named():
    trace = read(dump(RECORDS, None) * 2)
    assert len(trace.slices) == len(read(dump(RECORDS, None)).slices)
    assert counted(trace) == {"further-trace": 1}


@pytest.mark.parametrize("damage", [b"NaN, ", b"null, ", b", ", b'{"ph": "X", "name": "a\\q"}, '])
def test_damage_in_an_event_costs_no_key_after_the_events(damage):
    data = header_behind()
    at = data.index(b'{"ph"', len(data) // 2)
    assert_whole(read(data[:at] + damage + data[at:]))


def test_a_header_that_is_cut_off_is_counted():
    data = header_behind()
    trace = read(data[: data.index(b'"distributedInfo"') + 5])
    assert [trace.string(m) for m in trace.devices.model] == [GPU]
    assert trace.meta.rank == -1
    assert counted(trace) == {"unreadable-header": 1}


def test_a_damaged_header_is_counted():
    data = dump(RECORDS, SPELLING.header).replace(
        b'"distributedInfo": {', b'"distributedInfo": {:', 1
    )
    trace = read(data)
    assert [trace.string(m) for m in trace.devices.model] == [GPU]
    assert trace.meta.rank == -1
    assert counted(trace) == {"unreadable-header": 1}


# --- files that end early ---


@pytest.mark.parametrize("header", [{}, SPELLING.header], ids=["records", "header"])
def test_a_file_cut_before_any_slice_is_refused_as_cut_off(header):
    names = [{"ph": "M", "name": "process_name", "pid": n, "args": {}} for n in range(9)]
    data = dump(names, header)
    for end in (len(data) - 30, data.index(b'{"ph"') - 2):
        with pytest.raises(CorruptInputError, match="cut off"):
            read_trace(Source(data[:end], "trace.json"))


HOST = [r for r in RECORDS if r.get("cat") == "cpu_op"] * 3


@pytest.mark.parametrize(
    "header", [None, SPELLING.header, {"displayTimeUnit": "ms"}], ids=["list", "device", "other"]
)
def test_a_file_cut_before_any_kernel_is_cut_off_not_without_an_accelerator(header):
    trace = read(dump(HOST, header)[:-30])
    assert decide(Facts(trace)).reason == Gap(Lack.DEVICE_ACTIVITY_CUT_OFF)
    assert trace.meta.idle_accelerator == ""


def test_calls_before_the_cut_do_not_prove_that_the_accelerator_was_idle():
    calls = [x("cuda_runtime", "cudaGetDevice", i, i + 1, pid=1, tid=1) for i in range(9)]
    trace = read(dump([*HOST, *calls], SPELLING.header)[:-30])
    assert decide(Facts(trace)).reason == Gap(Lack.DEVICE_ACTIVITY_CUT_OFF)
    assert trace.meta.idle_accelerator == ""


def test_a_cut_file_of_a_machine_without_an_accelerator_is_of_a_cpu():
    trace = read(dump(HOST, {"schemaVersion": 1, "deviceProperties": []})[:-30])
    assert not trace.meta.device_expected


# --- several ranks in one file ---


def of_rank(rank, pid):
    """Records of a rank on a GPU of its own, with processes numbered as a merging program does."""
    at = {"ts": 10, "dur": 50, "ph": "X", "pid": pid}
    on_device = {"cat": "kernel", "name": "gemm", "tid": 7, "args": {"device": rank, "stream": 7}}
    range_ = {"cat": "gpu_user_annotation", "name": "forward", "tid": 7, "args": {"External id": 1}}
    return [{**at, **range_}, {**at, **on_device}]


@pytest.mark.parametrize("pid_of", [int, "rank {} 0".format, lambda rank: 100_000 * (rank + 1)])
@pytest.mark.parametrize("order", [1, -1])
def test_merged_ranks_have_the_devices_that_their_work_names(pid_of, order):
    records = [r for rank in range(3) for r in of_rank(rank, pid_of(rank))[::order]]
    trace = read(dump(records, SPELLING.header))
    assert [trace.string(n) for n in trace.devices.name] == ["GPU:0", "GPU:1", "GPU:2"]
    assert [trace.string(m) for m in trace.devices.model] == [GPU] * 3


def test_ranks_that_number_their_only_device_alike_have_one_each():
    records = [r for rank in range(2) for r in of_rank(0, f"rank {rank}")]
    trace = read(dump(records, SPELLING.header))
    assert [trace.string(n) for n in trace.devices.name] == ["GPU:0", "GPU:0 (row rank 1)"]
