"""Verdicts in words."""

import pytest

from stepwhy.result import Evidence, Finding
from stepwhy.result.reasons import (
    Bound,
    Gap,
    Lack,
    Lead,
    Limited,
    MostlyStartUp,
    NeverAhead,
    NoEvidence,
    NotTraced,
    StarvedQueue,
)
from stepwhy.result.wording.verdict import cause_sentence, verdict_sentence, why_unknown

MS = 1_000_000
NUMBERS = {
    Lack.DEVICE_OWNERS: 2,
    Lack.DEVICE_WORK: 0.25,
    Lack.OPERATIONS: 9.4,
    Lack.WHOLE_STEP: 9,
    Lack.AWAITED_WORK: 0.89,
    Lack.CAUSE_OF_IDLE_TIME: 0.3,
    Lack.LAST_WAIT: 5_000_000,
}


def bound(by, time=40, **about):
    return verdict_sentence(Bound(by, time * MS, 100 * MS, **about))


def test_what_bounds_the_step_with_its_numbers():
    assert bound("input") == (
        "The step waits for input: for 40.0 ms of every 100 ms (40 %) the GPU idles because the "
        "next batch is not ready."
    )
    assert bound("compute", 90) == (
        "The step is bound by compute: the GPU computes for 90.0 ms of every 100 ms (90 %)."
    )
    assert bound("startup", 60).startswith(
        "The step waits for compilation or set-up: 60.0 ms of every 100 ms"
    )


def cause(by, time=40, first=None, **about):
    return cause_sentence(Bound(by, time * MS, 100 * MS, **about), first)


def test_a_cause_is_what_is_wrong_and_not_what_is_fine():
    loss = "For 40.0 ms of every 100 ms (40 %) the GPU idles because the next batch is not ready."
    assert cause("input", compute_ns=60 * MS) == loss
    assert cause("input") == loss
    assert cause("compute", 90).startswith("The step is bound by compute: the GPU computes for")
    assert cause("host", host_ns=97 * MS, lost_to="transfer").startswith("The host holds the step")
    assert cause("input", locked=True).startswith("For 40.0 ms of every 100 ms (40 %) the GPU idle")
    gap = Gap(Lack.EVENTS)
    assert cause_sentence(gap) == "The file records no timed event."
    assert cause_sentence(NeverAhead(0.9)) == verdict_sentence(NeverAhead(0.9))


@pytest.mark.parametrize(
    ("by", "cost", "text"),
    [
        ("startup", 41, "40.0 ms of every 100 ms (40 %) goes to tracing, compiling or init"),
        ("startup", 20, "Graph growth: 20.0 ms of every 100 ms (20 %)."),
        ("compute", 40, "Graph growth: 40.0 ms of every 100 ms (40 %)."),
    ],
)
def test_another_cause_is_named_unless_it_explains_the_loss(by, cost, text):
    first = Finding("graph-growth", "found", "Create it once", cost_ns_per_step=cost * MS)
    assert cause(by, first=first).startswith(text)
    reason = Bound("compute", 40 * MS, 50 * MS, set_up_ns=50 * MS, of="trace")
    assert cause_sentence(reason, first).endswith(f"of 100 ms ({cost} %).")
    assert cause_sentence(NeverAhead(0.9), first) == f"Graph growth costs {cost}.0 ms of each step."


def test_a_cause_outside_of_the_steps_is_a_share_of_the_training():
    evidence = (Evidence("share of the training time", 0.87, "fraction"),)
    first = Finding("frequent-evaluation", "found", "Evaluate less often", evidence=evidence)
    assert cause("startup", first=first) == "Frequent evaluation: 87 % of the training time."
    assert cause("startup", first=Finding("x", "found", "y")) == "X."


def test_a_host_that_works_throughout():
    text = bound("host", host_ns=97 * MS, lost_to="transfer", lost_ns=75 * MS)
    assert text == (
        "The host holds the step up: it works for 97.0 ms of every 100 ms (97 %), whatever the "
        "device does meanwhile."
    )
    assert bound("host", host_ns=97 * MS).startswith("The host holds the step up: for 40.0 ms")


def test_what_rules_the_step_comes_before_the_loss():
    text = bound("input", compute_ns=60 * MS)
    assert text.startswith(
        "Compute is 60 % of the step. For 40.0 ms of every 100 ms (40 %) the GPU "
    )
    assert bound("input", compute_ns=40 * MS).startswith("The step waits for input")


@pytest.mark.parametrize("lost_to", ["input", "communication", "transfer", "storage", "host"])
def test_the_loss_of_a_step_that_is_mostly_compute(lost_to):
    text = bound("compute", 75, lost_to=lost_to, lost_ns=20 * MS)
    assert text.startswith(
        "The step is mostly compute: the GPU computes for 75.0 ms of every 100 ms (75 %); 20 % is "
        "lost to "
    )


def test_a_queue_that_was_empty():
    assert verdict_sentence(StarvedQueue("images", 0.95)) == (
        "The steps probably wait for input: queue 'images' was empty in 95 % of the time. How long "
        "they wait was not recorded."
    )


