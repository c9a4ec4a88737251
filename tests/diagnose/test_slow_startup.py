"""The start of an observed run, told apart by what the main thread did meanwhile."""

import json

import pytest
from tests.read.run_directory.test_run_directory import MS, write_run

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.measurement.slow_startup import diagnose
from stepwhy.read.registry import read_folder

SECOND = 1000 * MS
STEPS, STEP = 40, 100 * MS
LINE = "train.py(73): main"


def slow_startup(folder, *, start_s=20, main_ran_s, children_s, delay_s=0):
    """The finding about a run whose steps begin after some seconds, most of them at one line."""
    at = [start_s * SECOND + i * STEP for i in range(STEPS + 1)]
    lines = [
        json.dumps({"kind": "step", "start_ns": a, "end_ns": a + STEP, "profiled": 0})
        for a in at[:-1]
    ]
    process = write_run(folder, lines)
    run = json.loads((folder / "run.json").read_text())
    run |= {"started_ns": 0, "ended_ns": at[-1]}
    (folder / "run.json").write_text(json.dumps(run))
    samples = [{"role": "startup", "line": LINE, "leaf": "tensorflow", "count": 400}]
    stretch = {"start_ns": 0, "end_ns": at[0], "interval_ns": 50 * MS, "samples": samples}
    (process / "stacks.json").write_text(json.dumps({"stretches": [stretch]}))
    counters = {
        "time_ns": at[0],
        "cpu_ns": main_ran_s * SECOND,
        "run_delay_ns": delay_s * SECOND,
        "main_ran_ns": main_ran_s * SECOND,
        "children_cpu_ns": children_s * SECOND,
    }
    (process / "counters.jsonl").write_text(json.dumps(counters) + "\n")
    (recording,) = read_folder(folder)
    return diagnose(Facts(recording.trace))


@pytest.mark.parametrize(
    ("main_ran_s", "children_s"),
    [(19, 0), (19, 40), (2, 0), (2, 3), (0, 40)],
    ids=[
        "computes",
        "computes-beside-children",
        "waits-for-a-disk",
        "children-do-little",
        "unknown",
    ],
)
def test_what_the_program_does_itself_is_found(tmp_path, main_ran_s, children_s):
    finding = slow_startup(tmp_path, main_ran_s=main_ran_s, children_s=children_s)
    assert finding.verdict == "found"
    assert finding.evidence[-1].where == LINE


def test_a_wait_for_processes_that_it_starts_cannot_be_told(tmp_path):
    finding = slow_startup(tmp_path, main_ran_s=6, children_s=23)
    assert finding.verdict == "incomplete"
    assert "For up to 14.0 s of it, the main thread waited while processes" in finding.reason


def test_other_threads_that_wait_for_a_core_do_not_shorten_that_wait(tmp_path):
    finding = slow_startup(tmp_path, main_ran_s=6, children_s=23, delay_s=4)
    assert finding.verdict == "incomplete"
    assert "For up to 14.0 s of it" in finding.reason


def test_a_short_start_is_clear_whoever_runs(tmp_path):
    finding = slow_startup(tmp_path, start_s=5, main_ran_s=1, children_s=9)
    assert finding.verdict == "clear"
