"""Metrics as text, read back by the parser of Prometheus' own library."""

from __future__ import annotations

import re

import pytest

from stepwhy.show.metrics.families import FAMILIES
from stepwhy.show.metrics.model import DurationCounter, Process, Queue, Run, Usage
from stepwhy.show.metrics.prometheus import text_of

pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families as parsed

MS, S = 1_000_000, 1_000_000_000
HOSTILE = 'a"b\\c\nd\x1b[2J\u202e{}=,'

FULL = Process(
    "pytorch",
    0,
    steps=4,
    durations=DurationCounter([80 * MS, 80 * MS, 120 * MS]).durations(),
    input_wait_ns=100 * MS,
    observed_ns=200 * MS,
    last_step_ns=10**18,
    queues=(Queue("images", "dataloader", 3, 8, 10**18),),
    usage=Usage(10**18, 1000, 0, 2 * S, {1: 500}),
)
RUN = Run(
    "today", (FULL,), True, {"compute": 60 * MS}, {"input-bound": 20 * MS}, {"GPU:0": 4000}
)  # fmt: skip


def samples(run):
    return {
        (sample.name, *sorted(f"{k}={v}" for k, v in sample.labels.items() if k != "run")): (
            sample.value
        )
        for family in parsed(text_of(run).decode())
        for sample in family.samples
    }


def test_every_metric_with_its_unit():
    of = ("framework=pytorch", "rank=0")
    queue = ("framework=pytorch", "queue=images", "queue_kind=dataloader", "rank=0")
    found = samples(RUN)
    buckets = {key: value for key, value in found.items() if key[0].endswith("_bucket")}
    assert {key: value for key, value in found.items() if key not in buckets} == {
        ("stepwhy_run_running",): 1,
        ("stepwhy_steps_total", *of): 4,
        ("stepwhy_step_duration_seconds_count", *of): 3,
        ("stepwhy_step_duration_seconds_sum", *of): 0.28,
        ("stepwhy_input_wait_seconds_total", *of): 0.1,
        ("stepwhy_input_observed_seconds_total", *of): 0.2,
        ("stepwhy_last_step_timestamp_seconds", *of): 1e9,
        ("stepwhy_queue_elements", *queue): 3,
        ("stepwhy_queue_capacity", *queue): 8,
        ("stepwhy_queue_sample_timestamp_seconds", *queue): 1e9,
        ("stepwhy_process_resident_memory_bytes", *of): 1000,
        ("stepwhy_process_swapped_memory_bytes", *of): 0,
        ("stepwhy_process_cpu_seconds_total", *of): 2,
        ("stepwhy_process_sample_timestamp_seconds", *of): 1e9,
        ("stepwhy_gpu_used_memory_bytes", "framework=pytorch", "gpu=1", "rank=0"): 500,
        ("stepwhy_step_breakdown_seconds", "category=compute"): 0.06,
        ("stepwhy_finding_cost_seconds", "finding=input-bound"): 0.02,
        ("stepwhy_memory_peak_bytes", "memory=GPU:0"): 4000,
    }
    counts = {key[2]: value for key, value in buckets.items()}
    assert counts["le=0.05"] == 0
    assert counts["le=0.1"] == 2
    assert counts["le=0.2"] == counts["le=100.0"] == counts["le=+Inf"] == 3


def test_help_and_type_of_every_metric():
    text = text_of(RUN).decode()
    helped = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE))
    types = dict(re.findall(r"^# TYPE (\S+) (.+)$", text, re.MULTILINE))
    assert len(helped) == len(types) == len(FAMILIES)
    assert all(words.endswith(".") for words in helped.values())
    assert types["stepwhy_steps_total"] == "counter"
    assert types["stepwhy_step_duration_seconds"] == "histogram"


def test_what_is_not_known_has_no_sample():
    assert samples(Run("x", (Process("pytorch"),))) == {("stepwhy_run_running",): 0}


def test_zero_is_a_value():
    found = samples(Run("x", (Process("", steps=3, input_wait_ns=0, observed_ns=S),)))
    assert found["stepwhy_input_wait_seconds_total", "framework=", "rank="] == 0


@pytest.mark.parametrize(
    "name", [HOSTILE, "x" * 10_000, "\udcff"], ids=["markup", "long", "undecodable"]
)
def test_names_forge_nothing_and_hide_nothing(name):
    queue = Queue(name, name, 1, None, 0)
    run = Run(name, (Process(name, queues=(queue,)),), costs_ns={name: 1}, peak_bytes={name: 1})
    families = [*parsed(text_of(run).decode())]
    labels = [label for family in families for s in family.samples for label in s.labels.values()]
    assert {family.name for family in families} <= {f.prometheus_name for f in FAMILIES}
    assert all(len(label) <= 200 and label.isprintable() for label in labels)


def test_queues_with_one_name_have_one_sample():
    queues = tuple(Queue("q" * 1000 + end, "tf.data", 1, 2, 0) for end in "ab")
    names = [
        key for key in samples(Run("x", (Process("", queues=queues),))) if "elements" in key[0]
    ]
    assert len(names) == 1


def test_durations_are_counted_by_their_upper_bounds():
    durations = DurationCounter([MS, MS + 1, 100 * S, 100 * S + 1]).durations()
    assert durations.counts[:2] == (1, 1)
    assert durations.counts[-2:] == (1, 1)
    assert durations.sums_ns[1] == MS + 1
    assert (durations.total, durations.total_ns) == (4, 200 * S + 2 * MS + 2)
