"""Read dumps of PyTorch's flight recorder."""

import pickle
from pathlib import Path

import pytest
from tests.read.flight_recorder_samples import (
    STARTED_NS,
    as_json,
    entry,
    hung,
    pickled,
    seeds,
)

from stepwhy.base.errors import CorruptInputError, EmptyInputError
from stepwhy.engine.explain import explain
from stepwhy.engine.opening import open_one
from stepwhy.read.formats.flight_recorder.reader import read as read_source
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.trace import NULL


def read(data, name="nccl_trace_rank_3"):
    return read_source(Source(data, name, Path(name)))


def column(trace, name):
    return [trace.string(int(row)) for row in getattr(trace.collective_calls, name)]


def write_all(folder, dumps):
    for name, data in dumps.items():
        (folder / name).write_bytes(data)
    return [str(folder / name) for name in dumps]


@pytest.mark.parametrize(("write", "line"), [(pickled, "work/train.py(7): step"), (as_json, "")])
def test_the_collectives_of_a_rank(write, line):
    trace = read(write(entry(1), entry(2, "nccl:_all_gather_base", shape=(2, 3), done=False)))
    calls = trace.collective_calls
    assert (trace.meta.format, trace.meta.rank, trace.meta.world_size) == ("flight-recorder", 3, 2)
    assert calls.sequence.tolist() == [1, 2]
    assert column(trace, "operation") == ["all_reduce", "all_gather_base"]
    assert column(trace, "line") == [line, line]
    assert column(trace, "group") == ["0", "0"]
    assert column(trace, "members") == ["[0, 1]", "[0, 1]"]
    assert calls.elements.tolist() == [4, 6]
    assert calls.done.tolist() == [1, 0]
    assert calls.dur_ns.tolist() == [2_000_000, NULL]
    assert calls.entered_ns.tolist() == [STARTED_NS + 10**9, STARTED_NS + 2 * 10**9]


def test_dumps_are_recognised_by_their_content():
    for files in seeds():
        for name, data in files.items():
            trace, found = read_trace(Source(data, name))
            assert (found, len(trace.collective_calls) > 0) == ("flight-recorder", True)


@pytest.mark.parametrize(
    "name", ["nccl_trace_rank_12", "rank12.json", "comm_lib_trace_rank_12", "job.RANK-12.bin"]
)
def test_the_name_tells_the_rank(name):
    assert read(pickled(entry(1)), name).meta.rank == 12
    assert read(pickled(entry(1)), "dump").meta.rank == NULL


@pytest.mark.parametrize("write", [pickled, as_json])
def test_several_dumps_are_one_run_and_name_who_hangs(tmp_path, write):
    names = write_all(tmp_path, {f"trace_rank_{r}": hung(r, write) for r in range(4)})
    result = explain(names)
    assert (result.run.ranks, result.run.world_size) == (4, 4)
    assert result.findings[0].id == "hung-collective"
    seen = "was last seen at work/train.py:7 and " if write is pickled else ""
    assert result.run.ending == f"Rank 1 {seen}has not entered all_reduce 5; 3 others wait in it."
    assert not any("ns per step" in note for note in result.notes)


def test_a_rank_that_is_late_has_no_cost_per_step(tmp_path):
    late = [entry(number, duration_ms=2.0) for number in range(1, 41)]
    waiting = [entry(number, duration_ms=502.0) for number in range(1, 41)]
    names = write_all(tmp_path, {"rank_0": pickled(*late), "rank_1": pickled(*waiting)})
    found = next(one for one in explain(names).findings if one.id == "late-arrival")
    assert (found.verdict, found.evidence[0].value) == ("found", "rank 0")
    assert found.cost_ns_per_step is None


def test_the_files_of_a_folder_need_no_ending(tmp_path):
    write_all(tmp_path, {f"nccl_trace_rank_{r}": hung(r) for r in range(4)})
    assert explain([str(tmp_path)]).findings[0].verdict == "found"


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("write", [pickled, as_json])
def test_a_dump_that_is_cut_off_loses_only_its_end(write, share):
    data = write(*(entry(n) for n in range(1, 41)))
    trace = read(data[: int(len(data) * share)])
    count = len(trace.collective_calls)
    assert 0 < count <= 40 * share
    assert trace.collective_calls.sequence.tolist() == list(range(1, count + 1))
    assert trace.health.has("dump-truncated")


def test_damaged_entries_are_left_out_and_counted():
    bad = [{**entry(2), "profiling_name": 3}, {**entry(3), "collective_seq_id": -4}, "x"]
    trace = read(pickled(entry(1), *bad, entry(4)))
    assert trace.collective_calls.sequence.tolist() == [1, 4]
    assert {c.counter: c.count for c in trace.health.counters} == {"damaged-entry": 3}


def test_a_second_dump_in_the_same_file_is_named():
    trace = read(pickled(entry(1)) + pickled(entry(2)))
    assert trace.collective_calls.sequence.tolist() == [1]
    assert trace.health.has("further-trace")


class Harmful:
    def __reduce__(self):
        return (open, ("harm", "w"))


def test_a_pickle_that_calls_something_is_refused_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps({"pg_config": {}, "entries": [entry(1), Harmful()]}, protocol=2)
    with pytest.raises(CorruptInputError, match="could run code"):
        read(data)
    assert not list(tmp_path.iterdir())


def test_a_dump_without_collectives_is_empty():
    with pytest.raises(EmptyInputError, match="no collective"):
        read(pickled())
    with pytest.raises(CorruptInputError, match="list of collectives is missing"):
        read(b"\x80\x02}q\x00X\x09\x00\x00\x00pg_configN")


def test_the_trace_is_sound(tmp_path):
    (name,) = write_all(tmp_path, {"nccl_trace_rank_0": hung(0)})
    trace = open_one(name).trace
    assert (trace.health.events_read, trace.health.events_kept) == (5, 5)
    assert not len(trace.slices)
