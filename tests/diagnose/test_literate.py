"""Run the literate tests: `tests/diagnose/<id>.md`."""

import importlib.util
from pathlib import Path

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.rank_summary import summarise_rank, summarise_untraced
from stepwhy.analyse.ranks.calls import calls_of, joined
from stepwhy.diagnose import load
from stepwhy.diagnose.shared.rule import examine
from stepwhy.trace.notation import parse

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("literate", HERE / "literate.py")
literate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(literate)

CASES = [case for path in sorted(HERE.glob("*.md")) for case in literate.read_cases(path)]


def facts_of(case):
    traces = [parse(timeline) for timeline in case.timelines]
    if len(traces) == 1:
        return Facts(traces[0])
    each = list(map(Facts, traces))
    ranks = [rank for rank in map(summarise_rank, each) if rank is not None]
    untraced = [rank for rank in map(summarise_untraced, each) if rank is not None]
    return Facts(traces[0], ranks, joined(map(calls_of, traces)), untraced)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.diagnosis}-{c.kind}-{c.title}")
def test_finding_matches_the_description(case):
    diagnosis = load(case.diagnosis.replace("-", "_"))
    finding = examine(diagnosis, facts_of(case))
    assert literate.mismatches(finding, case.expected) == []
    # Of a difference that is nothing, no 1 ns is left to divide by.
    assert not [fact for fact in finding.evidence if (fact.value, fact.unit) == (1, "ns")]


def test_mismatches_are_noticed():
    case = next(c for c in CASES if c.kind == "Fires")
    finding = examine(load(case.diagnosis.replace("-", "_")), facts_of(case))
    wrong = (("verdict", "clear"), ("cost", "1 ns"), ("saving", "1 ns .. 2 ns"), ("fix", "§"),
             ("edit", "loss=gone"), ("evidence", "nothing = 1"), ("reason", "§"),
             ("title", "§"))  # fmt: skip
    assert len(literate.mismatches(finding, wrong)) == len(wrong)
