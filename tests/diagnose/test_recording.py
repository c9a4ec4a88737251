"""Advice on recording again is for the profiler that wrote the file."""

import pytest
from msgspec.structs import replace
from tests.analyse.timeline import Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.measurement import wall_device_gap, warmup_included
from stepwhy.diagnose.shared.rule import examine
from stepwhy.trace import Kind


def fix(diagnosis, trace_format, *rows):
    line = Timeline().steps(0, 100)
    line.add(line.stream(), Kind.KERNEL, 0, 10)
    for kind, start, end in rows:
        line.add(line.thread(), kind, start, end, name="call")
    trace = line.trace(framework="pytorch")
    trace = replace(trace, meta=replace(trace.meta, format=trace_format))
    return examine(diagnosis, Facts(trace)).fix


@pytest.mark.parametrize(
    ("diagnosis", "rows"),
    [(wall_device_gap, ()), (warmup_included, [(Kind.COMPILE, 10, 90)])],
)
def test_files_of_nsight_get_options_of_nsight(diagnosis, rows):
    ours, theirs = (fix(diagnosis, name, *rows) for name in ("nsys", "kineto"))
    assert "nsys profile" in ours.text
    assert "torch" not in ours.code
    assert "torch.profiler" in theirs.code


@pytest.mark.parametrize(("busy_until", "verdict"), [(10, "not_applicable"), (90, "clear")])
def test_time_around_operations_of_a_session_is_clear_only_if_recorded(
    monkeypatch, busy_until, verdict
):
    line = Timeline().steps(0, 100)
    line.add(line.stream(), Kind.KERNEL, 0, busy_until)
    facts = Facts(line.trace(framework="tensorflow"))
    monkeypatch.setattr(wall_device_gap, "find_session_parts", lambda _: object())
    monkeypatch.setattr(wall_device_gap, "session_evidence", lambda *_: ())
    monkeypatch.setattr(wall_device_gap, "is_overhead", lambda *_: True)
    assert facts.share("unexplained") == pytest.approx(1 - busy_until / 100)
    assert examine(wall_device_gap, facts).verdict == verdict
