"""Diagnoses that compare ranks, on recorded runs of several ranks.

The folder named by STEPWHY_TRACES holds them; others lie beside it. None is part of the package.
"""

import gzip
import json
import os
from pathlib import Path

import pytest
from tests import recorded

TRACES = Path(os.environ.get("STEPWHY_TRACES", "."))
RUNS = {
    "dlrm": TRACES / "kineto/dlrm_v100_8ranks",
    "recsys": TRACES / "kineto/recsys128_sampled",
    "table": TRACES / "../straggler/trace-ST.parquet",
    "pp8": TRACES.parent / "traces2/megatron/pp8",
    "pp4": TRACES / "megatron/pp4_aggregated.json",
}
pytestmark = [
    recorded.EXPLAINED,
    pytest.mark.traces,
    pytest.mark.skipif("STEPWHY_TRACES" not in os.environ, reason="STEPWHY_TRACES is not set"),
]


def result(run):
    if not RUNS[run].exists():
        pytest.skip(f"no recorded run of {run}")
    return recorded.outcome_of(RUNS[run])


def findings(run):
    return {f.id: f for f in result(run).findings}


def step_ns(run):
    return result(run).breakdown.wall_ns


def value(finding, what):
    return next(e.value for e in finding.evidence if e.what == what)


def test_the_ranks_that_start_late_are_named():
    """Steps end together and start up to 7.5 ms apart; rank 7, with 6 and 2, is the last one."""
    skew = findings("dlrm")["start-skew"]
    assert next(iter(findings("dlrm"))) == "start-skew"
    assert value(skew, "late ranks, which wait least for the others") == "7, 2, 6"
    assert findings("dlrm")["exposed-communication"].verdict == "clear"


def test_waits_by_the_rank_that_arrives_last():
    """Found without clocks, and with clocks aligned by hand, within 7 us per collective."""
    ranks = {row.rank: row for row in result("dlrm").ranks}
    caused_ms = {rank: row.caused_wait_ns / 1e6 for rank, row in ranks.items()}
    assert caused_ms.pop(7) == pytest.approx(35.5, rel=0.02)
    assert caused_ms.pop(5) == pytest.approx(6.3, rel=0.02)
    assert caused_ms.pop(4) == pytest.approx(5.0, rel=0.02)
    assert set(caused_ms.values()) == {0.0}
    assert {row.rank: row.last for row in ranks.values() if row.last} == {7: 5, 5: 2, 4: 1}


def test_waits_and_transfers_of_each_rank_add_up_to_its_kernels():
    ranks = result("dlrm").ranks
    assert len(ranks) == 8
    for row in ranks:
        with gzip.open(RUNS["dlrm"] / f"worker{row.rank}.pt.trace.json.gz") as file:
            events = json.load(file)["traceEvents"]
        kernels = [e for e in events if e.get("cat") == "kernel" and e["name"].startswith("nccl")]
        assert row.wait_ns + row.transfer_ns == 1000 * sum(e["dur"] for e in kernels)
        assert row.unsplit_ns == 0


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        ("dlrm", "clear"),
        ("recsys", "incomplete"),  # 2 of 128 ranks
        ("table", "clear"),  # no single worker is to blame: the last stage is long
        ("pp8", "not_applicable"),
        ("pp4", "not_applicable"),
    ],
)
def test_no_rank_is_blamed_for_its_work(run, verdict):
    assert findings(run)["straggler"].verdict == verdict


def test_the_long_stage_explains_the_published_slowdown():
    """Ideal and replayed steps of the OSDI 2025 paper; equal stages gain most of the difference."""
    facts = json.loads((RUNS["table"].parent / "FACTS.json").read_text())[RUNS["table"].name]
    slowdown_ns = 1e9 * (facts["replayed_step_s"] - facts["ideal_step_s"])
    imbalance = findings("table")["stage-imbalance"]
    assert imbalance.cost_ns_per_step == pytest.approx(slowdown_ns, rel=0.1)
    assert imbalance.evidence[0].where == "stage 3"


@pytest.mark.parametrize(
    ("run", "bubble", "imbalance"),
    [
        ("table", 0.33, 0.13),  # 4 stages, 4 micro-batches
        # 8 stages, 16 micro-batches: 7 of 23 passes. The last stage has 10 % more work.
        ("pp8", 0.29, None),
        ("pp4", None, 0.22),  # 4 stages, 8 micro-batches in 4 model chunks
    ],
)
def test_stages_that_wait_for_each_other(run, bubble, imbalance):
    for name, share in (("pipeline-bubble", bubble), ("stage-imbalance", imbalance)):
        finding = findings(run)[name]
        assert finding.verdict == ("clear" if share is None else "found")
        if share is not None:
            assert finding.cost_ns_per_step / step_ns(run) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("rank", [0, 4, 7])
def test_one_stage_shows_the_bubble(rank):
    """The expert's primary cause for each of the eight files, also of the busiest stage."""
    path = RUNS["pp8"] / f"pp_rank_{rank}.json"
    if not path.exists():
        pytest.skip("no recorded run of pp8")
    assert recorded.outcome_of(path).findings[0].id == "pipeline-bubble"
