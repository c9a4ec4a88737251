"""Timelines of SageMaker Debugger: steps, and fetches of batches."""

import os
from pathlib import Path

import pytest
from tests.read.chrome_samples import lost, slices, source_of
from tests.read.sagemaker_samples import fetches, seeds, steps, timeline

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import EmptyInputError
from stepwhy.engine.explain import explain
from stepwhy.read.registry import read_trace
from stepwhy.result.reasons import NeverAhead
from stepwhy.trace.integrity import check

RECORDED = Path(
    os.environ.get("STEPWHY_TRACES", "."), "../traces2/other/tf_smdebug_dataiterator.json.gz"
)


def read(data):
    trace, name = read_trace(source_of(data))
    assert name == "sagemaker-timeline"
    check(trace)
    return trace


def test_every_seed_is_read_whole():
    for _, data in seeds():
        assert lost(read(data)) == {}


def test_steps_of_the_training_are_steps_and_those_of_an_evaluation_are_not():
    facts = Facts(read(steps()))
    assert facts.steps.source == "marker"
    assert facts.steps.durations_ns.tolist() == [5_000_000] + 5 * [990_000]
    assert facts.steps.warm_up == 1
    assert {row[1:3] for row in slices(facts.trace)} == {
        ("STEP", "Step:ModeKeys.TRAIN"),
        ("ANNOTATION", "Step:ModeKeys.EVAL"),
    }
    assert decide(facts).bound_by == "unknown"
    assert "SageMaker Debugger" in facts.trace.meta.limit


def test_overlapping_fetches_are_one_slice():
    fetched = slices(read(fetches((0, 10), (5, 10), (6, 2), (20, 5))))
    assert [row[-2:] for row in fetched] == [(0, 15), (20, 5)]


def test_a_pipeline_that_never_pauses_is_not_ahead_of_the_steps():
    busy = decide(Facts(read(fetches((0, 50), (50, 40), (92, 8)))))
    assert (busy.bound_by, busy.confidence) == ("input", 0.6)
    assert busy.reason == NeverAhead(0.98)
    paused = Facts(read(fetches((0, 50), (60, 40))))
    assert decide(paused).bound_by == "unknown"
    assert paused.breakdown["unexplained"] == paused.wall_ns


def test_fetches_beside_steps_show_that_the_steps_compute_as_well():
    both = timeline(DataIterator=[("dataset::GetNext", 0, 100)], Step_ModeKeys_TRAIN=[("", 0, 100)])
    assert decide(Facts(read(both))).bound_by == "unknown"


def test_unusable_and_foreign_records_are_counted():
    records = b',\n{"ph": "X", "name": "x", "pid": 1, "ts": 5},\n{"ph": "i", "pid": 1, "ts": 5}\n]'
    data = fetches((0, 10))
    assert lost(read(data.replace(b"\n]", records))) == {"unusable-time": 1, "other-record": 1}


def test_a_file_without_ranges_is_a_typed_error():
    with pytest.raises(EmptyInputError, match="no step and no fetch"):
        read(timeline(DataIterator=[]))


def test_a_torn_file_is_read_up_to_the_tear():
    trace = read(fetches((0, 10), (20, 10), (40, 10))[:-30])
    assert len(trace.slices) == 2


@pytest.mark.traces
@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded timeline beside STEPWHY_TRACES")
def test_a_recorded_timeline_fetches_all_the_time():
    """Time under a fetch as measured independently: 1925.387 of 1925.407 ms."""
    result = explain([str(RECORDED)])
    assert result.verdict.bound_by == "input"
    assert "100 % of the time" in result.verdict.sentence
