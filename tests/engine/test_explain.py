"""From paths to one result."""

from __future__ import annotations

import json

import pytest

from stepwhy.base.errors import (
    NotFoundError,
    NoTracesError,
    SeveralRunsError,
    UnsupportedFormatError,
)
from stepwhy.engine import explain
from stepwhy.result import CATEGORIES
from stepwhy.result.reasons import RankChoice
from stepwhy.result.wording.notes import left_out, rank_note

STEP_US = 1000


def kineto(rank=None, steps=4, slow=1.0, world=2):
    """A loop of `steps` steps: 100 us launch, then a kernel of 700 us, then a sync of 200 us."""
    events = []
    for i in range(steps):
        start = int(i * STEP_US * slow)
        length = int(STEP_US * slow)
        host = {"ph": "X", "pid": 10, "tid": 10}
        device = {"ph": "X", "pid": 0, "tid": 7}
        events += [
            {
                **host,
                "cat": "user_annotation",
                "name": f"ProfilerStep#{i}",
                "ts": start,
                "dur": length,
            },
            {**host, "cat": "cpu_op", "name": "aten::mm", "ts": start, "dur": 100},
            {
                **host,
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "ts": start + 50,
                "dur": 50,
                "args": {"correlation": i + 1},
            },
            {
                **device,
                "cat": "kernel",
                "name": "gemm",
                "ts": start + 100,
                "dur": length - 300,
                "args": {"device": 0, "stream": 7, "correlation": i + 1},
            },
            {
                **host,
                "cat": "cuda_runtime",
                "name": "cudaDeviceSynchronize",
                "ts": start + 100,
                "dur": length - 100,
            },
        ]
    document = {"schemaVersion": 1, "traceEvents": events}
    if rank is not None:
        document["distributedInfo"] = {"rank": rank, "world_size": world}
    return json.dumps(document)


def test_hand_computed_breakdown(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(kineto())
    result = explain([str(path)])
    expected = dict.fromkeys(CATEGORIES, 0) | {
        "compute": 700_000,
        "sync": 200_000,
        "dispatch": 100_000,
    }
    assert result.breakdown.categories == expected
    assert result.breakdown.wall_ns == 1_000_000
    assert (result.steps.count, result.steps.source, result.steps.median_ns) == (
        4,
        "marker",
        1_000_000,
    )
    device = result.devices[0]
    assert (device.name, device.kind, device.busy_ns, device.busy_fraction) == (
        "GPU:0",
        "gpu",
        700_000,
        0.7,
    )
    assert result.trace.devices[0].kernel_ns == 4 * 700_000
    assert result.inputs[0].events_read == 20
    assert result.verdict.bound_by == "compute"
    assert "(70 %); 30 % is lost to the host." in result.verdict.sentence


def test_ranks_of_one_run(tmp_path):
    for rank, slow in ((0, 1.0), (1, 2.0)):
        (tmp_path / f"rank{rank}.json").write_text(kineto(rank, slow=slow))
    result = explain([str(tmp_path)])
    assert (result.run.ranks, result.run.world_size) == (2, 2)
    assert [d.name for d in result.devices] == ["rank 0 GPU:0", "rank 1 GPU:0"]
    assert result.breakdown.wall_ns == 2_000_000
    slowest = RankChoice(1, 2, True, 2_000_000, 1_000_000, 1_700_000, (0, 700_000))
    assert result.notes[0] == rank_note(slowest)


def test_of_ranks_alike_the_one_that_the_others_wait_for_speaks(tmp_path):
    waits = json.loads(kineto(0))
    for event in waits["traceEvents"]:
        if event.get("cat") == "kernel":
            event["name"] = "ncclDevKernel_AllReduce_Sum_f32"
    (tmp_path / "rank0.json").write_text(json.dumps(waits))
    (tmp_path / "rank1.json").write_text(kineto(1, slow=0.97))
    result = explain([str(tmp_path)])
    assert result.breakdown.categories["communication"] == 0
    busiest = RankChoice(1, 2, False, 1_000_000, 970_000, 670_000, (0, 0))
    assert result.notes[0] == rank_note(busiest)


def test_different_runs_are_not_mixed(tmp_path):
    for name, slow in (("a", 1.0), ("b", 2.0)):
        (tmp_path / f"{name}.json").write_text(kineto(rank=0, slow=slow))
    with pytest.raises(SeveralRunsError, match="2 different runs"):
        explain([str(tmp_path / "*.json")])


def test_unreadable_neighbours_are_named(tmp_path):
    (tmp_path / "good.json").write_text(kineto())
    (tmp_path / "other.json").write_text("{}")
    result = explain([str(tmp_path)])
    assert list(result.notes[-1:]) == left_out(["other.json is no trace that stepwhy knows"])


@pytest.mark.parametrize("name", ["trace.json.gz", "run.sqlite", "net.sql", "a.nvvp"])
def test_in_a_folder_only_files_with_usual_names_are_tried(tmp_path, name):
    (tmp_path / name).write_text(kineto())  # the content decides what it is
    (tmp_path / "notes.txt").write_text("hello")
    assert not [n for n in explain([str(tmp_path)]).notes if n.startswith("Left out")]


def test_a_folder_without_a_readable_file_names_the_first(tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(NoTracesError, match=r"the first: a\.json is no trace that .* knows\. "):
        explain([str(tmp_path)])


def test_progress_is_reported(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(kineto())
    calls = []
    explain([str(path)], lambda text, done, total: calls.append((text, done, total)))
    assert calls == [("reading trace.json", 0, 1), (f"analysing {path}", 0, 1)]


def test_nothing_there(tmp_path):
    with pytest.raises(NotFoundError, match="does not exist"):
        explain([str(tmp_path / "no.json")])


def test_empty_folder(tmp_path):
    with pytest.raises(NoTracesError, match="empty folder"):
        explain([str(tmp_path)])


def test_folder_without_traces(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "more.txt").write_text("hello")
    with pytest.raises(NoTracesError, match="none of the 2 files"):
        explain([str(tmp_path)])


def test_addresses_of_an_unknown_kind_are_refused():
    with pytest.raises(UnsupportedFormatError, match="Download the trace"):
        explain(["ftp://example.org/trace.json"])
