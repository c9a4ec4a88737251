"""Steps that are counted line by line are those that `explain` finds in the whole log."""

from __future__ import annotations

import json

import pytest

from stepwhy.apps.top.steps import StepMeter
from stepwhy.read.formats.run_directory.log_files import LogLines
from stepwhy.read.formats.run_directory.step_log import marks_of, read_steps
from stepwhy.show.metrics.model import DurationCounter
from stepwhy.trace import NULL, Meta, TraceBuilder

MS = 1_000_000
START = 10**18


def line(kind, start, end, **values):
    """A line of the log, from and to a time in ms."""
    times = {"start_ns": START + start * MS, "end_ns": START + end * MS}
    return json.dumps({"kind": kind, **times, **values}).encode()


def noted():
    """Steps with waits; every fourth one is light, and one is profiled."""
    for i in range(20):
        about = {"light": 1} if i % 4 == 3 else {"input_wait_ns": 20 * MS}
        yield line("step", 80 * i, 80 * i + 80, profiled=int(i == 6), **about)


def called():
    """A training function, one that evaluates in each step, and a rare one that takes long."""
    for i in range(12):
        begin = 100 * i
        if i % 5 == 4:
            yield line("call", begin + 1, begin + 29, signature=3)
        about = {"light": 1} if i in {4, 5} else {"input_wait_ns": 9 * MS}
        yield line("call", begin + 30, begin + 70, signature=1, profiled=int(i == 8), **about)
        yield line("call", begin + 75, begin + 85, signature=2, input_wait_ns=None)


def sessions():
    """Runs of a session: training, with a queue that is polled."""
    for i in range(9):
        yield line("run", 50 * i, 50 * i + 30, signature=7, profiled=int(3 <= i < 5))
        yield line("run", 50 * i + 31, 50 * i + 32, signature=8)


def explicit():
    """A loop that marks its steps after some that were noted without marks."""
    yield line("step", 0, 10)
    yield line("explicit", 20, 20)
    for i in range(4):
        yield line("run", 20 + 30 * i, 40 + 30 * i, profiled=int(i == 2))
        yield line("step", 20 + 30 * i, 50 + 30 * i)


def hostile():
    """Damaged lines among steps."""
    yield line("step", 0, 10)
    yield from (b"{", b"[]", b"null", b"\xff", b'{"kind":"step","start_ns":"a","end_ns":1}')
    yield json.dumps({"kind": "step", "start_ns": 0, "end_ns": 10**19}).encode()
    yield b"[" * 100_000
    yield line("step", 10, 20)


LOGS = [noted, called, sessions, explicit, hostile, lambda: iter(())]


def explained(lines):
    builder = TraceBuilder()
    marks_of(read_steps(LogLines(lines)).records, builder)
    return builder.finish(Meta("test")).marks


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.__name__)
def test_counts_are_those_of_explain(log):
    meter, marks = StepMeter(), explained([*log()])
    for one in log():  # in any batches
        meter.add([one])
    steps, free = meter.steps(), marks.profiled == 0
    assert steps.count == len(marks)
    assert steps.total_ns == marks.dur_ns.sum()
    assert steps.last_end_ns == (marks.start_ns + marks.dur_ns).max(initial=0)
    assert steps.unprofiled.durations() == DurationCounter(marks.dur_ns[free].tolist()).durations()
    waited = marks.input_wait_ns[free & (marks.input_wait_ns != NULL)]
    assert steps.input_wait_ns == waited.sum()
    assert steps.waits == len(waited)


def test_light_steps_are_not_among_those_whose_waits_were_observed():
    meter = StepMeter()
    meter.add(noted())
    assert meter.steps().observed_ns == 14 * 80 * MS  # 20 but 5 light ones and a profiled one


def test_a_few_calls_are_no_steps():
    meter = StepMeter()
    meter.add([line("call", 10 * i, 10 * i + 5, signature=1) for i in range(2)])
    assert meter.steps().count == 0


def test_signatures_beyond_the_most_are_not_followed(monkeypatch):
    monkeypatch.setattr("stepwhy.apps.top.steps._MOST_SIGNATURES", 2)
    meter = StepMeter()
    meter.add([line("call", 10 * i, 10 * i + 5, signature=i) for i in range(9)])
    assert len(meter._calls["call"]._signatures) == 2
