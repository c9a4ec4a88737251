"""How steps were found and how they changed, in words."""

import pytest
from msgspec.structs import replace

from stepwhy.result import Stretch
from stepwhy.result.reasons import (
    BetweenMarkers,
    Cut,
    LongSteps,
    Perturbed,
    RanAhead,
    Repeats,
    Unprofiled,
)
from stepwhy.result.wording.steps import change_note, steps_note

MS = 1_000_000


def stretches(described, *parts):
    """Stretches of (steps, median in ms), one of them described."""
    found, first = [], 1
    for number, (count, median) in enumerate(parts):
        median_ns = None if median is None else median * MS
        last = first + count - 1
        found.append(Stretch(first, last, median_ns, count * MS, 4 - number, number == described))
        first = last + 1
    return found


def test_a_steady_run_needs_no_note():
    assert change_note(stretches(0, (100, 10))) == ""
    assert change_note(stretches(0, (100, 10), (3, None))) == ""
    assert steps_note(()) == ""


ROSE = (
    "After step 1,200 the step time rose from 10.0 ms to 20.0 ms; this report covers the steps "
    "before it. 4 steps before the change and 3 after it were traced."
)
FELL = (
    "After step 90 the step time fell from 20.0 ms to 10.0 ms; this report covers the steps after "
    "it. 4 steps before the change and 3 after it were traced."
)
BOTH = (
    "The step time changed for good after steps 90, 490 (20.0 ms, 10.0 ms, 30.0 ms); this report "
    "covers steps 91 to 490."
)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (stretches(0, (1200, 10), (100, 20)), ROSE),
        (stretches(1, (90, 20), (400, 10)), FELL),
        (stretches(1, (90, 20), (400, 10), (90, 30)), BOTH),
    ],
)
def test_changes_in_one_sentence(parts, sentence):
    assert change_note(parts) == sentence


def test_a_stretch_that_other_programs_slowed_down_least():
    busy, calm = stretches(1, (120, 40), (367, 10))
    busy, calm = replace(busy, contention=0.75), replace(calm, contention=0.02)
    assert change_note([busy, calm]) == (
        "After step 120 the step time fell from 40.0 ms to 10.0 ms; this report covers the steps "
        "after it. 4 steps before the change and 3 after it were traced. "
        "Other programs slowed these steps down least: the process waited for a CPU core "
        "for 2.0 % of its runnable time, and for up to 75 % in the other steps."
    )
    assert "Other programs" not in change_note([replace(busy, contention=0.1), calm])


def test_where_one_side_has_no_traced_steps_their_number_is_not_said():
    before, after = stretches(0, (1200, 10), (100, 20))
    assert "Traced" not in change_note([before, replace(after, traced_steps=0)])


@pytest.mark.parametrize("cut", Cut)
def test_every_cut_has_a_sentence(cut):
    assert steps_note([cut]).endswith(".")


def test_numbers_of_a_note():
    assert "leave out 57 % of the time" in steps_note([BetweenMarkers(0.57)])
    assert steps_note([Repeats(3, "aten::conv2d")]) == (
        "Steps are inferred from 'aten::conv2d', which repeats 3 times."
    )
    assert f"'{'x' * 80}...'" in steps_note([Repeats(3, "x" * 81)])
    assert steps_note([Unprofiled(5)]) == (
        "Step times come from unprofiled steps, the breakdown from 5 profiled ones."
    )
    assert steps_note([Unprofiled(5, 6 * MS)]).endswith(
        "so the mean is used as the step time: 6.00 ms."
    )
    assert steps_note([Unprofiled(5, with_stalls_ns=7 * MS)]).endswith(
        "that of the other steps, plus the mean cost of this work: 7.00 ms."
    )


def test_a_host_that_runs_ahead():
    whole = steps_note([RanAhead(5, 6 * MS)])
    assert whole.startswith("The breakdown comes from 5 profiled steps. The host runs ahead")
    assert whole.endswith(
        "the mean over all steps, from one time at which the device had caught "
        "up to the next: 6.00 ms."
    )
    assert "all steps, profiled ones included, from" in steps_note(
        [RanAhead(5, 6 * MS, with_profiled=True)]
    )
    assert "takes at least 6.00 ms" in steps_note([RanAhead(5, 6 * MS, at_least=True)])


def test_several_notes_are_one_text():
    assert steps_note([Cut.BY_OPTIMIZER, Cut.NOTHING_RECORDED]) == (
        "Steps are inferred from the calls of the optimizer. Nothing was recorded."
    )


def test_long_steps_show_the_mean():
    assert steps_note([LongSteps(50 * MS, 0.54)]) == (
        "Some steps take much longer: the mean is 50.0 ms, so 54 % of the time of all steps is not "
        "in this report."
    )


def test_traced_steps_that_are_much_longer():
    assert steps_note([Perturbed(4.0)]).startswith("Traced steps took 4.0 times as long as the ")
