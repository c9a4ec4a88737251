"""Traces that others recorded, against facts that an independent program measured on them.

The folder named by STEPWHY_TRACES holds them and `FACTS.json`; they are no part of the package.
"""

import json
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from stepwhy.analyse.answers.verdict import decide
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.registry import all_formats
from stepwhy.result.wording.verdict import verdict_sentence
from stepwhy.trace.integrity import check
from tests import recorded

TRACES = os.environ.get("STEPWHY_TRACES")
pytestmark = [
    recorded.TOGETHER,
    pytest.mark.traces,
    pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces"),
]

TOLERANCE = 0.01
ROUNDING_MS = 0.001  # the facts are written with three decimals

# (file, figure) -> why the difference is right.
JUSTIFIED = {
    ("kineto/mi300_ddp_resnet_actckpt_rank0of8.json.gz", "median step"): (
        "The host marks steps of 16.0 ms, but the device falls 3 ms further behind in each: steps "
        "are cut where their device work ends, and take 19.0 ms."
    ),
    ("kineto/h100_qwen05b.json.gz", "median step"): (
        "The marker of 47.2 ms begins with a wait for 10 of 24 layers of the pass before, whose "
        "launches were not recorded. The pass itself takes 35.2 ms."
    ),
    ("kineto/mtia_inference.json.gz", "kernels"): "Semaphore waits and DMA rows are no kernels.",
    ("kineto/mtia_inference.json.gz", "kernel sum"): "Semaphore waits and DMA rows are no kernels.",
}

# What the expert's primary cause is called in a verdict; causes that are not here name none.
BOUND_BY = {
    "input_pipeline": "input",
    "host_preprocessing": "input",
    "host_bound": "host",
    "host_blocked_sync": "host",
    "launch_bound_small": "host",
    "host_bound_or_balanced": "host",
    "gpu_compute": "compute",
    "cpu_compute": "compute",
    "communication": "communication",
    "startup": "startup",
    "warmup_dominates": "startup",
    "cannot_tell": "unknown",
    "cannot_tell_sliced": "unknown",
    "no_gpu_events": "unknown",
}


def measured():
    """Facts of the files that this version reads, by their path in the folder."""
    if not TRACES:
        return {}
    known = json.loads(Path(TRACES, "FACTS.json").read_text())
    return {k: v for k, v in known.items() if k.startswith(("kineto/", "tf_timeline/"))}


FILES = sorted(measured())
KINETO = [f for f in FILES if f.startswith("kineto/")]


def facts_of(name):
    return recorded.facts_of(Path(TRACES, name))


def assert_agrees(name, figure, ours, theirs):
    if (name, figure) not in JUSTIFIED:
        assert ours == pytest.approx(theirs, rel=TOLERANCE, abs=ROUNDING_MS), figure


def test_every_kineto_file_of_the_folder_is_measured():
    found = {str(p.relative_to(TRACES)) for p in Path(TRACES, "kineto").rglob("*.json*")}
    assert found == set(KINETO)


@pytest.mark.parametrize("name", FILES)
def test_records_are_kept_or_counted_and_every_step_is_closed(name):
    facts = facts_of(name)
    check(facts.trace)
    health = facts.trace.health
    assert health.events_read == health.events_kept + health.dropped
    assert (facts.per_step.sum(axis=1) == facts.steps.durations_ns).all()
    assert (facts.per_step >= 0).all()
    for partition in facts.device_partitions:
        closed = partition.per_step(facts.steps).sum(axis=1)
        assert (closed == facts.steps.durations_ns).all()
    assert sum(facts.breakdown.values()) == facts.wall_ns
    sets = facts.partition.sets.values()
    start, end = facts.span
    assert sum(s.total_ns for s in sets) == end - start


@pytest.mark.parametrize("name", FILES)
def test_no_lenient_importer_takes_a_file_of_a_strict_one(name):
    assert facts_of(name).trace.meta.format == name.partition("/")[0].replace("_", "-")


@pytest.mark.parametrize("name", KINETO)
def test_the_format_declares_what_the_file_shows(name):
    assert facts_of(name).trace.meta.signals <= set(all_formats()["kineto"].signals)


@pytest.mark.parametrize("name", KINETO)
def test_every_record_of_the_file_was_read(name):
    expected = measured()[name]["n_events"]
    assert facts_of(name).trace.health.events_read == expected


@pytest.mark.parametrize("name", KINETO)
def test_steps(name):
    durations = (measured()[name].get("profiler_steps") or {}).get("dur_ms") or {}
    steps = facts_of(name).steps
    if not durations:
        assert steps.source != "marker"
        return
    assert steps.source == "marker"
    assert len(steps.starts) == durations["n"]
    assert_agrees(name, "median step", np.median(steps.durations_ns) / 1e6, durations["median"])


