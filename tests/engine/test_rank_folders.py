"""Ranks that folders, and the names of files and folders, tell."""

import json

import pytest
from msgspec.structs import replace

from stepwhy.base.errors import SeveralRunsError
from stepwhy.engine import explain
from stepwhy.engine.rank_sets import Opened, numbered, why_several
from stepwhy.result.wording.notes import ranks_by_name
from stepwhy.trace import NULL
from stepwhy.trace.notation import parse
from tests.engine.test_explain import kineto


def opened(path, rank=NULL, world=NULL, **meta):
    trace = parse("unit: 1 ms\nmain step |[--][--]|")
    known = replace(trace.meta, format="kineto", rank=rank, world_size=world, **meta)
    return Opened(path, "kineto", replace(trace, meta=known))


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("x/rank0.json", "x/rank1.json"), (0, 1)),
        (("rank_10/t.json", "rank_9/t.json"), (10, 9)),
        (("node0/rank3.json", "node0/rank4.json"), (3, 4)),
        (("pax-process-0.parquet", "pax-process-1.parquet"), (0, 1)),
        (("host1_worker0.json", "host1_worker1.json"), (0, 1)),
    ],
)
def test_numbers_in_names_are_ranks_where_none_is_recorded(paths, expected):
    found, notes = numbered([opened(path) for path in paths])
    assert tuple(one.trace.meta.rank for one in found) == expected
    assert notes == [ranks_by_name()]
    assert not why_several([one.trace.meta for one in found])


@pytest.mark.parametrize(
    "paths",
    [
        ("run1.json", "run2.json"),
        ("before.json", "after.json"),
        ("step10.json", "step20.json"),
        ("rank0.json", "rank1_slow.json"),
        ("node0/rank0.json", "node1/rank1.json"),  # which of the two numbers?
        ("rank0.json", "rank0.json"),
        ("a/rank0.json", "b/rank0.json"),
        ("rank0.json",),
    ],
)
def test_other_names_do_not_make_a_run(paths):
    found, notes = numbered([opened(path) for path in paths])
    assert {one.trace.meta.rank for one in found} == {NULL}
    assert notes == []


def test_names_do_not_overrule_what_is_recorded():
    found, notes = numbered([opened("rank0.json", 1, 2), opened("rank1.json")])
    assert [one.trace.meta.rank for one in found] == [1, NULL]
    assert notes == []


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"rank": NULL}, "1 of them records no rank"),
        ({"framework": "jax"}, "their frameworks differ"),
        ({"world": 4}, "their numbers of ranks differ"),
        ({}, ""),
    ],
)
def test_the_reason_why_traces_are_no_set(others, why):
    second = opened("b", **{"rank": 1, "world": 2, **others})
    assert why_several([opened("a", 0, 2).trace.meta, second.trace.meta]) == why


def test_files_named_by_rank_are_one_run(tmp_path):
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text(kineto(slow=1.0 + rank))
    result = explain([str(tmp_path)])
    assert (result.run.ranks, result.run.world_size) == (2, None)
    assert ranks_by_name() in result.notes


