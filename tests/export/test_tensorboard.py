"""Log directories, read back by TensorBoard itself in a process without TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from tests.analyse.timeline import MS, Timeline
from tests.kineto_samples import sample

from stepwhy.base.errors import OutputError
from stepwhy.cli import cli
from stepwhy.engine.explain import explain_opened
from stepwhy.engine.rank_sets import Opened
from stepwhy.show import markdown
from stepwhy.show.export import curves
from stepwhy.show.export.curves import thinned
from stepwhy.show.export.explained import Explained
from stepwhy.show.export.series import Curve, series_of
from stepwhy.show.export.tensorboard import write_tensorboard
from stepwhy.trace import Kind

pytest.importorskip("tensorboard")

# 2026, in ms, as observed steps have the time of the day.
START = 1_767_225_600_000
HOSTILE = "<script>alert(1)</script>\n# [x](y)\x1b[2J\u202e/fraction_of_32_full"

READ = """
import json, sys, types
sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")  # use no TensorFlow
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = {}
for folder in sys.argv[1:]:
    one = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    one.Reload()
    scalars, texts = one.Tags()["scalars"], one.Tags()["tensors"]
    found[folder] = {
        "scalars": {t: [(e.step, e.wall_time, e.value) for e in one.Scalars(t)] for t in scalars},
        "texts": {t: one.Tensors(t)[0].tensor_proto.string_val[0].decode() for t in texts},
        "plugins": {t: one.SummaryMetadata(t).plugin_data.plugin_name for t in texts},
        "help": {t: one.SummaryMetadata(t).summary_description for t in scalars},
    }
