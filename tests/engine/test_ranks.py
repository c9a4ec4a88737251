"""Several ranks as one result: who speaks, what is listed, and what is said of the others."""

import json
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stepwhy.base.errors import SeveralRunsError
from stepwhy.engine import explain
from stepwhy.engine.analysed import analyse
from stepwhy.engine.merging import check_one_run
from stepwhy.engine.rank_findings import of_every_rank
from stepwhy.engine.rank_sets import Opened, same_run
from stepwhy.engine.ranks import combine
from stepwhy.result import Evidence, Finding, Saving
from stepwhy.result.reasons import RankChoice
from stepwhy.result.wording.notes import rank_note
from stepwhy.trace import NULL, Meta
from stepwhy.trace.notation import parse
from tests.engine.test_explain import kineto


def meta(rank, world=2, framework="pytorch", format_name="kineto"):
    return Meta(format_name, framework, rank=rank, world_size=world)


@pytest.mark.parametrize(
    ("metas", "expected"),
    [
        ([meta(0)], True),
        ([meta(0), meta(1)], True),
        ([meta(3, 8), meta(1, 8)], True),  # not all were recorded
        ([meta(0), meta(0)], False),
        ([meta(0), meta(NULL)], False),
        ([meta(0, 2), meta(1, 4)], False),
        ([meta(0), meta(1, framework="jax")], False),
        ([meta(0), meta(1, format_name="nsys")], False),
    ],
)
def test_ranks_of_one_run_have_one_size_and_each_its_number(metas, expected):
    assert same_run(metas) is expected


def write_ranks(folder, slows, world=None):
    """Ranks whose step and kernel are so many times longer, all in one folder."""
    for rank, slow in enumerate(slows):
        text = kineto(rank, slow=slow, world=world or len(slows))
        (folder / f"rank{rank}.json").write_text(text)


def test_the_slowest_of_four_speaks(tmp_path):
    write_ranks(tmp_path, (1.0, 1.5, 3.0, 2.0))
    result = explain([str(tmp_path)])
    assert result.breakdown.wall_ns == 3_000_000
    assert sum(result.breakdown.categories.values()) == 3_000_000
    slowest = RankChoice(2, 4, True, 3_000_000, 1_000_000, 2_700_000, (0, 700_000))
    assert result.notes[0] == rank_note(slowest)
    assert [d.name for d in result.devices] == [f"rank {n} GPU:0" for n in range(4)]
    assert [d.compute_ns for d in result.devices] == [700_000, 1_200_000, 2_700_000, 1_700_000]
    assert [d.kernel_ns for d in result.trace.devices] == [4 * d.compute_ns for d in result.devices]
    assert result.trace.span_ns == 12_000_000
    assert [i.path.rpartition("/")[2] for i in result.inputs] == [f"rank{n}.json" for n in range(4)]


def test_ranks_are_listed_by_number(tmp_path):
    write_ranks(tmp_path, [1.0] * 11)
    result = explain([str(tmp_path / "rank*.json")])
    assert [d.name for d in result.devices] == [f"rank {n} GPU:0" for n in range(11)]
    assert [i.path.rpartition("/")[2] for i in result.inputs] == [
        f"rank{n}.json" for n in range(11)
    ]


def test_ranks_within_a_twentieth_are_alike(tmp_path):
    """Rank 0 is faster by less than noise and waits no more for the others: it is the first."""
    write_ranks(tmp_path, (0.96, 1.0))
    first = RankChoice(0, 2, False, 1_000_000, 960_000, 660_000)
    assert explain([str(tmp_path)]).notes[0] == rank_note(first)


def test_order_of_the_names_does_not_matter(tmp_path):
    write_ranks(tmp_path, (1.0, 2.0))
    names = [str(tmp_path / f"rank{n}.json") for n in (1, 0)]
    result, other = explain(names), explain(names[::-1])
    assert result.breakdown == other.breakdown
    assert sorted(d.name for d in result.devices) == [d.name for d in other.devices]
    assert (result.run.ranks, other.run.ranks) == (2, 2)


