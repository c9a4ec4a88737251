"""What a rule says of a cost, and what it takes from the place of its module."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stepwhy.diagnose.shared.rule import Edit, Evidence, Fix, Rule

RULE = Rule(
    "stepwhy.diagnose.not_needed.a_b",
    "Name",
    "Do it",
    "It is done",
    least_share=0.1,
    least_saved=0.5,
    change="do it",
    edit=Edit("ops", "gone"),
)
FACTS = SimpleNamespace(wall_ns=1_000_000)
FIX = Fix("Do it.", "", "none")
EVIDENCE = (Evidence("first", 1, "count"), Evidence("second", 2, "count"))


def test_the_module_gives_the_id_and_the_family():
    assert (RULE.id, RULE.family) == ("a-b", "not needed")


def test_a_module_without_a_folder_of_its_own_is_of_any_family():
    rule = replace(RULE, module="stepwhy.diagnose.hot_line")
    assert (rule.id, rule.family) == ("hot-line", "any")


@pytest.mark.parametrize(("cost", "verdict"), [(0, "clear"), (99_999, "clear"), (100_000, "found")])
def test_a_cost_counts_from_the_least_share_on(cost, verdict):
    assert RULE.judge(FACTS, cost, EVIDENCE, FIX).verdict == verdict


def test_a_finding_has_the_saving_and_the_edit_of_its_rule():
    found = RULE.judge(FACTS, 400_000, EVIDENCE, FIX)
    assert (found.title, found.cost_ns_per_step, found.evidence) == ("Do it", 400_000, EVIDENCE)
    assert (found.saving.low_ns, found.saving.high_ns) == (200_000, 400_000)
    assert found.saving.edit == "do it"
    assert found.edit == Edit("ops", "gone", cost_ns=400_000, sure=0.5)


def test_a_finding_may_have_an_edit_and_a_title_of_its_own():
    edit = Edit("copies", "pinned", "h2d")
    assert RULE.judge(FACTS, 400_000, EVIDENCE, FIX, edit=edit).edit.what == "copies"
    assert RULE.finding(400_000, EVIDENCE, FIX, title="Do that").title == "Do that"


def test_a_rule_without_a_change_predicts_no_saving():
    assert replace(RULE, change="").judge(FACTS, 400_000, EVIDENCE, FIX).saving is None


def test_a_fix_that_saves_more_than_its_cost_saves_no_more_than_the_step():
    rule = replace(RULE, most_saved=1.5)
    saved = [rule.judge(FACTS, cost, EVIDENCE, FIX).saving.high_ns for cost in (400_000, 900_000)]
    assert saved == [600_000, 1_000_000]


def test_a_clear_verdict_shows_the_first_facts():
    clear = RULE.judge(FACTS, 400_000, EVIDENCE, FIX, shown=1, unless=True)
    assert (clear.verdict, clear.title, clear.evidence) == ("clear", "It is done", EVIDENCE[:1])
    assert (clear.saving, clear.edit, clear.fix) == (None, None, None)
