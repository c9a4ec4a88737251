"""The diagnoses on real traces, compared with an expert's judgement of each trace."""

import json
import os
from pathlib import Path

import pytest
from tests import recorded

from stepwhy.analyse.answers.verdict import decide
from stepwhy.diagnose import TABLE, load

TRACES = Path(os.environ.get("STEPWHY_TRACES", "no-traces"))
FILES = sorted(p for f in ("kineto", "tf_timeline") for p in (TRACES / f).rglob("*.json*"))

pytestmark = [
    recorded.TOGETHER,
    pytest.mark.traces,
    pytest.mark.skipif(not FILES, reason="STEPWHY_TRACES names no directory with traces"),
]

COMPUTE = {load(name).RULE.id for name in TABLE if load(name).RULE.family == "compute"}

# Primary cause according to the expert -> allowed first findings. None: no finding at all. A step
# that computes needs none, either.
FIRST = {
    "host_bound": {"launch-bound"},
    "host_bound_or_balanced": {"launch-bound", "full-precision-matmul"},
    "host_blocked_sync": {"host-sync"},
    "input_pipeline": {"input-bound"},
    "host_preprocessing": {"input-bound"},
    "communication": {"exposed-communication"},
    "gpu_compute": COMPUTE,
    "cpu_compute": COMPUTE,
    "launch_bound_small": {"launch-bound"},
    "startup": {"warmup-included"},
    "warmup_dominates": {"warmup-included"},
    "cannot_tell": {None},
    "cannot_tell_sliced": {None},
    "no_gpu_events": {None},
    "tiny": {None},
}
AGREEMENT = 0.9


def name_of(path):
    return path.relative_to(TRACES).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_diagnosis_fails(path):
    findings = recorded.findings_of(path)
    assert [f.reason for f in findings if f.verdict == "error"] == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_costs_and_savings_fit_into_the_step(path):
    facts = recorded.facts_of(path)
    for finding in recorded.findings_of(path):
        assert 0 <= (finding.cost_ns_per_step or 0) <= facts.wall_ns, finding.id
        if finding.saving:
            assert 0 <= finding.saving.low_ns <= finding.saving.high_ns, finding.id
            # Rounding to two digits can put the bounds slightly above the cost and the step.
            # Batch norms become faster in the other layout, too.
            if finding.cost_ns_per_step is not None and finding.id != "unfavourable-layout":
                assert finding.saving.high_ns <= 1.06 * finding.cost_ns_per_step, finding.id
            assert finding.saving.high_ns <= 1.05 * facts.wall_ns, finding.id


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_findings_have_evidence_and_a_fix(path):
    for finding in recorded.findings_of(path):
        is_found = finding.verdict == "found"
        assert bool(finding.fix) == is_found, finding.id
        assert finding.evidence or not is_found, finding.id
        assert bool(finding.reason) == (finding.verdict not in {"found", "clear"}), finding.id


def test_first_finding_agrees_with_the_expert():
    facts = json.loads((TRACES / "FACTS.json").read_text(encoding="utf-8"))
    primary = {n: f["expert"].get("primary") for n, f in facts.items() if "expert" in f}
    judged = [path for path in FILES if primary.get(name_of(path)) in FIRST]
    wrong = {}
    for path in judged:
        facts = recorded.facts_of(path)
        found = (f.id for f in recorded.findings_of(path) if f.verdict == "found")
        first = next(found, None)
        allowed = FIRST[primary[name_of(path)]]
        computes = allowed is COMPUTE and decide(facts).bound_by == "compute"
        if first not in allowed and not (computes and first is None):
            wrong[name_of(path)] = (primary[name_of(path)], first)
    assert len(judged) >= 25
    assert len(wrong) <= (1 - AGREEMENT) * len(judged), wrong