def test_some_ranks_of_a_larger_job(tmp_path):
    write_ranks(tmp_path, (1.0, 2.0), world=64)
    run = explain([str(tmp_path / "rank*.json")]).run
    assert (run.ranks, run.world_size) == (2, 64)


def test_one_rank_alone_is_not_named(tmp_path):
    write_ranks(tmp_path, (1.0,), world=8)
    result = explain([str(tmp_path)])
    assert [d.name for d in result.devices] == ["GPU:0"]
    assert (result.run.ranks, result.run.world_size) == (1, 8)


def test_what_cannot_be_read_beside_the_ranks_is_named(tmp_path):
    write_ranks(tmp_path, (1.0, 2.0))
    (tmp_path / "rank2.json").write_text('{"traceEvents": [')
    result = explain([str(tmp_path)])
    assert result.run.ranks == 2
    assert result.notes[-1].startswith("Left out: rank2.json")


def test_ranks_and_something_else_are_not_mixed(tmp_path):
    write_ranks(tmp_path, (1.0, 2.0))
    (tmp_path / "evaluation.json").write_text(kineto())
    with pytest.raises(SeveralRunsError, match=r"3 different runs.*evaluation\.json"):
        explain([str(tmp_path)])


def test_of_two_runs_the_first_run_is_named_not_its_process():
    meta = parse("unit: 1 ms\nmain step |[-]|\n").meta
    runs = [SimpleNamespace(path=f"runs/{name}/process-7", meta=meta) for name in "ab"]
    with pytest.raises(SeveralRunsError, match=r"2 different runs.*starting with runs/a[. ]"):
        check_one_run(runs)


def test_a_rank_without_steps_does_not_speak(tmp_path):
    write_ranks(tmp_path, (1.0, 2.0))
    document = json.loads((tmp_path / "rank1.json").read_text())
    document["traceEvents"] = [e for e in document["traceEvents"] if e["cat"] != "user_annotation"][
        :3
    ]
    (tmp_path / "rank1.json").write_text(json.dumps(document))
    result = explain([str(tmp_path)])
    assert result.run.ranks == 2
    assert sum(result.breakdown.categories.values()) == result.breakdown.wall_ns


def drawn(rank, kernels, exchange, world=2):
    """One analysed rank whose steps of 10 ms are drawn."""
    trace = parse(
        f"""
        unit: 1 ms
        framework: pytorch
        rank: {rank}
        world_size: {world}
        main   step       |[--------][--------]|
        GPU:0  kernel     |{kernels}|  k=gemm
        GPU:0/8 collective|{exchange}|  a=ncclDevKernel_AllReduce
        """
    )
    return analyse(Opened(f"rank{rank}", "drawing", trace))


def test_the_straggler_is_the_first_to_fix_and_explains_the_waits():
    slow = drawn(0, "kkkkkkkk  kkkkkkkk  ", "        aa        aa")
    fast = drawn(1, "kk        kk        ", "  aaaaaaaa  aaaaaaaa")
    result = combine([fast, slow], [])
    by_id = {f.id: f for f in result.findings}
    assert result.findings[0].id == "straggler"
    assert result.findings[0].cost_ns_per_step == 6_000_000
    assert "Fix first: speed up the rank" in result.verdict.sentence
    assert by_id["exposed-communication"].cost_ns_per_step == 2_000_000  # moves bytes
    assert fast.detail.result.findings[0].id == "exposed-communication"  # alone, it cannot know
    assert {f.verdict for f in fast.detail.result.findings if f.id == "straggler"} == {"no_data"}


def test_a_wait_for_a_rank_that_starts_late_is_no_exposed_communication():
    early = drawn(0, "kk                kk", "  aaaaaaaaaaaaaaaa  ")
    late = drawn(1, "kk                kk", "  aaaaaaaaaaaaaaaa  ")
    waits = replace(late.rank, breakdown=late.rank.breakdown | {"communication": 500_000})
    result = combine([early, replace(late, rank=waits)], [])
    by_id = {f.id: f for f in result.findings}
    assert result.findings[0].id == "start-skew"
    assert by_id["start-skew"].cost_ns_per_step == 7_500_000
    assert by_id["exposed-communication"].verdict == "clear"
    assert by_id["exposed-communication"].evidence[1].where == "see start-skew"


