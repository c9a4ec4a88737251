"""Waits between streams and host, and what is recorded about collectives."""

import gzip
import json
import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from tests.kineto_samples import dump, x
from tests.read.cuda_samples import Nsys, Nvprof, global_id, source_of

from stepwhy.read.formats.kineto import reader as kineto
from stepwhy.read.formats.nsys import reader as nsys
from stepwhy.read.formats.nvprof import reader as nvprof
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.trace import NULL, WaitKind

TRACES = os.environ.get("STEPWHY_TRACES")
recorded = pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces")


def waits_of(trace):
    """(kind, slice, waiting, awaited, event) of every wait, by name; '' for null."""
    waits = trace.waits
    rows = zip(waits.kind, waits.slice, waits.waiting, waits.awaited, waits.event, strict=True)
    return [
        (
            WaitKind(kind).name,
            _slice(trace, row),
            _track(trace, waiting),
            _track(trace, awaited),
            _slice(trace, event),
        )
        for kind, row, waiting, awaited, event in rows
    ]


def _slice(trace, row):
    return "" if row == NULL else trace.string(trace.slices.name[row])


def _track(trace, row):
    return "" if row == NULL else trace.string(trace.tracks.name[row])


# --- Kineto --------------------------------------------------------------------------------------


def call(name, start, correlation):
    return x(
        "cuda_runtime", name, start, start + 2, pid=1, tid=1, args={"correlation": correlation}
    )


def work(name, start, end, stream, correlation=0, *, cat="kernel", **args):
    args = {"device": 0, "stream": stream, "correlation": correlation, **args}
    return x(cat, name, start, end, pid=0, tid=stream, args=args)


def sync(name, start, stream, correlation, **args):
    return work(name, start, start + 1, stream, correlation, cat="cuda_sync", **args)


def read_records(*records):
    return kineto.read(Source(dump([*records], {"schemaVersion": 1}), "a.json"))


def test_a_stream_waits_for_the_event_that_a_call_recorded_on_another():
    trace = read_records(
        work("k", 1, 5, 7),
        call("cudaEventRecord", 10, 2),
        call("cudaStreamWaitEvent", 12, 3),
        sync(
            "Stream Wait Event",
            13,
            20,
            3,
            wait_on_stream=7,
            wait_on_cuda_event_record_corr_id=2,
        ),
        work("later", 30, 35, 20),
    )
    assert waits_of(trace) == [
        ("STREAM_EVENT", "cudaStreamWaitEvent", "stream 20", "stream 7", "cudaEventRecord")
    ]
    assert trace.waits.time_ns.tolist() == [13_000]


def test_the_awaited_stream_may_follow_later_in_the_file_or_never():
    trace = read_records(
        sync("Stream Wait Event", 1, 20, 3, wait_on_stream=7),
        sync("Stream Wait Event", 2, 20, 4, wait_on_stream=8),
        work("k", 5, 6, 7),
    )
    assert [wait[1:4] for wait in waits_of(trace)] == [
        ("Stream Wait Event", "stream 20", "stream 7"),
        ("Stream Wait Event", "stream 20", "stream 8"),
    ]


def test_the_host_waits_for_events_streams_and_devices():
    trace = read_records(
        call("cudaEventSynchronize", 0, 1),
        sync("Event Sync", 0.5, -1, 1, wait_on_stream=7),
        call("cudaStreamSynchronize", 10, 2),
        sync("Stream Sync", 10.5, 7, 2),
        call("cudaDeviceSynchronize", 20, 3),
        sync("Context Sync", 20.5, -1, 3),
    )
    assert waits_of(trace) == [
        ("EVENT", "cudaEventSynchronize", "", "stream 7", ""),
        ("STREAM", "cudaStreamSynchronize", "", "stream 7", ""),
        ("DEVICE", "cudaDeviceSynchronize", "", "", ""),
    ]


def test_a_query_does_not_wait():
    query = sync("Event Sync", 0.5, -1, 1, wait_on_stream=7)
    assert waits_of(read_records(call("cudaEventQuery", 0, 1), query)) == []


def test_collectives_name_their_group_and_size():
    known = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": 8}
    known |= {"Process Group Ranks": "[0, 1, 2]", "Process Group Description": "default_pg"}
    sizes = {"In msg nelems": 100, "Out msg nelems": 800, "dtype": "BFloat16"}
    trace = read_records(
        work("ncclDevKernel_AllReduce", 0, 5, 9, **known, **sizes),
        work("ncclDevKernel_AllReduce", 10, 15, 9, **known, **sizes | {"dtype": "Unheard"}),
        work("ncclDevKernel_AllGather", 20, 25, 9),
    )
    table = trace.collectives
    assert table.slice.tolist() == [0, 1]
    assert table.ranks.tolist() == [8, 8]
    assert [trace.string(i) for i in table.operation] == ["allreduce", "allreduce"]
    assert [trace.string(i) for i in table.group] == ["0", "0"]
    assert [trace.string(i) for i in table.members] == ["[0, 1, 2]"] * 2
    assert [trace.string(i) for i in table.description] == ["default_pg"] * 2
    assert trace.slices.bytes.tolist() == [1600, NULL, NULL]


# --- databases -----------------------------------------------------------------------------------


