"""When the longest line is the answer: beside other findings, and by its place among them."""

import pytest
from msgspec.structs import replace

from stepwhy.diagnoses import rank
from stepwhy.diagnoses.hot_line import RULE, unless_explained
from stepwhy.diagnoses.shared.rule import Rule
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.facts import Facts
from stepwhy.trace.notation import parse

MS = 1_000_000
FACTS = Facts(
    parse(
        """
        unit: 1 ms
        framework: pytorch
        main   step   |[------------------][------------------]|
        """
    )
)
HOT = RULE.finding(
    None, (Evidence("share of the step", 0.6, "fraction", "a.py(1): f"),), Fix("", "", "none")
)


def other(cost_ms):
    cost = None if cost_ms is None else cost_ms * MS
    return Rule("a-b", "host", "", "", "").finding(cost, (), Fix("", "", "none"))


def judged(*costs):
    """The findings in order, with other ones of these costs, ms; the step takes 20 ms."""
    return rank(unless_explained(FACTS, [*map(other, costs), HOT]))


def test_it_is_the_answer_where_there_is_no_other():
    (found,) = judged()
    assert found.cost_ns_per_step == 12 * MS
    assert (found.saving.low_ns, found.saving.high_ns) == (6 * MS, 12 * MS)
    assert found.saving.method == "bound"
    assert "A bound" in found.saving.note


def test_it_comes_before_findings_that_explain_little():
    assert [f.id for f in judged(1)] == ["hot-line", "a-b"]


@pytest.mark.parametrize("cost_ms", [3, 5, None])
def test_it_comes_after_a_finding_that_may_be_right(cost_ms):
    first, second = judged(cost_ms)
    assert (first.id, second.id) == ("a-b", "hot-line")
    assert second.cost_ns_per_step is None


def test_a_finding_about_the_measurement_explains_no_step():
    slow_start = replace(other(None), id="warmup-included")
    first, _ = rank(unless_explained(FACTS, [slow_start, HOT]))
    assert (first.id, first.cost_ns_per_step) == ("hot-line", 12 * MS)


def test_it_is_silent_where_a_finding_explains_half_of_the_line():
    first, second = judged(6)
    assert (first.id, second.verdict) == ("a-b", "not_applicable")
