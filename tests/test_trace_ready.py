"""`stepwhy.on_trace_ready()`, with the real profiler and with imitations of it."""

import gc
import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

import stepwhy
from stepwhy.api.trace_ready import TraceReady
from stepwhy.engine import explain, present_traces
from stepwhy.engine.present_traces import traces_of
from stepwhy.engine.reduced_files import has_reduced
from stepwhy.read.inputs.places import Local
from stepwhy.show import json
from tests.engine.test_explain import kineto
from tests.engine.test_reduction import written

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

_HEAD = """
    import os, sys
    import torch, stepwhy
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(profiler=None, count=12):
        for _ in range(count):
            optimizer.zero_grad()
            model(torch.randn(64, 64)).sum().backward()
            optimizer.step()
            if profiler:
                profiler.step()

    cpu = {"activities": [ProfilerActivity.CPU]}
"""


def start(folder, code, **variables):
    (folder / "train.py").write_text(textwrap.dedent(_HEAD + code))
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "train.py"],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def run(tmp_path, forks):
    """Returns what runs some code in a fork, and returns its output and errors."""

    def run_fork(code):
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(_HEAD + code))
        done = forks("torch").run(["-Wignore", script], tmp_path, tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    return run_fork


@needs_torch
@pytest.mark.framework
def test_each_cycle_is_a_trace_and_the_last_one_is_explained(tmp_path, run):
    out, err = run(
        """
    cycles = schedule(wait=1, warmup=1, active=3, repeat=2)
    ready = stepwhy.on_trace_ready()
    with profile(schedule=cycles, on_trace_ready=ready, **cpu) as profiler:
        train(profiler)
    train()
    ready.wait()
    print(ready.folder.relative_to(os.getcwd()).parent, ready._repr_html_()[:7])
    again = stepwhy.explain(ready.folder / "rank0-cycle1.pt.trace.json.gz")
    print(again.result.steps.count, again.result.run.framework)
    """,
    )
    assert out.splitlines() == ["stepwhy-runs <iframe", "3 pytorch"]
    (folder,) = (tmp_path / "stepwhy-runs").iterdir()
    assert folder.name.endswith("-torch-profiler")
    assert sorted(path.name for path in folder.iterdir()) == [
        "rank0-cycle1.pt.trace.json.gz",
        "rank0-cycle2.pt.trace.json.gz",
        "report.html",
    ]
    assert err.count("Where the step goes") == 1
    assert "Again: stepwhy explain" in err
    assert "cycle2.pt.trace.json.gz" in err


@needs_torch
@pytest.mark.framework
def test_without_a_schedule_and_quietly(tmp_path, run):
    _, err = run(
        """
    with profile(on_trace_ready=stepwhy.on_trace_ready("traces", quiet=True), **cpu):
        train()
    """,
    )
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == [
        "rank0-cycle1.pt.trace.json.gz",
        "report.html",
    ]
    assert "stepwhy" not in err


@needs_torch
@pytest.mark.framework
def test_ranks_write_to_one_folder_and_rank_0_explains_them(tmp_path):
    code = """
    where = f"file://{os.getcwd()}/store"
    torch.distributed.init_process_group(
        "gloo", init_method=where, rank=int(os.environ["RANK"]), world_size=2
    )
    with profile(on_trace_ready=stepwhy.on_trace_ready(), **cpu) as profiler:
        train(profiler)
    """
    ranks = [start(tmp_path, code, RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    errors = [program.communicate(timeout=120)[1] for program in ranks]
    (folder,) = (tmp_path / "stepwhy-runs").iterdir()
    assert len(list(folder.glob("rank?-cycle1.pt.trace.json.gz"))) == 2
    assert "2 of 2 ranks" in errors[0]
    assert "stepwhy" not in errors[1]


# --- Imitations ---


class Profiler:
    """Calls its handler as `torch.profiler.profile` does."""

    def __init__(self, handler, text=None):
        self.handler, self.text = handler, kineto() if text is None else text

    def export_chrome_trace(self, path):
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - as the profiler gets it
            file.write(self.text)

    def step(self):
        self.handler(self)

    def stop(self):
        self.handler(self)


class Paused(Profiler):
    """Has nothing recorded when it stops."""

    def stop(self):
        return "stopped"


@pytest.fixture
def explained(monkeypatch):
    """Cycles that were explained, instead of explaining them."""
    cycles = []
    monkeypatch.setattr(TraceReady, "_run", lambda own: cycles.append(own._cycle))
    return cycles


def test_a_stop_that_records_is_explained_once(tmp_path, explained):
    ready = stepwhy.on_trace_ready(tmp_path)
    profiler = Profiler(ready)
    profiler.step()
    profiler.step()
    ready.wait()
    assert explained == []
    profiler.stop()
    ready.wait()
    assert explained == [3]


def test_a_stop_after_the_last_cycle_explains_it(tmp_path, explained):
    ready = stepwhy.on_trace_ready(tmp_path)
    profiler = Paused(ready)
    profiler.step()
    assert profiler.stop() == "stopped"
    ready.wait()
    assert explained == [1]
    profiler.step()
    profiler.stop()
    ready.wait()
    assert explained == [1, 2]


def test_a_profiler_that_is_never_stopped_is_explained_when_it_vanishes(tmp_path, explained):
    ready = stepwhy.on_trace_ready(tmp_path)
    profiler = Paused(ready)
    profiler.step()
    del profiler
    gc.collect()
    ready.wait()
    assert explained == [1]


def test_other_ranks_explain_nothing(tmp_path, explained, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    ready = stepwhy.on_trace_ready(tmp_path)
    Profiler(ready).stop()
    ready.wait()
    assert explained == []
    assert [path.name for path in tmp_path.iterdir()] == ["rank3-cycle1.pt.trace.json.gz"]


def test_a_fork_explains_nothing(tmp_path, explained, monkeypatch):
    ready = stepwhy.on_trace_ready(tmp_path)
    monkeypatch.setattr(ready, "_pid", 0)
    Profiler(ready).stop()
    ready.wait()
    assert explained == []


def test_a_profiler_that_fails_leaves_nothing_behind(tmp_path, explained, capsys):
    class Failing(Profiler):
        def export_chrome_trace(self, _path):
            raise RuntimeError("no\ntrace")

    Failing(stepwhy.on_trace_ready(tmp_path)).stop()
    assert capsys.readouterr().err == (
        "stepwhy: the trace was not written: RuntimeError: no\\ntrace\n"
    )
    assert list(tmp_path.iterdir()) == []
    assert explained == []


def test_a_trace_that_cannot_be_explained_is_one_line(tmp_path, capsys):
    ready = stepwhy.on_trace_ready(tmp_path, quiet=True)
    Profiler(ready, text="{}").stop()
    ready.wait()
    err = capsys.readouterr().err
    assert err.startswith("stepwhy: ")
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, explained, capsys):
    (tmp_path / "file").write_text("")
    Profiler(stepwhy.on_trace_ready(tmp_path / "file" / "traces")).stop()
    err = capsys.readouterr().err
    assert err.startswith("stepwhy: the trace was not written: NotADirectoryError: ")
    assert err.count("\n") == 1
    assert explained == []


def test_of_ranks_that_their_traces_do_not_name_the_first_is_explained(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(kineto())
    result, _ = present_traces._explained([str(tmp_path / name) for name in "ab"])
    assert [file.path for file in result.inputs] == [str(tmp_path / "a")]


def test_each_rank_reduces_its_own_trace_and_rank_0_merges_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "nice", lambda _: 0)
    paths = written(tmp_path, late=1)
    expected = json.render(explain([str(tmp_path)]))
    for path in paths[1:]:
        assert present_traces.main([str(tmp_path), "rank*.json", "0", path.name]) == 0
    assert capsys.readouterr().err == ""
    assert present_traces.main([str(tmp_path), "rank*.json", "4", paths[0].name]) == 0
    assert "4 of 4 ranks" in capsys.readouterr().err
    assert all(map(has_reduced, map(Local, paths)))
    assert json.render(explain([str(tmp_path)])) == expected


def test_before_the_first_trace_a_notebook_shows_a_sentence(tmp_path):
    assert "no trace is explained yet" in stepwhy.on_trace_ready(tmp_path)._repr_html_()


def test_all_ranks_are_awaited_for_a_minute(tmp_path):
    times = []

    def sleep(seconds):
        times.append(seconds)
        if len(times) == 3:
            (tmp_path / "rank1-cycle1.x").touch()

    (tmp_path / "rank0-cycle1.x").touch()
    (tmp_path / "rank0-cycle2.x").touch()
    found = traces_of(tmp_path, "rank*-cycle1.x", 2, sleep, lambda: sum(times))
    assert [path.rpartition("/")[2] for path in found] == ["rank0-cycle1.x", "rank1-cycle1.x"]
    assert sum(times) < 2
    assert len(traces_of(tmp_path, "rank*-cycle1.x", 3, sleep, lambda: sum(times))) == 2
    assert 59 < sum(times) < 63
