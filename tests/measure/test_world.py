"""Grades of programs whose authors did not know the diagnoses."""

from datetime import date

from msgspec.structs import replace
from tests.measure.results import MS, result, steady

from stepwhy.measure import Truth, grade_program, graded_world
from stepwhy.result import Evidence, Finding, Saving, Verdict
from stepwhy.show.world import cells, note, totals

DAY = date(2026, 1, 2)
TRUTH = Truth("a", "tune", ("gc-pause",), frozenset({("slow.py", 7)}), gain=0.4)
HEALTHY = Truth("b", "locked", healthy=True)


def found(name, where="", cost=None, saving=None):
    """A finding with a line in its evidence."""
    interval = Saving(*saving, edit="python=gone") if saving else None
    return Finding(
        name,
        "found",
        "Do it",
        cost,
        interval,
        (Evidence("time at", 1, "ns"), Evidence("time at", 1, "ns", where)),
    )


def run(*findings, bound="host", cores=0.0):
    """A run of steps of 10 ms with these findings."""
    made = result(steady(10 * MS), background=cores)
    return replace(made, findings=findings, verdict=Verdict(bound, 1.0, ""))


def grade(truth, slow, clean, error=""):
    return grade_program(truth, slow, clean, day=DAY, error=error)


def test_a_right_cause_in_the_second_place_and_its_gain():
    first = found("page-faults", "/home/me/slow.py(8): step")
    second = found("gc-pause", "/home/me/slow.py(7): step", saving=(3 * MS, 5 * MS))
    program = grade(TRUTH, run(first, second), run())
    assert program.found == ("page-faults", "gc-pause")
    assert (program.place, program.right_line) == (2, True)
    assert program.predicted == (0.3, 0.5)
    assert program.within is True
    assert program.alarms == ()


def test_a_wrong_line_and_a_gain_outside_of_the_interval():
    other_file = found("gc-pause", "fixed.py(7): step", saving=(1 * MS, 2 * MS))
    program = grade(TRUTH, run(other_file), run())
    assert (program.place, program.right_line, program.within) == (1, False, False)


def test_the_third_finding_names_no_line_in_time():
    others = (found("page-faults"), found("launch-bound"))
    program = grade(TRUTH, run(*others, found("hot-line", "slow.py(7): step")), run())
    assert (program.place, program.right_line) == (None, False)


def test_the_right_line_is_no_cause():
    program = grade(TRUTH, run(found("hot-line", "slow.py(7): step")), run())
    assert (program.place, program.right_line) == (None, True)
    assert (program.predicted, program.within) == (None, None)


def test_a_gain_that_was_not_measured_is_not_judged():
    finding = found("gc-pause", saving=(3 * MS, 5 * MS))
    program = grade(replace(TRUTH, gain=None), run(finding), run())
    assert program.predicted == (0.3, 0.5)
    assert program.within is None
    assert cells(program)[5] == "-"


def test_a_healthy_program_with_large_and_small_findings():
    large = found("page-faults", cost=MS)
    larger_saving = found("launch-bound", cost=1, saving=(0, MS))
    small = found("gc-pause", cost=MS // 4)
    no_cost = found("hot-line")
    program = grade(HEALTHY, None, run(large, larger_saving, small, no_cost, bound="unknown"))
    assert program.alarms == ("page-faults", "launch-bound")
    assert (program.found, program.place, program.right_line) == (None, None, None)
    assert program.abstained == 1
    assert note(program) == "without a verdict: 1"


def test_advice_that_was_shown_to_help_or_may_not_help_is_no_alarm():
    shown, option = (
        found("gc-pause", cost=MS),
        replace(found("idle-cores", cost=MS), is_optional=True),
    )
    truth = replace(HEALTHY, proved=frozenset({"gc-pause", "page-faults"}))
    program = grade(truth, None, run(shown, option))
    assert (program.alarms, program.proved) == ((), ("gc-pause",))
    assert note(program) == "shown to help there: gc-pause"


def test_what_another_finding_explains_counts_neither_as_cause_nor_as_alarm():
    hidden = replace(found("gc-pause", cost=5 * MS), explained_by="python-overhead")
    program = grade(TRUTH, run(hidden), run(hidden))
    assert (program.found, program.place, program.alarms) == ((), None, ())


def test_a_run_that_failed_is_missing_and_not_zero():
    program = grade(TRUTH, None, run(), error="slow ended with exit code 3")
    assert (program.found, program.place, program.right_line) == (None, None, None)
    assert program.alarms == ()
    assert cells(program)[2:5] == ("-", "-", "-")
    (sentence,) = totals(graded_world([program]))
    assert "the cause first in 0 of 0 slow programs" in sentence
    assert "findings of 5 % or more in 0 of 1 fixed and healthy programs" in sentence
    assert sentence.endswith("Not run: a.")


def test_totals_keep_the_halves_apart():
    right = grade(TRUTH, run(found("gc-pause", "slow.py(7): f")), run(found("x", cost=MS)))
    wrong = grade(replace(TRUTH, name="c", half="locked"), run(found("x"), cores=1.5), run())
    healthy = grade(HEALTHY, None, run())
    tune, locked = totals(graded_world([right, wrong, healthy]))
    assert tune == (
        "The half for tuning: the cause first in 1 of 1 slow programs, among the first two in 1; "
        "a right line among the first two in 1; the gain inside the predicted interval in 0 of 0; "
        "findings of 5 % or more in 1 of 1 fixed and healthy programs. Without a verdict: 0 of 2 "
        "runs."
    )
    assert "The locked half: the cause first in 0 of 1 slow programs" in locked
    assert "findings of 5 % or more in 0 of 2 fixed and healthy programs" in locked
    assert locked.endswith("On a busy machine: 1 runs.")


def test_a_mistake_that_no_diagnosis_names_is_noted():
    program = grade(replace(TRUTH, causes=()), run(found("hot-line")), run())
    assert program.place is None
    assert note(program) == "no diagnosis names the cause"


def test_the_later_of_two_grades_of_a_program_counts():
    old, new = grade(TRUTH, None, None, error="x"), grade(TRUTH, run(), run())
    other = grade(HEALTHY, None, run())
    assert graded_world([old, other, new]).programs == (new, other)
