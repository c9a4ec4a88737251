"""Findings with predicted savings: how sure their fixes are, why they differ, and their order."""

import pytest

from stepwhy.engine.pricing import priced
from stepwhy.findings import Edit, Finding, Saving
from stepwhy.passes.facts import Facts
from stepwhy.trace.notation import parse
from tests.whatif.test_replay import AHEAD, UNIT, WAITING


def finding(name, cost, edit=None, method="bound"):
    return Finding(
        name, "found", name, cost * UNIT, Saving(0, cost * UNIT, "bound", method), edit=edit
    )


@pytest.mark.parametrize(
    ("sure", "low", "note"),
    [
        # Kernels of 7 columns that are twice as fast save 3.5 of 10; a replay is exact to 0.1.
        (1.0, 3.4, "no fix of this kind has been measured on an accelerator yet."),
        (0.5, 1.65, "Low end: the fix removes 50 % of the cost."),
        (0.0, 0.0, "yet."),
    ],
)
def test_the_low_end_is_what_the_fix_removes_for_certain(sure, low, note):
    edit = Edit("kernels", "faster", factor=2.0, sure=sure)
    (found,) = priced(Facts(parse(WAITING)), [finding("launch-bound", 4, edit)])
    assert found.saving.low_ns == pytest.approx(low * UNIT, rel=0.05)
    assert found.saving.high_ns == pytest.approx(3.6 * UNIT, rel=0.05)
    assert found.saving.note.endswith(note)


def test_a_fix_whose_gain_other_work_hides_comes_later_and_says_why():
    # The device needs all of the step, so that removing what the host does saves nothing.
    hidden = finding("launch-bound", 4, Edit("dispatch", "gone"))
    found = priced(Facts(parse(AHEAD)), [hidden, finding("input-bound", 2)])
    assert [one.id for one in found] == ["input-bound", "launch-bound"]
    assert found[1].saving.note.startswith("Less than half of the cost")


def test_a_failing_model_leaves_the_bound(monkeypatch):
    def fail(*_):
        raise ValueError

    monkeypatch.setattr("stepwhy.engine.pricing.price", fail)
    one = finding("launch-bound", 4, Edit("dispatch", "gone"))
    assert priced(Facts(parse(WAITING)), [one]) == (one,)