def test_synchronisation_records_of_nsys_are_waits(tmp_path):
    sample = Nsys().kernel("k", 0, 5)
    for correlation, name in ((1, "StreamWaitEvent"), (2, "StreamSynchronize"), (3, "EventQuery")):
        sample.call(f"cuda{name}_v3020", 10 * correlation, 10 * correlation + 5, correlation)
    # Versions of 2026 write a stream's wait (2) for cudaStreamSynchronize as well.
    for correlation, kind, stream in ((1, 2, 24), (2, 3, 7), (2, 2, 7), (3, 1, 2**32 - 1)):
        sample.add(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            start=10 * correlation + 1, end=10 * correlation + 4, deviceId=0, streamId=stream,
            correlationId=correlation, globalPid=global_id(700), syncType=kind,
        )  # fmt: skip
    trace = nsys.read(source_of(sample.write(tmp_path / "a.sqlite")))
    assert waits_of(trace) == [
        ("STREAM_EVENT", "cudaStreamWaitEvent", "stream 24", "", ""),
        ("STREAM", "cudaStreamSynchronize", "", "stream 7", ""),
        ("STREAM", "cudaStreamSynchronize", "", "stream 7", ""),
    ]


def test_waits_of_a_process_are_on_the_device_of_its_kernels(tmp_path):
    sample = Nsys().kernel("k", 0, 5, pid=1, device=0).kernel("k", 0, 5, pid=2, device=1)
    for pid in (1, 2, 3):
        sample.add(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            start=pid, end=9, deviceId=0, streamId=7, correlationId=0, globalPid=global_id(pid),
            syncType=3,
        )  # fmt: skip
    trace = nsys.read(source_of(sample.write(tmp_path / "a.sqlite")))
    assert len(trace.devices) == 2
    assert trace.waits.awaited.tolist() == [*sorted(trace.slices.track.tolist()), NULL]


def test_synchronisation_records_of_nvprof_are_waits(tmp_path):
    sample = Nvprof().kernel("k", 0, 5, device=1).call(131, 10, 20, 4)
    sample.add("CONTEXT", contextId=3, deviceId=1)
    sample.add(
        "SYNCHRONIZATION", type=3, start=11, end=19, correlationId=4, contextId=3, streamId=7
    )
    trace = nvprof.read(source_of(sample.write(tmp_path / "a.nvvp")))
    assert waits_of(trace) == [("STREAM", "cudaStreamSynchronize", "", "stream 7", "")]
    assert trace.waits.awaited.tolist() == trace.slices.track[:1].tolist()


# --- recorded traces -----------------------------------------------------------------------------


def records_of(path):
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(data)["traceEvents"]


def read_file(path):
    return read_trace(read_source(path))[0]


SYNCHRONISED = {
    "a100_alexnet_forward": 41, "a100_cuda_event_sync": 3, "a100_simple_add": 41,
}  # fmt: skip


@pytest.mark.parametrize("name", SYNCHRONISED)
@pytest.mark.traces
@recorded
def test_waits_of_recorded_traces_are_those_of_the_file(name):
    path = Path(TRACES, "kineto", f"{name}.json.gz")
    records = [r for r in records_of(path) if r.get("ph") == "X"]
    calls = {r["args"]["correlation"]: r["name"] for r in records if r["cat"] == "cuda_runtime"}
    expected = Counter()
    for record in records:
        args = record["args"]
        if record["cat"] != "cuda_sync" or calls[args["correlation"]] == "cudaEventQuery":
            continue
        stream, awaited = f"stream {record['tid']}", f"stream {args.get('wait_on_stream')}"
        kind = args["cuda_sync_kind"]
        expected[
            calls[args["correlation"]],
            stream if kind == "Stream Wait Event" else "",
            {"Stream Sync": stream, "Context Sync": ""}.get(kind, awaited),
            calls.get(args.get("wait_on_cuda_event_record_corr_id"), ""),
        ] += 1
    assert Counter(wait[1:] for wait in waits_of(read_file(path))) == expected
    assert expected.total() == SYNCHRONISED[name]


@pytest.mark.traces
@recorded
@pytest.mark.parametrize("name", ["a100_ddp_rank0of2_2024", "mi300_ddp_resnet_actckpt_rank0of8"])
def test_collectives_of_recorded_traces_are_those_of_the_file(name):
    path = Path(TRACES, "kineto", f"{name}.json.gz")
    kernels = [r["args"] for r in records_of(path) if r.get("cat") == "kernel"]
    width = {"Float": 4, "BFloat16": 2, "Long": 8}
    expected = Counter(
        (a["Collective name"], a["Group size"], a["In msg nelems"] * width[a["dtype"]])
        for a in kernels
        if "Group size" in a
    )
    trace = read_file(path)
    table = trace.collectives
    sizes = trace.slices.bytes[table.slice].tolist()
    names = [trace.string(i) for i in table.operation]
    assert Counter(zip(names, table.ranks.tolist(), sizes, strict=True)) == expected


@pytest.mark.traces
@recorded
@pytest.mark.parametrize("name", ["h100_2gpu_seqparallel_after", "h100_2gpu_seqparallel_before"])
def test_waits_of_recorded_databases_are_those_of_the_file(name):
    path = Path(TRACES, "nsys", f"{name}.sqlite")
    query = "SELECT syncType, streamId FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION WHERE syncType > 1"
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        expected = Counter(database.execute(query).fetchall())
    found = Counter(
        (WaitKind[kind], int((waiting or awaited).removeprefix("stream ")))
        for kind, _, waiting, awaited, _ in waits_of(read_file(path))
    )
    assert found == expected
