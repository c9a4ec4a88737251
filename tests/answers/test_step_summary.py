"""What a run directory with events, levels, light steps and a lasting change becomes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.analyse.timeline import Timeline
from tests.read.run_directory.test_run_directory import MS, write_run

from stepwhy.analyse.answers.step_summary import _deciles, step_notes, stretches, summarise_steps
from stepwhy.analyse.facts import Facts
from stepwhy.engine import explain
from stepwhy.result.reasons import Cut, LongSteps, Unprofiled
from stepwhy.show.json import render
from stepwhy.trace import Meta, TraceBuilder

US = 1_000


def test_notes_of_watched_steps():
    line = Timeline()
    for i in range(4):
        line.mark(10 * i, 10 * i + 10)
    assert step_notes(Facts(line.trace())) == (Cut.NOT_TRACED,)
    line.steps(0, 10)
    assert step_notes(Facts(line.trace())) == (Unprofiled(1),)


@pytest.mark.parametrize(
    ("long", "notes"),
    [(15, (Unprofiled(1),)), (110, (Unprofiled(1), LongSteps(20 * MS, 0.5)))],
    ids=["few", "many"],
)
def test_long_steps_that_the_median_hides_are_noted(long, notes):
    line, at = Timeline().steps(0, 10), 10
    for i in range(30):
        length = long if i % 10 == 9 else 10
        line.mark(at, at + length)
        at += length
    assert step_notes(Facts(line.trace())) == notes


def test_percentiles_leave_the_warm_up_out():
    steps = summarise_steps(Facts(Timeline().steps(0, 90, 100, 110, 120).trace()))
    assert (steps.count, steps.warm_up) == (4, 1)
    assert (steps.p10_ns, steps.median_ns, steps.p90_ns) == (10 * MS, 10 * MS, 10 * MS)


def test_the_stretch_that_is_described():
    builder, at = TraceBuilder(), 0
    for count, length in ((90, 20 * MS), (400, 10 * MS)):
        if at:
            change = builder.intern("change")
            builder.add("events", kind=change, name=change, start_ns=at + 1700 * MS, dur_ns=0)
        for _ in range(count):
            builder.add("marks", start_ns=at, dur_ns=length)
            at += length
    before, after = stretches(Facts(builder.finish(Meta("step-log"))))
    assert (before.first_step, before.last_step, before.median_ns) == (1, 90, 20 * MS)
    assert (after.first_step, after.last_step, after.median_ns) == (91, 490, 10 * MS)
    assert (before.described, after.described) == (False, True)


def test_the_result_of_a_watched_run(tmp_path):
    clock, lines = 0, []
    for i in range(256):
        light = {"light": 1} if i >= 16 and i % 32 < 8 else {"input_wait_ns": 100 * US}
        length = MS if "light" in light else MS + 4 * US
        profiled = {"profiled": int(i in (20, 21))}
        line = {"kind": "step", "start_ns": clock, "end_ns": clock + length, **light, **profiled}
        lines.append(json.dumps(line))
        clock += length
    process = write_run(tmp_path, lines)
    event = {"kind": "trace", "start_ns": 5 * MS, "end_ns": 6 * MS, "name": "f", "reason": "shape"}
    (process / "events.jsonl").write_text(json.dumps(event) + "\n")
    level = {"kind": "tf1-queue", "name": "q", "value": 0, "capacity": 4}
    (process / "levels.jsonl").write_text(
        "".join(json.dumps({**level, "time_ns": i * MS}) + "\n" for i in range(9))
    )
    result = explain([str(tmp_path)])
    steps = result.steps
    assert (steps.count, steps.observer_cost_ns) == (254, 4 * US)
    assert steps.observer_cost_interval_ns == (4 * US, 4 * US)
    assert [(t.before, t.steps) for t in steps.traced] == [(20, 2)]
    assert [(s.first_step, s.last_step, s.described) for s in steps.stretches] == [(1, 256, True)]
    assert [(e.name, e.first_step, e.first_reason) for e in result.events] == [("f", 5, "shape")]
    assert [(p.name, p.empty_share) for p in result.pipelines] == [("q", 1.0)]
    assert sum(result.breakdown.categories.values()) == result.breakdown.wall_ns
    assert json.loads(render(result))["pipelines"][0]["series"][0] == [0, 0.0]


@pytest.mark.parametrize("name", ["events.jsonl", "levels.jsonl"])
def test_a_torn_log_beside_the_steps_is_read_as_far_as_it_goes(tmp_path, name):
    lines = [json.dumps({"kind": "step", "start_ns": i * MS, "end_ns": i * MS + MS}) for i in
             range(20)]  # fmt: skip
    (write_run(tmp_path, lines) / name).write_text('{"kind":"tf1-queue","time_')
    assert explain([str(tmp_path)]).steps.count == 20


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 96])
def test_deciles_are_those_of_numpy(count):
    durations = np.random.default_rng(count).integers(0, 10**12, count)
    expected = [round(float(value)) for value in np.percentile(durations, [10, 50, 90])]
    assert _deciles(durations) == expected
