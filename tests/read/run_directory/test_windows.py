"""Windows on the time line of the log."""

from __future__ import annotations

import json

import pytest
from tests.analyse.timeline import MS, Timeline
from tests.engine.test_explain import kineto

from stepwhy.read.formats.run_directory.files import WindowFile
from stepwhy.read.formats.run_directory.windows import _fit_steps, read_windows
from stepwhy.read.inputs.folders import RunFolder
from stepwhy.read.registry import read_trace
from stepwhy.trace import Kind

SECOND = 1_000_000_000


def window(folder, number, **about):
    path = folder / "windows" / f"{number:03d}"
    path.mkdir(parents=True)
    (path / "trace.json").write_text(kineto())
    (path / "window.json").write_text(json.dumps({"end_ns": 4 * 10**18, **about}))


def test_a_clock_that_was_set_does_not_part_the_window_from_the_log(tmp_path):
    window(tmp_path, 0)
    window(tmp_path, 1, clock_set_ns=3600 * SECOND)
    found = read_windows(RunFolder(tmp_path), read_trace)
    before, after = (trace.slices.start_ns for trace in found.traces)
    assert set((before - after).tolist()) == {3600 * SECOND}
    (note,) = found.notes
    assert "clock was set forward by 3,600 s" in note or "clock was set forward by 3600 s" in note


def test_an_empty_window_is_none(tmp_path):
    window(tmp_path, 0)
    (tmp_path / "windows" / "002").mkdir()
    found = read_windows(RunFolder(tmp_path), read_trace)
    assert (len(found.traces), found.notes) == (1, [])


@pytest.mark.parametrize("drafts", [(".001",), (".001.profile",), (".001", ".001.profile")])
def test_a_window_that_was_not_finished_is_noted_once_and_ignored(tmp_path, drafts):
    window(tmp_path, 0)
    for draft in drafts:
        (tmp_path / "windows" / draft).mkdir()
        (tmp_path / "windows" / draft / "trace.json").write_text(kineto())
    found = read_windows(RunFolder(tmp_path), read_trace)
    assert (len(found.traces), found.unfinished) == (1, True)
    (note,) = found.notes
    assert note.startswith("A traced window was left unfinished and is ignored")


def test_a_draft_of_a_finished_window_is_not_noted(tmp_path):
    window(tmp_path, 0)
    (tmp_path / "windows" / ".000.profile").mkdir()
    found = read_windows(RunFolder(tmp_path), read_trace)
    assert (len(found.traces), found.unfinished, found.notes) == (1, False, [])


def test_a_damaged_window_is_noted(tmp_path):
    window(tmp_path, 0)
    (tmp_path / "windows" / "000" / "trace.json").write_text("{")
    found = read_windows(RunFolder(tmp_path), read_trace)
    assert (found.traces, found.format) == ([], "")
    assert found.notes[0].startswith("A traced window could not be read")


def test_a_window_without_the_kernels_of_its_device_says_so(tmp_path):
    window(tmp_path, 0, kernels_missing=True)
    (trace,) = read_windows(RunFolder(tmp_path), read_trace).traces
    assert trace.meta.device_expected
    assert trace.health.has("kernels-missing")


def test_windows_without_kernels_are_left_out_beside_one_with_them(tmp_path):
    window(tmp_path, 0, start_ns=1)
    window(tmp_path, 1, kernels_missing=True)
    found = read_windows(RunFolder(tmp_path), read_trace)
    (trace,) = found.traces
    assert not trace.health.has("kernels-missing")
    (note,) = found.notes
    assert note.startswith("A traced window was left out")


def annotated_steps(tmp_path, **about):
    """The steps of a window with marks at 0, 10, 20 and 30 ms that are 4 ms long each."""
    window(tmp_path, 0, **about)
    line = Timeline()
    thread = line.thread()
    for start in (0, 10, 20, 30):
        line.steps(start, start + 4, track=thread)
    found = read_windows(RunFolder(tmp_path), lambda _: (line.trace(), "xplane"))
    (trace,) = found.traces
    rows = trace.rows(Kind.STEP)
    times = zip(trace.slices.start_ns[rows], trace.slices.dur_ns[rows], strict=True)
    return [(start // MS, duration // MS) for start, duration in times], trace.meta.signals


def test_steps_that_led_up_to_a_window_do_not_count(tmp_path):
    steps, signals = annotated_steps(tmp_path, start_ns=9 * MS, ran_ahead=True)
    assert steps == [(10, 4), (20, 4), (30, 4)]
    assert "host-ahead" in signals


def test_a_warm_up_that_was_recorded_is_no_step(tmp_path):
    steps, signals = annotated_steps(tmp_path, start_ns=9 * MS, kind="torch-profiler")
    assert steps == [(10, 4), (20, 4), (30, 4)]
    assert "host-ahead" not in signals


def test_annotated_steps_end_where_the_next_one_begins(tmp_path):
    steps, signals = annotated_steps(tmp_path, start_ns=9 * MS, end_ns=42 * MS, annotated=True)
    assert steps == [(10, 10), (20, 10), (30, 12)]
    assert "host-ahead" not in signals


def test_the_last_step_ends_where_the_device_had_finished():
    line = Timeline().steps(0, 10, 90)
    about = WindowFile(end_ns=40 * MS, start_ns=0, drained=True)
    trace = line.trace()
    _fit_steps(trace, about)
    steps = trace.slices.kind == Kind.STEP
    assert trace.slices.dur_ns[steps].tolist() == [10 * MS, 30 * MS]