def test_what_is_known_of_all_ranks_is_not_called_unknown():
    ranks = [drawn(n, "kkkk      kkkk      ", "    aaaaaa    aaaaaa") for n in range(2)]
    (found,) = [f for f in combine(ranks, []).findings if f.id == "exposed-communication"]
    (alone,) = [f for f in ranks[0].detail.result.findings if f.id == "exposed-communication"]
    assert alone.evidence[-1].value == "unknown from the trace of one rank"
    assert found.evidence[-1].what == "longer than on the rank that communicates least"
    assert (found.evidence[-1].value, found.evidence[-1].where) == (0, "of 2 ranks that were read")


def staged(rank, kernels, waits):
    passes = "f=f {phase: forward}  g=g {phase: forward}  b=b {phase: backward}"
    trace = parse(
        f"""
        unit: 1 ms
        signals: passes
        rank: {rank}
        stage: {rank}
        world_size: 2
        main   step       |[-------]|
        GPU:0  kernel     |{kernels}|  {passes}
        GPU:0/8 collective|{waits}|  r=recv-forward
        """
    )
    return analyse(Opened(f"rank{rank}", "drawing", trace))


def test_waits_between_stages_are_split_and_their_advice_is_not_repeated():
    first = staged(0, "fg  bb bb", "  rr  r  ")
    last = staged(1, " fbbgbb  ", "r      rr")
    findings = combine([first, last], []).findings
    (exposed,) = [f for f in findings if f.id == "exposed-communication"]
    assert [(e.what, e.value) for e in exposed.evidence[1:3]] == [
        ("of that, waiting for other ranks", 3_000_000),
        ("of these waits, to fill and drain", 3_000_000),
    ]
    assert exposed.fix is None or "microbatches" not in exposed.fix.text


@pytest.mark.parametrize(("track", "explained"), [("main  ", "straggler"), ("GPU:0 ", "")])
def test_python_of_the_late_rank_alone_is_what_it_does_longer(track, explained):
    """For 6 ms longer than rank 1, rank 0 runs Python alone, or 2 ms of it and 4 ms of kernels."""
    kind = "python" if track.strip() == "main" else "kernel"
    late = parse(
        f"""
        unit: 1 ms
        framework: pytorch
        rank: 0
        world_size: 2
        main   step       |[--------][--------]|
        main   python     |  pp        pp      |  p=score {{source: train.py(3): score}}
        {track} {kind}     |    ssss      ssss  |  s=work
        GPU:0  kernel     |kk        kk        |  k=gemm
        GPU:0/8 collective|        aa        aa|  a=ncclDevKernel_AllReduce
        """
    )
    early = drawn(1, "kk        kk        ", "  aaaaaaaa  aaaaaaaa")
    result = combine([analyse(Opened("rank0", "drawing", late)), early], [])
    by_id = {f.id: f for f in result.findings}
    assert result.findings[0].id == "straggler"
    assert by_id["python-overhead"].verdict == "found"
    assert by_id["python-overhead"].explained_by == explained


def test_a_gap_of_the_late_rank_alone_is_what_it_does_longer():
    """For 6 ms longer than rank 1, rank 0 does nothing that is recorded."""
    late = drawn(0, "kk        kk        ", "        aa        aa")
    early = drawn(1, "kk        kk        ", "  aaaaaaaa  aaaaaaaa")
    result = combine([late, early], [])
    by_id = {f.id: f for f in result.findings}
    assert result.findings[0].id == "straggler"
    assert by_id["wall-device-gap"].verdict == "found"
    assert by_id["wall-device-gap"].explained_by == "straggler"


# --- findings of every rank ----------------------------------------------------------------------