print(json.dumps(found))
"""


def observed():
    """Ten observed steps of 100 ms, two of them traced, with a queue and memory."""
    timeline = Timeline()
    for i in range(10):
        begin = START + 100 * i
        is_traced = i in {4, 5}
        timeline.mark(begin, begin + 100, profiled=int(is_traced), wait=None if i == 9 else 25)
        if is_traced:
            timeline.steps(begin, begin + 100)
            timeline.launch((begin, begin + 1), (begin + 40, begin + 100), i + 1)
    for i, value in enumerate((7, 3, 0)):
        at = (START + 150 + 200 * i) * MS
        about = {"kind": timeline.builder.intern("dataloader"), "capacity": 8, "reserve": 0}
        for name in ("images", HOSTILE):
            queue = timeline.builder.intern(name)
            timeline.builder.add("levels", time_ns=at, queue=queue, value=value, **about)
        name = timeline.builder.intern("resident_bytes")
        timeline.builder.add("counters", time_ns=at, name=name, value=value << 20)
    return timeline.trace(framework="pytorch", signals=frozenset({"device-activity", "step-log"}))


def recorded(rank=None):
    """Three traced steps on a clock that starts with the machine."""
    timeline = Timeline()
    timeline.steps(0, 10, 20, 30)
    for i in range(3):
        timeline.launch((10 * i, 10 * i + 1), (10 * i + 2, 10 * i + 8), i + 1)
    about = {} if rank is None else {"rank": rank, "world_size": 2}
    return timeline.trace(**about)


def explained(*traces):
    series = []
    opened = [Opened(f"{i}.json", "test", trace) for i, trace in enumerate(traces)]
    result = explain_opened(
        opened, [], seen=lambda _, facts, _result: series.append(series_of(facts))
    )
    return Explained("x", result, "verdict", markdown.render(result), tuple(series))


def log_folder(tmp, name, *traces):
    folder = tmp / name
    write_tensorboard(explained(*traces), folder)
    return folder


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """What TensorBoard reads, by the name of the folder."""
    tmp = tmp_path_factory.mktemp("logs")
    folders = [log_folder(tmp, "observed", observed()), log_folder(tmp, "recorded", recorded())]
    ranks = log_folder(tmp, "ranks", recorded(0), recorded(1))
    folders += sorted(ranks.iterdir())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ, *map(str, folders)],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return {path.rpartition("/")[2]: found for path, found in json.loads(done.stdout).items()}


def values(points):
    return [(step, value) for step, _, value in points]


def test_step_times_by_step_number_and_time_of_day(read):
    scalars = read["observed"]["scalars"]
    free = [1, 2, 3, 4, 7, 8, 9, 10]
    assert values(scalars["step_time_ms/step"]) == [(step, 100) for step in free]
    assert values(scalars["step_time_ms/profiled_step"]) == [(5, 100), (6, 100)]
    assert scalars["step_time_ms/step"][0][1] == pytest.approx(START / 1000 + 0.1)
    waits = values(scalars["step_time_ms/waiting_for_input"])
    assert waits == [*((step, 25) for step in free[:-1]), (10, 0)]


def test_traced_steps_add_up_and_so_does_the_mean(read):
    scalars = read["observed"]["scalars"]
    per_step = [points for tag, points in scalars.items() if tag.startswith("breakdown_ms/")]
    sums = {step: sum(v for points in per_step for s, v in values(points) if s == step)
            for step in (5, 6)}  # fmt: skip
    assert sums == {5: pytest.approx(100), 6: pytest.approx(100)}
    mean = [values(p) for tag, p in scalars.items() if tag.startswith("mean_breakdown_ms/")]
    assert [len(points) for points in mean] == [1] * len(mean)
    assert sum(points[0][1] for points in mean) == pytest.approx(100)
    assert {points[0][0] for points in mean} == {10}
    assert "a single point" in read["observed"]["help"]["mean_breakdown_ms/compute"]
    assert "under the profiler" in read["observed"]["help"]["breakdown_ms/compute"]


def test_levels_and_memory_at_the_step_of_the_sample(read):
    scalars = read["observed"]["scalars"]
    assert values(scalars["queue/images/elements"]) == [(2, 7), (4, 3), (6, 0)]
    assert values(scalars["memory_mib/process resident"]) == [(2, 7), (4, 3), (6, 0)]
    assert "Capacity: 8." in read["observed"]["help"]["queue/images/elements"]


def test_verdict_and_report_are_markdown(read):
    found = read["observed"]
    assert set(found["plugins"].values()) == {"text"}
    assert found["texts"]["stepwhy/verdict"] == "verdict"
    report = found["texts"]["stepwhy/report"]
    assert "### Where the" in report
    assert "(`wall-device-gap`)" in report
    assert "**Cannot tell**: For 39 % of the step the device idles" in report


def test_what_was_not_recorded_has_no_series(read):
    tags = read["recorded"]["scalars"]
    assert {tag.partition("/")[0] for tag in tags} == {
        "step_time_ms", "breakdown_ms", "mean_breakdown_ms",
    }  # fmt: skip
    assert [tag for tag in tags if tag.startswith("step_time")] == ["step_time_ms/step"]
    assert values(tags["step_time_ms/step"]) == [(1, 10), (2, 10), (3, 10)]


def test_unknown_times_are_that_of_the_export(read):
    times = {time for _, time, _ in read["recorded"]["scalars"]["step_time_ms/step"]}
    assert len(times) == 1
    assert times.pop() > START / 1000


def test_each_rank_is_a_run_of_its_own(read):
    assert set(read) == {"observed", "recorded", "rank-0", "rank-1"}
    assert "stepwhy/report" in read["rank-0"]["texts"]
    assert read["rank-1"]["texts"] == {}
    assert "step_time_ms/step" in read["rank-1"]["scalars"]


def test_names_are_on_one_line_and_no_fill_level_to_the_importer(read):
    (tag,) = [tag for tag in read["observed"]["scalars"] if "script" in tag]
    assert tag.isprintable()
    assert tag.endswith("/elements")


def test_the_folder_is_no_run_and_no_trace(tmp_path):
    folder = log_folder(tmp_path, "logs", observed())
    done = CliRunner().invoke(cli, ["explain", str(folder)])
    assert done.exit_code == 3
    assert "[input-empty]" in done.stderr


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(OutputError, match="does not exist yet"):
        write_tensorboard(explained(recorded()), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("stepwhy.show.export.tensorboard._write_curves", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_tensorboard(explained(recorded()), tmp_path / "logs")
    assert [*tmp_path.iterdir()] == []


def test_the_command_names_the_folder_after_its_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.pt.trace.json").write_bytes(sample("2024 fractional"))
    done = CliRunner().invoke(cli, ["export", "run.pt.trace.json", "--to", "tensorboard"])
    assert done.stderr.splitlines()[0] == "Exported: run.tensorboard"
    (file,) = (tmp_path / "run.tensorboard").iterdir()
    assert file.name.startswith("events.out.tfevents.")
    assert file.name.endswith(".stepwhy")  # and no name of a machine


def test_of_many_values_the_largest_neighbours_stay(monkeypatch):
    monkeypatch.setattr(curves, "MOST_POINTS", 3)
    numbers = np.array([1, 9, 2, 3, 8, 0, 4])
    curve, note = thinned(Curve(np.arange(1, 8), np.arange(7), numbers))
    assert curve.values.tolist() == [9, 8, 4]
    assert curve.steps.tolist() == [2, 5, 7]
    assert "Of each 3 neighbouring values" in note


def test_a_trace_without_steps_has_no_step_times():
    timeline = Timeline()
    timeline.add(timeline.stream(), Kind.KERNEL, 0, 7)
    (series,) = explained(timeline.trace()).series
    found = {tagged.tag for tagged in curves.curves_of(series)}
    assert found == set()
