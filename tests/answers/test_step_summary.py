"""What a run directory with events, levels, light steps and a lasting change becomes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.importers.run_directory.test_run_directory import MS, write_run

from stepwhy.answers.step_summary import _deciles, note_of_changes
from stepwhy.engine import explain
from stepwhy.passes.facts import Facts
from stepwhy.report.json import render
from stepwhy.trace import Meta, TraceBuilder

US = 1_000


def facts_of(*stretches):
    """A log of (steps, length in ns), with a change noticed 1.7 s into each but the first."""
    builder = TraceBuilder()
    at = 0
    for number, (count, length) in enumerate(stretches):
        if number:
            change = builder.intern("change")
            builder.add("events", kind=change, name=change, start_ns=at + 1700 * MS, dur_ns=0)
        for _ in range(count):
            builder.add("marks", start_ns=at, dur_ns=length)
            at += length
    return Facts(builder.finish(Meta("step-log")))


def test_a_steady_run_needs_no_note():
    assert note_of_changes(facts_of((100, 10 * MS))) == ()


ROSE = (
    "After step 1,200 the step time rose from 10.0 ms to 20.0 ms; this report covers the steps "
    "before it."
)
FELL = (
    "After step 90 the step time fell from 20.0 ms to 10.0 ms; this report covers the steps after "
    "it."
)
BOTH = (
    "The step time changed for good after steps 90, 490 (20.0 ms, 10.0 ms, 30.0 ms); this report "
    "covers steps 91 to 490."
)


@pytest.mark.parametrize(
    ("stretches", "sentence"),
    [
        ([(1200, 10 * MS), (100, 20 * MS)], ROSE),
        ([(90, 20 * MS), (400, 10 * MS)], FELL),
        ([(90, 20 * MS), (400, 10 * MS), (90, 30 * MS)], BOTH),
    ],
)
def test_changes_are_told_in_one_sentence(stretches, sentence):
    assert note_of_changes(facts_of(*stretches)) == (sentence,)


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