def found_in(analysed, **costs_ns):
    """A rank in which alone some problems were found."""
    result = analysed.detail.result
    rest = [f for f in result.findings if f.id not in costs_ns and f.verdict != "found"]
    found = [
        Finding(id_, "found", id_, cost, Saving(cost // 2, cost, "do it"), fix=None)
        for id_, cost in costs_ns.items()
    ]
    detail = replace(analysed.detail, result=replace(result, findings=(*found, *rest)))
    return replace(analysed, findings=tuple(found), detail=detail)


WAITS = "kkkk      kkkk      ", "    aaaaaa    aaaaaa"
WORKS = "kkkkkkkk  kkkkkkkk  ", "        aa        aa"


def test_what_only_another_rank_has_is_kept_with_its_ranks():
    ranks = [
        drawn(0, *WORKS, 4),
        found_in(drawn(1, *WORKS, 4), **{"gc-pause": 3_000_000, "checkpoint-stall": 2_000_000}),
        found_in(drawn(2, *WORKS, 4), **{"gc-pause": 4_000_000}),
        drawn(3, *WORKS, 4),
    ]
    findings = combine(ranks, [], predict=False).findings
    found = {f.id: f for f in findings if f.verdict == "found" and f.ranks}
    assert {id_: f.ranks for id_, f in found.items()} == {
        "gc-pause": (1, 2),
        "checkpoint-stall": (1,),
    }
    assert found["gc-pause"].cost_ns_per_step == 4_000_000  # where it costs most
    assert found["gc-pause"].saving.low_ns == 0
    assert found["gc-pause"].evidence[0] == Evidence(
        "ranks in which this occurs", "1, 2", "", "of 4 ranks"
    )
    assert len({f.id for f in findings}) == len(findings)


@pytest.mark.parametrize(("gain_ns", "first"), [(1_100_000, True), (900_000, False)])
def test_a_stall_that_gains_more_than_less_exchange_comes_first(gain_ns, first):
    exchange, stall = (
        Finding(id_, "found", "", 3_000_000, Saving(low_ns, 2_000_000, ""), fix=None)
        for id_, low_ns in (("exposed-communication", 0), ("checkpoint-stall", gain_ns))
    )
    findings = of_every_rank([exchange, stall], [drawn(n, *WORKS) for n in range(2)])
    assert (findings[0].id == "checkpoint-stall") is first


def test_what_all_ranks_have_is_said_once():
    ranks = [found_in(drawn(n, *WORKS), **{"gc-pause": 3_000_000}) for n in range(2)]
    findings = combine(ranks, [], predict=False).findings
    (found,) = [f for f in findings if f.id == "gc-pause"]
    assert found.ranks == (0, 1)
    assert found.saving.low_ns == 1_500_000
    assert not any(e.what == "ranks in which this occurs" for e in found.evidence)


def test_what_a_waiting_rank_has_is_hidden_by_the_late_one():
    waiting = found_in(drawn(1, *WAITS), **{"gc-pause": 1_000_000, "page-faults": 5_000_000})
    findings = combine([drawn(0, *WORKS), waiting], [], predict=False).findings
    found = {f.id: f for f in findings if f.verdict == "found"}
    assert (found["gc-pause"].explained_by, found["gc-pause"].hidden) == ("straggler", True)
    # It takes longer than this rank waits, which is 4 ms.
    assert not found["page-faults"].explained_by
    assert findings[0].id == "straggler"


def test_what_describes_a_record_or_compares_ranks_is_not_repeated():
    beside = found_in(
        drawn(1, *WORKS), **{"noisy-steps": 9, "hot-line": 9, "exposed-communication": 9}
    )
    findings = combine([drawn(0, *WORKS), beside], [], predict=False).findings
    assert not [f for f in findings if f.ranks]


def test_many_ranks_are_counted():
    ranks = [found_in(drawn(n, *WORKS, 20), **{"gc-pause": 3_000_000}) for n in range(1, 12)]
    findings = combine([drawn(0, *WORKS, 20), *ranks], [], predict=False).findings
    (found,) = [f for f in findings if f.id == "gc-pause"]
    assert len(found.ranks) == 11
    assert found.evidence[0].value == "1, 2, 3, 4, 5, 6, 7, 8 and 3 more"
