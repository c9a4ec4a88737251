"""Compilations and checkpoints that make some of the steps longer."""

from __future__ import annotations

import numpy as np
import pytest

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.stalls import events_in, find_saves, find_stalls, restarts, rows_of_kinds
from stepwhy.trace.notation import parse

MS = 1_000_000


def run(durations_ms, events, framework="pytorch"):
    """A run whose first step is profiled; events are (kind, step, duration in ms[, name])."""
    starts = np.cumsum([0, *durations_ms[:-1]]).tolist()
    marks = "\n".join(
        f"{start} ms | {duration} ms | {int(i == 0)}"
        for i, (start, duration) in enumerate(zip(starts, durations_ms, strict=True))
    )
    rows = "\n".join(
        f"{kind} | {starts[i]} ms | {ms} ms | {''.join(name) or 'f'}"
        for kind, i, ms, *name in events
    )
    return parse(
        f"framework: {framework}\nsignals: +step-log\n"
        "main step |[--------]|\nCPU:0 kernel |mmmmmmmmmm|\n"
        f"marks: start_ns | dur_ns | profiled\n{marks}\n\n"
        f"events: kind | start_ns | dur_ns | name\n{rows}\n"
    )


def stalls_of(trace):
    return find_stalls(trace, np.arange(1, len(trace.marks)))


SAVES = [("save", step, 40) for step in (4, 8, 12)]
USUAL = [50 if step in {4, 8, 12} else 10 for step in range(13)]


def test_checkpoints_count_with_their_mean_time():
    stalls = stalls_of(run(USUAL, SAVES))
    assert stalls.mean_ns == {"storage": 10 * MS}
    assert stalls.free.tolist() == [1, 2, 3, 5, 6, 7, 9, 10, 11]


def test_the_step_is_the_usual_one_and_its_stalls():
    facts = Facts(run(USUAL, SAVES))
    assert facts.wall_ns == facts.observed.wall_ns == 20 * MS
    assert (facts.breakdown["compute"], facts.breakdown["storage"]) == (10 * MS, 10 * MS)


# The host begins steps in 1 ms each, and waits for all of them before it saves.
AHEAD = [180 if step in {4, 8, 12} else 1 for step in range(21)]


@pytest.mark.parametrize(
    ("framework", "wall_ms", "usual_ms"), [("jax", 27.85, 21.85), ("pytorch", 7, 1)]
)
def test_steps_that_save_may_also_wait_for_those_before(framework, wall_ms, usual_ms):
    facts = Facts(run(AHEAD, SAVES, framework))
    assert facts.wall_ns == pytest.approx(wall_ms * MS)
    assert facts.observed.without_stalls_ns == pytest.approx(usual_ms * MS)
    assert facts.observed.stalls_ns == {"storage": 6 * MS}


def test_stalls_that_take_most_of_the_step_are_named_although_waits_were_not_traced():
    # Every fourth step waits for 900 ms, and others stall; the profiled one lasts 10 ms.
    def decided(stall_ms, kind):
        stalled = dict.fromkeys((4, 8, 12), stall_ms + 10)
        durations = [stalled.get(step, 900 if step % 4 == 1 else 1) for step in range(30)]
        facts = Facts(run(durations, [(kind, step, stall_ms) for step in stalled], "jax"))
        assert not facts.observed.wait_traced
        return decide(facts).bound_by

    assert decided(9000, "compile") == "startup"
    assert decided(9000, "save") == "storage"
    assert decided(900, "save") == "unknown"


def test_in_sessions_only_checkpoints_are_added():
    both = [*SAVES, ("compile", 6, 8), ("compile", 9, 8), ("compile", 10, 8)]
    stalls = find_saves(run(USUAL, both, "tensorflow"), np.arange(1, 13))
    assert stalls.mean_ns == {"storage": 10 * MS}
    assert len(stalls.free) == 9
    assert find_saves(run(USUAL, SAVES[:2]), np.arange(1, 13)).mean_ns == {}


COLLECTIONS = [("gc", step, 40) for step in (4, 8, 12)]


def test_collections_of_garbage_are_python():
    facts = Facts(run(USUAL, COLLECTIONS))
    assert (facts.breakdown["compute"], facts.breakdown["python"]) == (10 * MS, 10 * MS)


def test_a_collection_in_the_profiled_step_does_not_count_twice():
    facts = Facts(
        parse("""
            unit: 1 ms
            framework: pytorch
            signals: +step-log
            main  step   |[------------------]|
            main  op     |mmmmmmmmmm          |  m=aten::mm
            main  python |          pppp      |  p=f

            marks: start_ns | dur_ns | profiled
            0 ms | 20 ms | 1
            20 ms | 14 ms | 0
            34 ms | 14 ms | 0
            48 ms | 14 ms | 0
            62 ms | 54 ms | 0
            116 ms | 14 ms | 0
            130 ms | 14 ms | 0
            144 ms | 54 ms | 0
            198 ms | 14 ms | 0
            212 ms | 14 ms | 0
            226 ms | 14 ms | 0
            240 ms | 54 ms | 0
            294 ms | 14 ms | 0

            events: kind | start_ns | dur_ns | name
            gc | 14 ms | 6 ms | generation 2
            gc | 70 ms | 40 ms | generation 2
            gc | 150 ms | 40 ms | generation 2
            gc | 250 ms | 40 ms | generation 2
        """)
    )
    # Of 20 ms of the profiled step, 6 ms are a collection: 10 ms compute, and 4 ms Python.
    assert facts.wall_ns == 24 * MS
    assert facts.breakdown["python"] == 14 * MS


