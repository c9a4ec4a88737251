"""Pairs of statements that cannot both be true."""

import pytest
from msgspec.structs import replace
from tests.measure.results import MS, host, result

from stepwhy.diagnose import TABLE, load
from stepwhy.result import Evidence, Finding, LineBreakdown, LineTime, ParallelUse, Saving
from stepwhy.result.contradictions import _CATEGORY_OF, _OTHERS, _STORAGE, contradictions
from stepwhy.result.wall_clock import GapPart, WallClock
from stepwhy.result.watched import EventGroup, Pipeline

CLEAR = {load(name).RULE.id: load(name).RULE.clear for name in TABLE}


def run(*findings, categories=None, **changes):
    """A run of steps of 10 ms, with these findings."""
    made = result([10 * MS] * 20, categories=categories or {"compute": 10 * MS})
    return replace(made, findings=findings, **changes)


def clear(name):
    return Finding(name, "clear", CLEAR[name])


def found(**values):
    return Finding("launch-bound", "found", "Launch fewer or larger kernels", **values)


def with_steps(**values):
    return replace(run().steps, **values)


def test_nothing_is_said_against_a_consistent_result():
    findings = [clear(name) for name in CLEAR]
    saving = Saving(1 * MS, 2 * MS, "dispatch=gone", note="It can save more than its cost.")
    facts = Evidence("share", 0.1, "fraction"), Evidence("slowdown of a run", 1.4, "fraction")
    one = found(cost_ns_per_step=MS, saving=saving, evidence=facts)
    assert contradictions(run(one, *findings)) == []


def test_each_statement_is_the_title_of_a_check():
    assert {*_CATEGORY_OF, *_OTHERS, *_STORAGE} <= set(CLEAR.values())


QUEUE = Pipeline("input", "tf1-queue", 32, 0, 100, 0.1, 0.6, 0.0)
COLLECTIONS = EventGroup("gc", "generation 2", "", 40, 90 * MS, 20)
CASES = [
    ("noisy-steps", {"steps": with_steps(p10_ns=196, median_ns=200, p90_ns=451)}),
    ("profiler-perturbation", {"steps": with_steps(profiler_cost=0.51)}),
    (
        "profiler-perturbation",
        {"steps": with_steps(profiler_cost=0.01, profiler_cost_interval=(-0.6, 0.59))},
    ),
    ("queue-starvation", {"pipelines": (QUEUE,)}),
    ("gc-pause", {"events": (COLLECTIONS,)}),
    ("cpu-oversubscription", {"host": replace(host(0.0), runnable_threads=8.0)}),
]


@pytest.mark.parametrize(("name", "changes"), CASES, ids=[name for name, _ in CASES])
def test_a_clear_check_beside_a_table_that_shows_the_opposite(name, changes):
    (text,) = contradictions(run(clear(name), **changes))
    assert text.startswith(f"{name} says '{CLEAR[name]}', but ")


def test_lines_that_do_not_sum_to_the_step():
    whole = LineTime("train.py(3): main", "line", 10 * MS, {"compute": 10 * MS}, {})
    lines = LineBreakdown(10 * MS, (whole,), "clock")
    assert contradictions(run(lines=lines)) == []
    part = replace(whole, time_ns=9 * MS, phases={"forward": 10 * MS})
    assert contradictions(run(lines=replace(lines, lines=(part,)))) == [
        "The categories of a line do not sum to its time.",
        "A line computes for longer than it takes.",
    ]
    other = replace(whole, categories={"python": 10 * MS})
    assert contradictions(run(lines=replace(lines, lines=(other,)))) == [
        "The lines do not sum to the compute of the step.",
    ]


@pytest.mark.parametrize(("title", "category"), _CATEGORY_OF.items())
def test_a_clear_check_beside_a_large_category(title, category):
    name = next(name for name, text in CLEAR.items() if text == title)
    parts = {"compute": 5 * MS, category: 5 * MS}
    assert contradictions(run(clear(name), categories=parts)) == [
        f"{name} says '{title}', but {category} is 50 % of the step."
    ]


def test_storage_that_no_check_sees():
    findings = clear("checkpoint-stall"), clear("logging-stall")
    parts = {"compute": 5 * MS, "storage": 5 * MS}
    (text,) = contradictions(run(*findings, categories=parts))
    assert text == "Neither saving nor logging takes long, but storage is 50 %."


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (found(cost_ns_per_step=11 * MS), "launch-bound costs 11.0 ms of a step of 10.0 ms."),
        (
            found(cost_ns_per_step=MS, saving=Saving(2 * MS, 3 * MS, "", note="More.")),
            "launch-bound saves at least 2.00 ms, but costs less.",
        ),
        (
            found(cost_ns_per_step=MS, saving=Saving(0, 2 * MS, "")),
            "launch-bound can save more than it costs, and does not say why.",
        ),
        (
            found(evidence=(Evidence("share of the step", 1.1, "fraction"),)),
            "launch-bound: share of the step is 110 %.",
        ),
        (
            found(evidence=(Evidence("step without waiting for a batch", 1, "ns"),)),
            "launch-bound: step without waiting for a batch is 1 ns.",
        ),
        (
            found(explained_by="host-sync"),
            "launch-bound is explained by host-sync, which was not found.",
        ),
    ],
)
def test_a_finding_that_does_not_fit_the_step(finding, text):
    assert contradictions(run(finding)) == [text]


def test_a_share_without_evidence_that_is_not_that_of_the_breakdown():
    fact = Evidence("share of the step without evidence", 0.004, "fraction")
    made = run(found(evidence=(fact,)), categories={"compute": 7 * MS, "unexplained": 3 * MS})
    (text,) = contradictions(made)
    assert text.endswith("is 0.4 %, but the breakdown leaves 30 % unexplained.")


def test_one_rank_where_two_were_read():
    fact = Evidence("waiting for others", "unknown from the trace of one rank", "")
    made = run(found(evidence=(fact,)))
    assert contradictions(made) == []
    (text,) = contradictions(replace(made, run=replace(made.run, ranks=2)))
    assert text.endswith("but 2 ranks were read.")


def test_a_breakdown_that_is_not_closed():
    made = run(categories={"compute": 9 * MS})
    assert contradictions(made) == ["The categories do not sum to the step."]


def test_a_wall_clock_whose_parts_are_another_time():
    parts = (GapPart("between-runs", 3 * MS),)
    assert contradictions(run(wall_clock=WallClock(20, 18, 10 * MS, 7 * MS, parts))) == []
    (text,) = contradictions(run(wall_clock=WallClock(20, 18, 10 * MS, 6 * MS, parts)))
    assert text == "The wall clock shows 10.0 ms, its parts sum to another time."


def test_a_wait_for_a_core_that_is_longer_than_the_step():
    made = run()
    longer = replace(made, breakdown=replace(made.breakdown, core_wait_ns=11 * MS))
    assert contradictions(longer) == ["The step waits for a core for longer than it takes."]


def test_devices_that_compute_for_longer_than_the_step():
    use = ParallelUse(3, 0.43, 0.42, 1.025)
    assert contradictions(run(parallel=use)) == [
        "Devices together compute for longer than the step takes."
    ]