@pytest.mark.parametrize("name", KINETO)
def test_totals_of_the_devices(name):
    expected = measured()[name].get("gpu", {})
    totals = {t.name.rpartition(":")[2]: t for t in facts_of(name).totals if t.name != "CPU"}
    assert sorted(totals) == sorted(expected)
    for number, theirs in expected.items():
        ours = totals[number]
        for figure, ns, ms in (
            ("busy", ours.busy_ns, theirs["busy_ms"]),
            ("kernel sum", ours.kernel_ns, theirs["kernel_sum_ms"]),
            ("communication", ours.communication_ns, theirs["comm_ms"]),
            (
                "exposed communication",
                ours.exposed_communication_ns,
                theirs["exposed_comm_ms"],
            ),
            ("H2D", ours.h2d_ns, theirs["h2d_ms"]),
        ):
            assert_agrees(name, figure, ns / 1e6, ms)
        assert_agrees(name, "kernels", ours.kernels, theirs["kernels"])


@pytest.mark.parametrize("name", KINETO)
def test_bytes_copied_to_the_devices(name):
    for number, theirs in measured()[name].get("gpu", {}).items():
        copies = [v for k, v in theirs["memcpy"].items() if "HtoD" in k or "HostToDevice" in k]
        written = sum(v["bytes"] for v in copies)
        (ours,) = (t for t in facts_of(name).totals if t.name.endswith(f":{number}"))
        if written:  # ROCm writes sizes where the independent program does not look
            assert ours.h2d_bytes == written


def assert_all_agree(name):
    test_steps(name)
    test_totals_of_the_devices(name)


@pytest.mark.parametrize("figure", sorted(JUSTIFIED))
def test_a_justified_difference_is_a_difference(figure, monkeypatch):
    name, what = figure
    monkeypatch.delitem(JUSTIFIED, figure)
    with pytest.raises(AssertionError, match=what):
        assert_all_agree(name)


def expected_bounds():
    """The verdict that the expert's reading of each file amounts to."""
    primary = {n: v.get("expert", {}).get("primary") for n, v in measured().items()}
    return {n: BOUND_BY[p] for n, p in primary.items() if p in BOUND_BY}


def test_the_verdict_is_the_experts_on_nine_of_ten_files():
    expected = expected_bounds()
    differing = {
        name: (bound, decide(facts_of(name)).bound_by)
        for name, bound in expected.items()
        if decide(facts_of(name)).bound_by != bound
    }
    assert len(expected) >= 30
    assert len(differing) <= 0.1 * len(expected), differing


@pytest.mark.parametrize("name", [n for n, b in expected_bounds().items() if b == "unknown"])
def test_the_verdict_abstains_with_a_reason_where_one_cannot_tell(name):
    verdict = decide(facts_of(name))
    assert (verdict.bound_by, verdict.confidence) == ("unknown", 0.0)
    assert verdict_sentence(verdict.reason).startswith("Cannot tell: ")


def test_device_side_steps_are_used_only_where_the_device_lags():
    lagging = [n for n in KINETO if facts_of(n).steps.device_side]
    assert "kineto/mi300_ddp_resnet_actckpt_rank0of8.json.gz" in lagging
    for name in lagging:
        steps = facts_of(name).steps
        assert (steps.ends >= steps.host_ends).all()


def test_a_file_cut_in_the_middle_of_a_record_is_read_as_far_as_it_goes():
    facts = facts_of("malformed/kineto_truncated_mid_event.json")
    whole = facts_of("kineto/h100_tiny_transformer_a.json")
    lost = {c.counter: c.count for c in facts.trace.health.counters if c.severity == "error"}
    assert lost == {"json-truncated": 1, "unreadable-record": 1}
    assert 0 < len(facts.trace.slices) < len(whole.trace.slices)
    assert decide(facts).confidence < decide(whole).confidence


def header_texts(name):
    """Texts of a file's header: hosts, users, jobs, log lines and paths among them."""
    try:
        fields = msgspec.json.decode(
            read_source(Path(TRACES, name)).data, type=dict[str, msgspec.Raw]
        )
    except msgspec.DecodeError:
        return []  # a top-level list has no header
    values = [msgspec.json.decode(v) for k, v in fields.items() if k != "traceEvents"]
    texts = [v for v in values if isinstance(v, str)]
    texts += [v for one in values if isinstance(one, list) for v in one if isinstance(v, str)]
    return [t for t in texts if len(t) > 4]


@pytest.mark.parametrize("name", KINETO)
def test_no_text_of_a_header_shows(name):
    trace = facts_of(name).trace
    shown = "\n".join([*trace.strings, repr(trace.meta), repr(trace.health.counters)])
    assert [t for t in header_texts(name) if t in shown] == []


def test_some_headers_have_something_to_hide():
    assert any("facebook.com" in t for name in KINETO for t in header_texts(name))