def test_files_without_ranks_are_different_runs(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(kineto())
    with pytest.raises(SeveralRunsError, match=r"2 different runs.*: 2 of them record no rank"):
        explain([str(tmp_path)])


def test_a_damaged_world_size_lists_no_missing_ranks(tmp_path):
    for rank in range(2):
        (tmp_path / f"{rank}.json").write_text(kineto(rank, world=1 << 40))
    assert not [note for note in explain([str(tmp_path)]).notes if "missing" in note]


# --- folders of torch_npu -------------------------------------------------------------------------


def npu(folder, rank, slow=1.0, groups=None):
    """A folder as torch_npu writes it, with a trace that does not record its rank."""
    root = folder / f"host_{100 + rank}_2024_ascend_pt"
    (root / "ASCEND_PROFILER_OUTPUT").mkdir(parents=True)
    (root / "PROF_1/mindstudio_profiler_output").mkdir(parents=True)
    document = json.loads(kineto(slow=slow))
    document.pop("distributedInfo", None)
    text = json.dumps(document)
    (root / "ASCEND_PROFILER_OUTPUT/trace_view.json").write_text(text)
    (root / "ASCEND_PROFILER_OUTPUT/communication.json").write_text("{}")
    (root / "PROF_1/mindstudio_profiler_output/msprof_1.json").write_text(text)
    (root / f"profiler_info_{rank}.json").write_text(json.dumps({"rank_id": rank}))
    if groups is not None:
        (root / "profiler_metadata.json").write_text(groups)
    return root


GROUPS = json.dumps(
    {
        "parallel_group_info": {
            "a": {"group_name": "default_group", "global_ranks": [0, 1, 2, 3]},
            "b": {"group_name": "tp", "global_ranks": [0, 1]},
        }
    }
)


def test_folders_of_torch_npu_are_ranks(tmp_path):
    for rank in range(2):
        npu(tmp_path, rank, groups=GROUPS)
    result = explain([str(tmp_path)])
    assert (result.run.ranks, result.run.world_size) == (2, 4)
    assert [i.path.rpartition("/")[2] for i in result.inputs] == ["trace_view.json"] * 2
    assert not any("Left out" in note for note in result.notes)
    assert any(note.startswith("Ranks 2, 3 are missing") for note in result.notes)


@pytest.mark.parametrize(
    "groups",
    [None, "{", "[]", '{"parallel_group_info": {"a": {"global_ranks": [1, 3]}}}', "[" * 10_000],
)
def test_a_job_of_unknown_size(tmp_path, groups):
    for rank in range(2):
        npu(tmp_path, rank, groups=groups)
    result = explain([str(tmp_path)])
    assert (result.run.ranks, result.run.world_size) == (2, None)


def test_a_folder_with_two_infos_tells_no_rank(tmp_path):
    root = npu(tmp_path, 0)
    (root / "profiler_info_7.json").write_text("{}")
    assert explain([str(tmp_path)]).run.world_size is None


def test_one_trace_of_torch_npu_by_its_path(tmp_path):
    root = npu(tmp_path, 1, groups=GROUPS)
    result = explain([str(root / "ASCEND_PROFILER_OUTPUT/trace_view.json")])
    assert result.run.world_size == 4


# --- run directories of several ranks -------------------------------------------------------------


def run_of_rank(folder, rank, *, world=2, window=True, beside=False):
    """A run directory that one `stepwhy run` per rank wrote."""
    root = folder / f"rank-{rank}"
    process = root / f"process-{10 + rank}"
    (process / "windows/000").mkdir(parents=True)
    (root / "run.json").write_text(json.dumps({"schema": "stepwhy.run/1", "exit_code": 0}))
    about = {"framework": "pytorch", "rank": rank, "world_size": world, "ended_ns": 9}
    (process / "process.json").write_text(json.dumps(about))
    log = [{"kind": "step", "start_ns": i * 10**6, "end_ns": (i + 1) * 10**6} for i in range(9)]
    (process / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    if window:
        (process / "windows/000/trace.json").write_text(kineto())
    if beside:
        other = root / "process-99"
        other.mkdir()
        (other / "process.json").write_text(json.dumps({"framework": "pytorch"}))
        (other / "steps.jsonl").write_text(json.dumps(log[0]) + "\n")
    return root


def test_run_directories_of_the_ranks_are_one_run(tmp_path):
    for rank in range(2):
        run_of_rank(tmp_path, rank)
    run = explain([str(tmp_path)]).run
    assert (run.ranks, run.world_size) == (2, 2)


def test_another_process_of_a_rank_is_left_out(tmp_path):
    for rank in range(2):
        run_of_rank(tmp_path, rank, beside=rank == 0)
    result = explain([str(tmp_path)])
    assert result.run.ranks == 2
    assert any("process-99" in note for note in result.notes)


def test_a_rank_without_a_traced_step_is_a_rank(tmp_path):
    run_of_rank(tmp_path, 0)
    run_of_rank(tmp_path, 1, window=False)
    assert explain([str(tmp_path)]).run.ranks == 2
