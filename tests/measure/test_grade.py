"""Grades of pairs of the lab."""

from datetime import date

from msgspec.structs import replace
from tests.measure.results import MS, result, steady

from stepwhy.measure import grade_pair, graded
from stepwhy.result import Finding
from stepwhy.show.grade import is_passed, summary

DAY = date(2026, 1, 2)


def run(*ids, unexplained=0, cores=0.0):
    """A run of steps of 10 ms in which these diagnoses found something."""
    categories = {"compute": 10 * MS - unexplained, "unexplained": unexplained}
    found = tuple(Finding(name, "found", "Do it", 5) for name in ids)
    made = result(steady(10 * MS), categories=categories, background=cores)
    return replace(made, findings=found)


def test_a_fault_that_is_found_first_and_a_clean_twin():
    faulty = [run("gc-pause", "page-faults")] * 2
    pair = grade_pair("a/b", "gc-pause", faulty, [run()], day=DAY)
    assert (pair.faulty_runs, pair.found, pair.found_first, pair.other_first) == (2, 2, 2, ())
    assert (pair.fixed_runs, pair.false_alarms, pair.also_in_fixed) == (1, 0, ())
    assert is_passed(pair)


def test_a_fault_behind_another_finding_and_a_false_alarm():
    faulty = [run("page-faults", "gc-pause", cores=1.5)]
    fixed = [run("gc-pause", "launch-bound", unexplained=10 * MS)]
    pair = grade_pair("a/b", "gc-pause", faulty, fixed, day=DAY)
    assert (pair.found, pair.found_first, pair.other_first) == (1, 0, ("page-faults",))
    assert (pair.false_alarms, pair.also_in_fixed) == (1, ("launch-bound",))
    assert (pair.unexplained, pair.busy) == (1.0, 1)
    assert not is_passed(pair)


def test_a_finding_that_another_explains_does_not_count():
    found = run("gc-pause")
    hidden = replace(found.findings[0], explained_by="python-overhead")
    pair = grade_pair("a/b", "gc-pause", [replace(found, findings=(hidden,))], [], day=DAY)
    assert pair.found == 0


def test_programs_that_did_not_run_are_no_success():
    pair = grade_pair("a/b", "gc-pause", [], [], day=DAY, error="faulty ended with exit code 3")
    assert not is_passed(pair)
    assert pair.unexplained is None
    assert summary(graded([pair]))[-1] == "Not run: a/b."


def test_the_later_of_two_grades_of_a_pair_counts():
    old = grade_pair("a/b", "gc-pause", [], [], day=DAY)
    new = grade_pair("a/b", "gc-pause", [run("gc-pause")], [run()], day=DAY)
    other = grade_pair("a/a", "gc-pause", [], [], day=DAY)
    assert graded([old, other, new]).pairs == (other, new)
