"""Diagnoses that compare ranks, on recorded runs of several ranks.

The folder named by STEPWHY_TRACES holds them; others lie beside it. None is part of the package.
"""

import functools
import os
from pathlib import Path

import pytest

from stepwhy.engine import explain

TRACES = Path(os.environ.get("STEPWHY_TRACES", "."))
RUNS = {
    "dlrm": TRACES / "kineto/dlrm_v100_8ranks",
    "recsys": TRACES / "kineto/recsys128_sampled",
    "table": TRACES / "../straggler/trace-ST.parquet",
    "pp8": TRACES / "../traces2/megatron/pp8",
    "pp4": TRACES / "megatron/pp4_aggregated.json",
}
pytestmark = [
    pytest.mark.traces,
    pytest.mark.skipif("STEPWHY_TRACES" not in os.environ, reason="STEPWHY_TRACES is not set"),
]


@functools.cache
def findings(run):
    if not RUNS[run].exists():
        pytest.skip(f"no recorded run of {run}")
    return {f.id: f for f in explain([str(RUNS[run])]).findings}


def value(finding, what):
    return next(e.value for e in finding.evidence if e.what == what)


def test_the_ranks_that_start_late_are_named():
    """Steps end together and start up to 7.5 ms apart; rank 7, with 6 and 2, is the last one."""
    skew = findings("dlrm")["start-skew"]
    assert next(iter(findings("dlrm"))) == "start-skew"
    assert value(skew, "rank that waits least for the others") == "7, 2, 6"
    assert findings("dlrm")["exposed-communication"].verdict == "clear"


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
