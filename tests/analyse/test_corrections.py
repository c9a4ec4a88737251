"""The corrections of the recorded breakdown: what each moves, and that none loses time."""

from collections import Counter

import numpy as np
import pytest
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.answers.breakdown import breakdown_of
from stepwhy.analyse.breakdown.corrections import (
    BY_OTHER_EVIDENCE,
    TO_UNPROFILED,
    Applied,
    Known,
    apply,
)
from stepwhy.analyse.breakdown.disk_syncs import ExposedSyncs
from stepwhy.analyse.breakdown.rescaling import Scale
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.driver_times import DriverTimes
from stepwhy.analyse.steps.observed import Observed
from stepwhy.result import CATEGORIES
from stepwhy.result.reasons import Corrected
from stepwhy.trace.notation import parse

SAMPLES = """
    samples: role | line | package | entry | count
    driver | a.py(1): f | python | - | 60
    driver | a.py(2): g | wandb | - | 40
"""


def categories(**given_ns):
    return {**dict.fromkeys(CATEGORIES, 0), **given_ns}


def seen(wall, stalls_ns=None, **times):
    return Observed(np.asarray([wall]), 0, DriverTimes(**times), stalls_ns=stalls_ns or {})


def changes(applied):
    """What each correction that changed anything did."""
    return {one.why: one.changes for one in applied if one.changes}


def test_every_reason_is_one_correction_and_reasons_are_in_their_order():
    assert [c.why for c in (*TO_UNPROFILED, *BY_OTHER_EVIDENCE)] == list(Corrected)


def test_what_was_measured_replaces_what_was_recorded_and_the_rest_is_scaled():
    recorded = categories(compute=60, input_wait=40, storage=20)
    observed = seen(80, input_wait_ns=50, stalls_ns={"storage": 5})
    found = apply(recorded, TO_UNPROFILED, Scale(recorded, observed, on_accelerator=False))
    assert changes(found) == {
        Corrected.RARE_TIME_APART: {"storage": -20},
        Corrected.INPUT_MEASURED: {"input_wait": 10},
        Corrected.SCALED: {"compute": -30},
        Corrected.RARE_TIME: {"storage": 5},
    }


def test_waits_for_the_disk_are_not_scaled():
    recorded = categories(compute=60, storage=40)
    scale = Scale(recorded, seen(30), on_accelerator=False, syncs=ExposedSyncs(40, 10))
    found = apply(recorded, TO_UNPROFILED, scale)
    assert found[-1].after == categories(compute=30, storage=10)
    assert changes(found)[Corrected.DISK_WAITS] == {"storage": 10}


def test_time_outside_of_runs_is_python_as_far_as_the_thread_ran():
    recorded = categories(compute=50)
    observed = seen(100, outside_ns=50, cpu_ns=20)
    found = apply(recorded, TO_UNPROFILED, Scale(recorded, observed, on_accelerator=True))
    assert changes(found) == {Corrected.OUTSIDE_RUNS: {"python": 20, "unexplained": 30}}


@pytest.mark.parametrize("outside_ns", [None, 10])
def test_other_evidence_moves_time_and_adds_none(outside_ns):
    before = categories(compute=20, unexplained=80)
    known = Known(
        parse(SAMPLES), np.zeros(0, dtype=np.int64), seen(100, cpu_ns=90, outside_ns=outside_ns)
    )
    found = apply(before, BY_OTHER_EVIDENCE, known)
    gained = Counter()
    for one in found:
        assert sum(one.changes.values()) == 0
        gained.update(one.changes)
    assert categories(**{c: before[c] + gained[c] for c in CATEGORIES}) == found[-1].after
    # In a session, what is outside of its runs is known; only the samples of loggers count.
    assert (Corrected.OWN_LINES in changes(found)) == (outside_ns is None)
    assert found[-1].after["storage"] == 40


def test_the_breakdown_of_facts_is_the_last_one():
    line = Timeline().steps(0, 20)
    for start in (100, 110, 120):
        line.mark(start, start + 10)
    facts = Facts(line.trace())
    assert facts.mean_step.corrections[0].before == facts.recorded
    assert facts.mean_step.corrections[-1].after == facts.breakdown
    assert sum(facts.breakdown.values()) == 10 * MS


def test_a_trace_of_another_profiler_is_not_brought_to_another_scale():
    facts = Facts(Timeline().steps(0, 20).trace())
    assert [one.why for one in facts.mean_step.corrections] == [c.why for c in BY_OTHER_EVIDENCE]
    assert facts.breakdown == facts.recorded


def test_what_a_result_tells_of_the_corrections_adds_up_to_its_breakdown():
    line = Timeline().steps(0, 20)
    for start in (100, 110, 120):
        line.mark(start, start + 10)
    found = breakdown_of(Facts(line.trace()))
    assert [(one.why, one.changes) for one in found.corrections] == [
        ("scaled", {"unexplained": -10 * MS})
    ]
    changed = Counter(found.recorded)
    for one in found.corrections:
        changed.update(one.changes)
    assert changed == Counter(found.categories)
    plain = breakdown_of(Facts(Timeline().steps(0, 20).trace()))
    assert (plain.recorded, plain.corrections) == ({}, ())


def test_changes_name_only_what_changed():
    one = Applied(Corrected.SAVES, {"storage": 1, "python": 2}, {"storage": 3, "python": 2})
    assert one.changes == {"storage": 2}