def test_collections_in_most_steps_do_not_hide_checkpoints():
    short = [("gc", step, 1) for step in range(1, 13)]
    assert stalls_of(run(USUAL, [*SAVES, *short])).mean_ns == {"storage": 10 * MS}


def test_short_collections_in_most_steps_do_not_hide_long_ones():
    short = [("gc", step, 1, "generation 1") for step in range(1, 13)]
    long = [("gc", step, 40, "generation 2") for step in (4, 8, 12)]
    stalls = stalls_of(run(USUAL, sorted([*short, *long], key=lambda event: event[1])))
    assert stalls.mean_ns == {"python": 10 * MS}
    assert len(stalls.free) == 9


def test_compilation_counts_with_the_first_run_of_what_it_makes():
    compiling = [("compile", step, 20) for step in (4, 8, 12)]
    assert stalls_of(run(USUAL, compiling)).mean_ns == {"compile": 10 * MS}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(SAVES[:2], id="too few"),
        pytest.param([(kind, step, 1) for kind, step, _ in SAVES], id="too short"),
        pytest.param([], id="none"),
    ],
)
def test_what_does_not_recur_adds_nothing(events):
    assert stalls_of(run(USUAL, events)).mean_ns == {}


def test_what_is_in_almost_every_step_is_left_to_the_profiled_steps():
    every = [("save", step, 4) for step in range(1, 10)]
    stalls = stalls_of(run([10] * 10, every))
    assert stalls.mean_ns == {}
    assert len(stalls.free) == 9


def test_steps_after_the_last_logged_event_are_unknown():
    events = [("save", 1, 0)] * 1999 + [("save", 3, 4)]
    trace = run([10] * 10, events)
    inside = events_in(trace, np.arange(1, 10), rows_of_kinds(trace, "save"))
    assert inside.steps.tolist() == [1, 2, 3]


def test_workers_that_start_again_add_to_the_wait_for_input():
    durations = [30 if step in {4, 8, 12} else 10 for step in range(13)]
    epochs = [
        (kind, step, ms) for step in (4, 8, 12) for kind, ms in (("epoch", 20), ("workers", 5))
    ]
    trace = run(durations, epochs)
    assert stalls_of(trace).mean_ns == {"input_wait": 5 * MS}
    assert [trace.events.dur_ns[row] for row in restarts(trace)] == [20 * MS] * 3


def test_epochs_of_workers_that_stay_add_nothing():
    durations = [30 if step in {4, 8, 12} else 10 for step in range(13)]
    epochs = [("workers", 0, 5), *(("epoch", step, 20) for step in (4, 8, 12))]
    assert stalls_of(run(durations, epochs)).mean_ns == {}


def test_steps_after_the_last_logged_epoch_are_unknown():
    events = [(kind, 1, 0) for _ in range(200) for kind in ("epoch", "workers")]
    trace = run([10] * 10, events)
    assert events_in(trace, np.arange(1, 10), rows_of_kinds(trace, "epoch")).steps.tolist() == [1]
    assert len(events_in(trace, np.arange(1, 10), rows_of_kinds(trace, "save")).steps) == 9


COMPILATIONS = [("trace", step, 10) for step in (4, 8, 12)]


@pytest.mark.parametrize(
    ("longer_ms", "compile_ms"),
    [(20, 10), (40, 30), (500, 10)],
    ids=["compiled", "and run for the first time", "beside an evaluation"],
)
def test_a_first_run_belongs_to_its_compilation_but_an_evaluation_does_not(longer_ms, compile_ms):
    durations = [longer_ms if step in {4, 8, 12} else 10 for step in range(17)]
    trace = run(durations, COMPILATIONS)
    compiled = events_in(trace, np.arange(1, 17), rows_of_kinds(trace, "trace"))
    assert compiled.with_first_runs_ns == pytest.approx(compile_ms * MS * 3 / 16, rel=0.01)


def test_steps_after_the_last_logged_evaluation_are_unknown():
    events = [("evaluation", step, 4) for step in range(400)]
    trace = run([10] * 500, events)
    evaluated = events_in(trace, np.arange(500), rows_of_kinds(trace, "evaluation"))
    assert (len(evaluated.steps), evaluated.share) == (400, 0.4)


EPOCHS = [10, 10, 10, 10, 50, 10, 10, 10, 50, 10, 10, 10, 50, 10, 10, 10]


def with_pauses(framework, waits="", lasts=50):
    """A run whose steps 4, 8 and 12 are the first after a pause of 2 ms, and last for longer."""
    starts = np.cumsum([0, *EPOCHS[:-1]]) + 2 * (np.arange(len(EPOCHS)) // 4)
    rows = zip(starts.tolist(), EPOCHS, strict=True)
    marks = "\n".join(
        f"{start} ms | {lasts if ms == 50 else ms} ms | {int(not start)} | {waits or -1}"
        for start, ms in rows
    )
    return parse(
        f"framework: {framework}\nsignals: +step-log\n"
        "main step |[--------]|\nCPU:0 kernel |mmmmmmmmmm|\n"
        f"marks: start_ns | dur_ns | profiled | input_wait_ns\n{marks}\n"
    )


def test_epochs_of_keras_that_begin_late_wait_for_input():
    facts = Facts(with_pauses("tensorflow"))
    assert facts.observed.stalls_ns == {"input_wait": 8 * MS}
    assert facts.breakdown["input_wait"] == 8 * MS
    assert facts.wall_ns == 18 * MS


@pytest.mark.parametrize(
    "run", [("pytorch", "", 50), ("tensorflow", "1 ms", 50), ("tensorflow", "", 14)]
)
def test_other_first_steps_do_not_wait(run):
    """In other frameworks, where waits are logged, and where they are hardly longer."""
    assert stalls_of(with_pauses(*run)).mean_ns == {}
