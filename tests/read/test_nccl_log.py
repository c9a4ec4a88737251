"""Read logs of NCCL."""

from pathlib import Path

import pytest
from tests.read.nccl_log_samples import call, head, hung, log, made, seeds

from stepwhy.base.errors import EmptyInputError
from stepwhy.engine.explain import explain
from stepwhy.read.formats.nccl_log import reader
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.trace import NULL


def read(data):
    return reader.read(Source(data, "out.log", Path("out.log")))


def column(trace, name):
    return [trace.string(int(row)) for row in getattr(trace.collective_calls, name)]


def test_the_calls_of_two_ranks_in_one_file():
    trace = read(log(made(0), made(1), call(0, 10), call(1, 10, "AllGather", kind=9)))
    calls = trace.collective_calls
    assert (trace.meta.format, trace.meta.rank, trace.meta.world_size) == ("nccl-log", 0, 2)
    assert calls.of_rank.tolist() == [0, 1]
    assert calls.sequence.tolist() == [10, 10]
    assert column(trace, "operation") == ["AllReduce", "AllGather"]
    assert column(trace, "types") == ["float32", "bfloat16"]
    assert column(trace, "members") == ["[0, 1]", "[0, 1]"]
    assert calls.elements.tolist() == [64, 64]
    assert calls.done.tolist() == [NULL, NULL]


def test_logs_are_recognised_among_other_text():
    for files in seeds():
        for name, data in files.items():
            assert read_trace(Source(data, name))[1] == "nccl-log"
    assert not reader.recognise(Source(b'{"name": "node:1:2 [0] NCCL INFO x"}', "x"))
    assert not reader.recognise(Source(b"NCCL version 2.20\nloss 0.5\n", "x"))


@pytest.mark.parametrize("ranks", [((0, 1, 2, 3),), ((0,), (1,), (2,), (3,))])
def test_a_rank_that_is_behind_hangs(tmp_path, ranks):
    for number, some in enumerate(ranks):
        (tmp_path / f"{number}.log").write_bytes(hung(*some))
    result = explain([str(tmp_path)])
    assert result.run.ending == "Rank 1 has not entered AllReduce 15; 3 others wait in it."
    assert result.findings[0].id == "hung-collective"


def test_calls_that_differ(tmp_path):
    lines = [made(0), made(1), call(0, 4), call(1, 4, count=65)]
    (tmp_path / "out.log").write_bytes(log(*lines))
    result = explain([str(tmp_path / "out.log")])
    assert result.run.ending == (
        "Rank 1 gives 65 elements to AllReduce 4, but rank 0 gives 64 elements."
    )


def test_a_rank_is_that_of_its_largest_communicator():
    """Ranks 2 and 3 of four are ranks 0 and 1 of a smaller communicator."""
    small = [
        head(rank) + f"ncclCommSplit comm 0x77{rank} rank {rank - 2} nranks 2 cudaDev 0 nvmlDev 0 "
        "busId 1000 parent 0x55a0 color 1 key 0 commId 0xabc - Init COMPLETE\n"
        for rank in (2, 3)
    ]
    whole = [made(rank, 4) for rank in (2, 3)]
    calls = [call(rank, 1, comm="0x77") for rank in (2, 3)]
    trace = read(log(*small, *whole, *calls))
    assert trace.collective_calls.of_rank.tolist() == [2, 3]
    assert column(trace, "group") == ["0xabc", "0xabc"]
    assert column(trace, "members") == ["[2, 3]", "[2, 3]"]
    assert column(trace, "description") == ["2 ranks", "2 ranks"]


def test_communicators_of_older_versions_are_told_apart_by_their_order():
    lines = [made(0, comm_id=""), made(0, comm_id="", comm="0x66")]
    trace = read(log(*lines, call(0, 1), call(0, 1, comm="0x66")))
    assert column(trace, "group") == ["no. 1 of 2 ranks", "no. 2 of 2 ranks"]


def test_the_creation_of_a_communicator_may_be_missing():
    trace = read(log(call(0, 1)))
    assert trace.collective_calls.of_rank.tolist() == [NULL]
    assert trace.meta.rank == NULL


def test_of_very_many_calls_the_newest_are_kept():
    count = reader._MOST_CALLS + 10
    trace = read(log(made(0), *(call(0, n) for n in range(count))))
    assert trace.collective_calls.sequence[0] == 10
    assert {c.counter: c.count for c in trace.health.counters} == {"older-call": 10}


def test_a_log_without_calls_says_what_to_log():
    with pytest.raises(EmptyInputError, match="NCCL_DEBUG_SUBSYS=INIT,COLL"):
        read(log(made(0)))


def test_a_torn_line_is_no_call():
    data = log(made(0), call(0, 1), call(0, 2))
    trace = read(data[:-40])
    assert trace.collective_calls.sequence.tolist() == [1]
    assert trace.health.has("log-truncated")
    assert not read(data).health.counters


def test_a_second_log_of_the_same_ranks_is_left_out_and_named():
    data = log(made(0), call(0, 1), call(0, 2))
    trace = read(data + data)
    assert trace.collective_calls.sequence.tolist() == [1, 2, 2]
    assert {c.counter: c.count for c in trace.health.counters} == {"repeated-call": 1}
