"""Which fixes are replayed for the page, and what is not computed for it."""

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.engine import timeline as module
from stepwhy.engine.explain import explain_opened
from stepwhy.engine.rank_sets import Opened
from stepwhy.engine.timeline import TimelineParts, not_replayed, replays_of
from stepwhy.predict.quality import judge
from stepwhy.result import Edit, Finding, Saving
from stepwhy.trace.notation import parse
from tests.predict.test_replay import EXCHANGING, WAITING, facts_of

FASTER = Edit("kernels", "faster", factor=2.0)


def finding(name, method="replay", edit=FASTER):
    saving = Saving(1, 2, str(edit), method) if method else None
    return Finding(name, "found", name, saving=saving, edit=edit)


def test_fixes_are_replayed_whose_gain_came_from_a_replay():
    found = [finding("a"), finding("b", "bound"), finding("c", None), finding("d", edit=None)]
    assert [one.fix for one in replays_of(facts_of(WAITING), found)] == ["a"]


def test_only_some_fixes_are_replayed(monkeypatch):
    monkeypatch.setattr(module, "MOST_REPLAYS", 2)
    found = [finding(name) for name in "abc"]
    assert [one.fix for one in replays_of(facts_of(WAITING), found)] == ["a", "b"]


@pytest.mark.parametrize("drawing", [WAITING, EXCHANGING.replace("arrows: l -> gemm, m -> rs", "")])
def test_steps_are_not_judged_for_the_page_alone(drawing):
    facts = Facts(parse(drawing))
    assert not_replayed(facts) == ()
    facts.derived(judge)
    assert not_replayed(facts) == facts.derived(judge).reasons


@pytest.mark.parametrize("predict", [True, False])
def test_the_timeline_has_replays_if_gains_are_predicted(predict):
    parts = TimelineParts()
    opened = Opened("trace", "notation", parse(EXCHANGING))
    explain_opened([opened], [], predict=predict, seen=parts.seen)
    timeline = parts.timeline()
    fixes = [replay.fix for replay in timeline.replays]
    assert ("exposed-communication" in fixes) is predict
    assert {row.fix for row in timeline.rows if row.role == "replay"} == set(fixes)