def test_fetches_that_never_pause():
    assert verdict_sentence(NeverAhead(0.98)) == (
        "The steps probably wait for input: a batch was being fetched 98 % of the time. A pipeline "
        "that is ahead of the steps pauses. To see how long they wait, record the steps as well."
    )


def test_set_up_that_was_set_aside():
    text = bound("host", set_up_ns=300 * MS)
    assert text.startswith("First-run set-up takes 300 ms of this record; without it, the host ")


@pytest.mark.parametrize(
    ("about", "ending"),
    [
        ({}, "the GPU only exchanges data or waits for other ranks."),
        ({"kind": "cpu"}, "the process only exchanges data or waits for other ranks."),
        ({"devices": 2}, "both devices only exchange data or wait for other ranks."),
    ],
)
def test_exposed_communication_is_exchange_or_wait(about, ending):
    assert bound("communication", **about).endswith(ending)


@pytest.mark.parametrize("by", ["communication", "transfer", "storage"])
def test_every_bound_has_its_sentence(by):
    assert "40.0 ms of every 100 ms (40 %)" in bound(by)


@pytest.mark.parametrize(
    ("host", "doing"),
    [
        ("sync", "is mostly blocked in calls that synchronise with the device"),
        ("dispatch", "mostly executes framework code to launch the next work"),
        ("python", "mostly runs Python outside the framework"),
    ],
)
def test_what_the_host_does(host, doing):
    assert bound("host", host=host).endswith(f"the GPU idles while the host {doing}.")


@pytest.mark.parametrize(
    ("about", "idle"),
    [
        ({"devices": 2}, "both devices idle because"),
        ({"devices": 4}, "all 4 devices idle because"),
        ({"kind": "cpu"}, "nothing computes because"),
        ({"kind": "tpu"}, "the accelerator idles because"),
        ({"locked": True}, "the GPU idles, mostly because threads that prepare batches in Python"),
    ],
)
def test_who_idles(about, idle):
    assert idle in bound("input", **about)


def test_several_devices_that_compute():
    assert "at least one of 4 devices computes for" in bound("compute", devices=4)


def test_start_up_and_what_to_fix_first():
    assert verdict_sentence(MostlyStartUp(2 / 3), "Reuse the traced function") == (
        "Start-up takes 67 % of what was recorded: first-run set-up, not the training step, is "
        "what this record shows. Fix first: reuse the traced function."
    )


def test_a_known_problem_comes_before_what_is_not_known():
    assert verdict_sentence(NotTraced(9, "it was short", "Train longer"), "Read in parallel") == (
        "Read in parallel. Whether something else takes as long, stepwhy cannot tell: 9 steps were "
        "timed, but none was traced: it was short. Train longer."
    )


@pytest.mark.parametrize("lack", Lack)
def test_every_lack_has_a_sentence(lack):
    text = verdict_sentence(Gap(lack, NUMBERS.get(lack)))
    assert text.startswith("Cannot tell: ")
    assert text.endswith(".")
    assert "{" not in text


@pytest.mark.parametrize(
    ("reason", "fragment"),
    [
        (Gap(Lack.DEVICE_OWNERS), "several processes were merged"),
        (Gap(Lack.DEVICE_OWNERS, 2), "2 processes were merged"),
        (Gap(Lack.DEVICE_WORK, 0.25), "25 % of the kernels and copies that the steps launched are"),
        (Gap(Lack.OPERATIONS, 9.4), "so few operations per step (9)"),
        (Gap(Lack.WHOLE_STEP, 9), "(kernels and copies: 9)"),
        (Gap(Lack.LAST_WAIT, 5_000_000), "so a step takes at least 5.00 ms."),
        (Gap(Lack.AWAITED_WORK, 0.89), "for 89 % of the record the host waits"),
        (Limited("it is a sketch. Record it"), "it is a sketch. Record it."),
        (NotTraced(1, "the disk was full", "Free some"), "1 step was timed, but none was traced: "),
        (
            NotTraced(1200, "the disk was full", "Free some"),
            "1,200 steps were timed, but none was traced: the disk was full. Free some.",
        ),
        (
            NoEvidence(0.7, Lead.SAMPLED_LINE, 0.5, "a.py(9): f"),
            "In 50 % of the stack samples the driving thread was at a.py(9): f: start there.",
        ),
        (NoEvidence(0.7, Lead.RECORD_AGAIN), "70 % of the step has no evidence in this file."),
        (NoEvidence(0.7, Lead.BUSY_CORES, 0.4), "for 40 % of the time it wanted to run"),
        (NoEvidence(0.7, Lead.RECORD_AGAIN), "Record again with host operations"),
        (NoEvidence(0.7, Lead.RECORD_STACKS), "Record a few later steps, with Python stacks."),
        (NoEvidence(0.7, Lead.BETWEEN_CALLS), "between two framework calls."),
    ],
)
def test_numbers_and_texts_of_a_reason(reason, fragment):
    assert fragment in why_unknown(reason)
