"""What was sampled from outside, as rows of a trace."""

from __future__ import annotations

import json

from stepwhy.analyse.steps.counters import series
from stepwhy.read.formats.run_directory.counter_log import add_counters
from stepwhy.read.formats.run_directory.stack_log import add_samples
from stepwhy.trace import Meta, SampleRole, TraceBuilder


def trace_of(*lines):
    builder = TraceBuilder()
    add_counters([json.dumps(line).encode() for line in lines], builder)
    return builder.finish(Meta("step-log"))


def test_gpus_become_devices_with_counters_of_their_own():
    gpu = {"index": 1, "name": "NVIDIA A100", "utilisation_percent": 87, "power_mw": 5}
    trace = trace_of(
        {"time_ns": 1, "cpu_ns": 10, "gpus": [gpu]},
        {"time_ns": 2, "cpu_ns": 20, "gpus": [{**gpu, "utilisation_percent": 88}]},
    )
    assert [trace.string(int(n)) for n in trace.devices.name] == ["nvml:1"]
    assert trace.string(int(trace.devices.model[0])) == "NVIDIA A100"
    assert series(trace, "gpu utilisation_percent", 0).values.tolist() == [87, 88]
    assert series(trace, "gpu used_bytes", 0).values.tolist() == []
    assert series(trace, "cpu_ns").values.tolist() == [10, 20]


def test_a_zero_is_kept_and_what_is_absent_is_not_made_one():
    trace = trace_of({"time_ns": 1, "disk_wait_ns": 0})
    assert series(trace, "disk_wait_ns").values.tolist() == [0]
    assert series(trace, "disk_read_bytes").values.tolist() == []


def test_a_torn_line_is_skipped():
    builder = TraceBuilder()
    add_counters([b'{"time_ns": 1, "cpu_ns": 5}', b'{"time_ns": 2, "gpus": [{"ind'], builder)
    assert builder.finish(Meta("step-log")).counters.value.tolist() == [5]


def stacks(*samples):
    stretch = {"start_ns": 5, "end_ns": 9, "interval_ns": 1, "samples": samples}
    return json.dumps({"stretches": [stretch]}).encode()


def samples_of(*samples):
    builder = TraceBuilder()
    add_samples(stacks(*samples), builder)
    return builder.finish(Meta("step-log")).samples


def test_roles_of_samples():
    place = {"line": "a.py(1): f", "leaf": "", "count": 3}
    others = ({**place, "role": role} for role in ("worker", "thread", "startup"))
    found = samples_of(place, *others)
    assert (set(found.start_ns.tolist()), set(found.end_ns.tolist())) == ({5}, {9})
    assert found.role.tolist() == list(SampleRole)


def test_what_called_a_line():
    place = {"line": "a.py(1): f", "leaf": "", "count": 3}
    builder = TraceBuilder()
    add_samples(stacks(place, {**place, "entry": "py_func"}), builder)
    trace = builder.finish(Meta("step-log"))
    assert [trace.string(int(e)) for e in trace.samples.entry] == ["", "py_func"]


def test_a_role_of_a_later_version_damages_nothing_else():
    builder = TraceBuilder()
    add_samples(stacks({"line": "", "leaf": "", "count": 3, "role": "robot"}), builder)
    assert len(builder.finish(Meta("step-log")).samples) == 0
