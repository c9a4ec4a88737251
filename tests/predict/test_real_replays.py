"""Structural replays of recorded traces, and what they predict of runs that were measured."""

import os
from pathlib import Path

import numpy as np
import pytest

from stepwhy.predict.device import price_replayed
from stepwhy.predict.graph import build_graph
from stepwhy.predict.quality import judge
from stepwhy.predict.replay import recorded, run
from stepwhy.result import Refusal, parse_edit
from tests import recorded as traces

TRACES = Path(os.environ.get("STEPWHY_TRACES") or "absent")
pytestmark = [
    traces.TOGETHER,
    pytest.mark.traces,
    pytest.mark.skipif(not TRACES.is_dir(), reason="STEPWHY_TRACES names no folder of traces"),
]

# Traces with steps whose waits were not recorded: streams that wait for events that are not in the
# file, and files of samples.
NOT_QUALIFYING = {
    "a100_recsys_rank0of16.json.gz",
    "a100_triton_tiny.json.gz",
    "mi300_ddp_resnet_actckpt_rank0of8.json.gz",
    "mtia_inference.json.gz",
    "rank0.json.gz",
    "rank1.json.gz",
}


def facts_of(name):
    return traces.facts_of(TRACES / name)


@pytest.fixture(scope="module")
def judged():
    """Name and quality of the Kineto traces with steps of an accelerator."""
    found = {}
    for path in sorted((TRACES / "kineto").rglob("*.json*")):
        facts = facts_of(path.relative_to(TRACES))
        if facts.has_accelerator and facts.steps.source != "whole-trace":
            found[path.name] = judge(facts)
    return found


def test_three_quarters_of_the_traces_with_steps_qualify(judged):
    refused = {name for name, quality in judged.items() if not quality.qualifies}
    assert refused == NOT_QUALIFYING
    assert len(refused) <= 0.25 * len(judged)
    assert all(judged[name].reasons for name in refused)


def test_replays_with_usual_delays_take_as_long_as_the_record(judged):
    qualifying = [quality for quality in judged.values() if quality.qualifies]
    errors = np.array([quality.median_error for quality in qualifying])
    drifts = np.array([quality.worst_error for quality in qualifying])
    on_device = np.array([quality.device_share for quality in qualifying]) >= 0.1
    assert on_device.sum() >= 10
    assert np.median(errors) <= 0.005
    assert np.quantile(errors, 0.9) <= 0.02
    assert np.quantile(drifts, 0.9) <= 0.03
    assert np.quantile(errors[on_device], 0.9) <= 0.05


@pytest.mark.parametrize(
    "name",
    [
        "kineto/r50_dgxs_nw4_mem_a.json.gz",
        "kineto/h100_qwen05b.json.gz",
        "nsys/h100_2gpu_seqparallel_after.sqlite",
    ],
)
def test_a_replay_without_a_change_is_the_record(name):
    graph = build_graph(facts_of(name))
    assert (run(graph, recorded(graph)).start == graph.nodes.start_ns).all()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("r50_v100_nw0_2020_list.json.gz", "r50_v100_nw4_2020_list.json.gz"),
        ("r50_dgxs_nw0_mem_a.json.gz", "r50_dgxs_nw4_mem_a.json.gz"),
    ],
)
def test_loader_workers_gain_what_was_measured(before, after):
    found = price_replayed(facts_of(f"kineto/{before}"), (parse_edit("input=workers:4"),))
    # The mean of the second run includes a step in which a worker was late.
    measured_ns = float(np.median(facts_of(f"kineto/{after}").steps.durations_ns))
    assert found.low_ns <= measured_ns <= found.high_ns
    # The report says "1 to 2 %"; the goal was 6 %.
    assert abs(found.remaining_ns - measured_ns) <= 0.025 * found.step_ns
    assert found.high_ns - found.low_ns <= 0.12 * found.step_ns
    assert abs(found.remaining_ns - measured_ns) <= abs(found.naive_ns - measured_ns)


EDITS = (
    "input=free", "kernels=2x", "kernels=4x", "kernels=gone", "launches=0.5x", "launches=gone",
    "dispatch=gone", "syncs=gone", "copies=gone", "communication=2x", "communication=gone",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["kineto/r50_v100_nw4_2021.json.gz", "kineto/dlrm_v100_8ranks/worker1.pt.trace.json.gz"],
)
def test_gains_lie_within_the_step_and_add_up(name):
    facts = facts_of(name)
    found = {e: price_replayed(facts, (parse_edit(e),)) for e in EDITS}
    priced = {e: p for e, p in found.items() if not isinstance(p, Refusal)}
    for one in priced.values():
        assert 0 <= one.low_ns <= one.remaining_ns <= one.high_ns <= one.step_ns
    assert priced["kernels=4x"].low_ns <= priced["kernels=2x"].low_ns
    assert priced["launches=gone"].low_ns <= priced["launches=0.5x"].low_ns
    both = price_replayed(facts, (parse_edit("kernels=2x"), parse_edit("dispatch=gone")))
    parts = [priced[e].step_ns - priced[e].low_ns for e in ("kernels=2x", "dispatch=gone")]
    assert both.step_ns - both.low_ns >= max(parts)
