"""Which runs are logged and traced, with a fake session that counts."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import threading
from itertools import pairwise
from traceback import FrameSummary
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.steps import stall_watch
from stepwhy.record.tf1 import session_observer, sessions

if TYPE_CHECKING:
    from pathlib import Path


class Options:
    TraceLevel = SimpleNamespace(Value={"SOFTWARE_TRACE": 1, "FULL_TRACE": 3}.__getitem__)

    def __init__(self, trace_level: int = 0) -> None:
        self.trace_level = trace_level
        self.output_partition_graphs = False
        self.timeout_in_ms = 0

    def CopyFrom(self, other: Options) -> None:  # noqa: N802
        self.__dict__.update(other.__dict__)


class Metadata:
    def __init__(self) -> None:
        self.fields: dict[str, str] = {}

    def CopyFrom(self, other: Metadata) -> None:  # noqa: N802
        self.fields = dict(other.fields)

    def ClearField(self, name: str) -> None:  # noqa: N802
        self.fields.pop(name, None)

    def SerializeToString(self) -> bytes:  # noqa: N802
        return json.dumps(self.fields).encode()

    def ByteSize(self) -> int:  # noqa: N802
        return len(self.SerializeToString())


class Graph:
    version = 1

    def as_graph_def(self) -> Metadata:
        return Metadata()

    def get_operations(self) -> list[Any]:
        return []


class Operation:
    def __init__(self, kind: str) -> None:
        self.type, self.name, self.device = kind, kind, ""
        self.traceback = [FrameSummary("/a/b/train.py", 41, "step", lookup_line=False)]
        self._device_assignments: list[Any] = []


class GrowingGraph(Graph):
    def __init__(self) -> None:
        self.operations = [Operation("Placeholder")]

    def grow(self, kind: str) -> None:
        self.operations += [Operation("Const"), Operation(kind)]
        self.version = len(self.operations)

    def get_operations(self) -> list[Any]:
        return self.operations


class Session:
    """Runs a fetch by calling it."""

    _target = b""
    graph: Any = Graph()
    observer: Any

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        self.calls.append(options)
        del feed_dict
        if run_metadata is not None:
            run_metadata.fields = {"step_stats": "s", "partition_graphs": "p", "other": "o"}
        return fetches() if callable(fetches) else fetches

    def list_devices(self) -> list[Any]:
        return [
            SimpleNamespace(name=f"/device:{kind}:0", device_type=kind)
            for kind in ("CPU", "XLA_CPU", "GPU")
        ]

    def make_callable(
        self, fetches: Any, feed_list: Any = None, accept_options: bool = False
    ) -> Any:
        del feed_list, accept_options
        return lambda: fetches


def no_reader(*_: object) -> Any:
    raise AssertionError("the graph has no queue")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    class Observed(Session):
        pass

    recorder = Recorder(str(tmp_path), "tensorflow", "2.0", "tf1-session")
    protos = SimpleNamespace(RunOptions=Options, RunMetadata=Metadata)
    observer = session_observer.SessionObserver(recorder, protos, no_reader)
    kind: Any = Observed
    kind.run = sessions._observed_run(Session.run, observer)
    kind.make_callable = sessions._observed_make_callable(Session.make_callable, observer)

    def close() -> None:
        observer._work_up_notes()
        observer._log.write()
        recorder.close()

    kind.close = staticmethod(close)
    kind.observer = observer
    return Observed()


def log(session: Any, tmp_path: Path) -> list[dict[str, int]]:
    session.close()
    path = tmp_path / f"process-{os.getpid()}" / "steps.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def read(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    lines = (tmp_path / f"process-{os.getpid()}" / name).read_text().splitlines()
    return [json.loads(line) for line in lines]


def windows(tmp_path: Path) -> list[dict[str, Any]]:
    found = sorted((tmp_path / f"process-{os.getpid()}" / "windows").iterdir())
    return [json.loads((window / "window.json").read_text()) for window in found]


def test_every_run_is_logged_and_five_alternate_ones_are_traced(
    session: Session, tmp_path: Path
) -> None:
    assert [session.run("train") for _ in range(30)] == ["train"] * 30
    steps = log(session, tmp_path)
    traced = [i for i, step in enumerate(steps) if step["profiled"]]
    assert len(steps) == 30
    assert len(traced) == 5
    assert traced[0] >= 3
    assert all(later - earlier >= 2 for earlier, later in pairwise(traced))
    assert [window["step"] for window in windows(tmp_path)] == traced
    assert windows(tmp_path)[0]["start_ns"] == steps[traced[0]]["start_ns"]


def heavy() -> int:
    """Takes so long that no interruption makes another run longer."""
    return sum(range(400_000))


def test_all_runs_of_a_traced_step_are_traced(session: Session, tmp_path: Path) -> None:
    for _ in range(30):
        session.run(heavy)
        session.run("light")
    steps = log(session, tmp_path)
    pairs = [
        (run["profiled"], after["profiled"])
        for run, after in zip(steps[::2], steps[1::2], strict=True)
    ]
    assert pairs.count((1, 1)) == 5
    assert pairs.count((0, 0)) == 25


def test_what_follows_a_traced_step_is_fed_with_is_logged(session: Session, tmp_path: Path) -> None:
    for batch in range(30):
        session.run(heavy, {"x:0": batch})
        session.run("light")
    steps = log(session, tmp_path)
    fed = [i for i, run in enumerate(steps) if "fed" in run]
    assert fed == [i + 2 for i, run in enumerate(steps) if run["profiled"] and not i % 2]
    assert len({mark for i in fed for mark in steps[i]["fed"].values()}) == 5


def similar_parts() -> list[Any]:
    """Three equally long fetches, so long that no interruption doubles one."""
    return [lambda: sum(range(60_000)) for _ in range(3)]


def test_same_one_of_similar_runs_starts_each_traced_step(session: Session, tmp_path: Path) -> None:
    fetches = similar_parts()
    for _ in range(30):
        for fetch in fetches:
            session.run(fetch)
    steps = log(session, tmp_path)
    opened = [b["signature"] for a, b in pairwise(steps) if b["profiled"] and not a["profiled"]]
    assert len(opened) == 5
    assert len(set(opened)) == 1


def test_an_evaluation_between_two_steps_is_not_traced_in_full(
    session: Session, tmp_path: Path
) -> None:
    for _ in range(30):
        session.run(heavy)
        for i in range(100):
            session.run(f"metric{i}x")
    traced = sum(step["profiled"] for step in log(session, tmp_path))
    assert traced == 40


def test_steps_of_many_runs_are_traced_in_full_as_long_as_they_are_few(
    session: Session, tmp_path: Path
) -> None:
    for _ in range(30):
        session.run(heavy)
        for i in range(39):
            session.run(f"part{i}x")
    steps = log(session, tmp_path)
    by_step = [{run["profiled"] for run in steps[i : i + 40]} for i in range(0, 1200, 40)]
    assert by_step.count({1}) == 3
    assert by_step.count({0}) == 27


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fetch that advances a clock by some ns."""
    time_ns = [1]
    monkeypatch.setattr(session_observer, "now_ns", lambda: time_ns[0])
    for module in (session_observer, sessions):
        monkeypatch.setattr(module, "perf_counter_ns", lambda: time_ns[0])
    monkeypatch.setattr(session_observer, "EPOCH_OFFSET_NS", 0)

    def last(duration_ns: int) -> None:
        time_ns[0] += duration_ns

    return last


def test_a_script_of_five_steps_has_one_traced_in_full(
    session: Session, tmp_path: Path, train: Any
) -> None:
    for step in range(5):
        session.run(train.__get__(10_000_000 >> step))
    steps = log(session, tmp_path)
    assert [step["profiled"] for step in steps] == [0, 0, 0, 1, 0]
    # The step time had not settled by then, as the log shows.
    assert steps[3]["early"] == 1


def test_light_steps_are_only_timed(session: Session, tmp_path: Path) -> None:
    # The first runs tell which fetches are those of the training.
    for _ in range(100):
        session.run(heavy)
        session.run("light")
    steps = log(session, tmp_path)
    light = [i // 2 for i, step in enumerate(steps) if step.get("light")]
    assert light == [i for step in (*range(34, 42), *range(66, 74), 98, 99) for i in [step] * 2]
    assert not any("cpu_ns" in steps[2 * i] or "fresh" in steps[2 * i] for i in set(light))
    # The CPU time of the last observed step is known up to its end.
    assert "gap_cpu_ns" in steps[68]
    assert "gap_cpu_ns" not in steps[70]
    assert all("gap_cpu_ns" in step and "cpu_ns" in step for step in steps[1:68])


def test_runs_of_new_fetches_or_of_a_grown_graph_are_fresh(
    session: Session, tmp_path: Path
) -> None:
    session.graph = Graph()
    for i in range(10):
        session.run("train")
        session.graph.version += i >= 8
        session.run("metric")
    fresh = [i for i, step in enumerate(log(session, tmp_path)) if step.get("fresh")]
    assert fresh == [0, 1, 17, 19]


def test_growing_graph_is_logged_with_its_line(session: Session, tmp_path: Path) -> None:
    session.graph = GrowingGraph()
    for i in range(20):
        session.run(heavy)
        session.graph.grow("Mul" if i < 15 else "Add")
    log(session, tmp_path)
    events = [e for e in read(tmp_path, "events.jsonl") if e["kind"] == "graph"]
    assert {(e["name"], e["count"]) for e in events} == {("graph", 2)}
    assert len(events) == 16
    assert [e.get("source") for e in events] == ["b/train.py(41): step"] * 6 + [None] * 10
    assert events[0]["reason"] == "Const, Mul"


def test_a_lasting_change_opens_another_window(
    session: Session, tmp_path: Path, train: Any
) -> None:
    for duration_ns in (10_000_000, 30_000_000, 5_000_000, 50_000_000):
        for _ in range(600):
            session.run(train.__get__(duration_ns))
    steps = log(session, tmp_path)
    traced = [i for i, step in enumerate(steps) if step["profiled"]]
    changes = [e for e in read(tmp_path, "events.jsonl") if e["kind"] == "change"]
    assert [i // 600 for i in traced] == [0] * 5 + [1] * 5 + [2] * 5
    assert len(changes) == 3


def noted(session: Session) -> int:
    """How many runs are only noted so far."""
    return len(session.observer._noted)


def test_light_runs_are_noted_first_and_logged_like_any_other(
    session: Session, tmp_path: Path, train: Any
) -> None:
    def fail() -> None:
        train(7)
        raise ValueError("no step")

    most = 0
    for step in range(20_000):
        session.run(train.__get__(200_000))
        most = max(most, noted(session))
        if step % 5000 == 4999:
            session.run("metric")
            assert noted(session) == 0
    assert most > 50
    with pytest.raises(ValueError, match="no step"):
        session.run(fail)
    steps = log(session, tmp_path)
    runs = [step for step in steps if step["signature"] == 0]
    light = sum(step.get("light", 0) for step in runs)
    assert len(steps) == 20_005
    assert len(runs) == 20_000
    # In the first second a quarter of the 5,000 steps, later all but 24 in 320 ms.
    assert light == pytest.approx(0.25 * 5000 + (1 - 24 / 1600) * 15_000, rel=0.02)
    assert {step["end_ns"] - step["start_ns"] for step in runs} == {200_000}
    assert all(a["end_ns"] <= b["start_ns"] for a, b in pairwise(steps))
    assert steps[-1]["failed"] == 1


def test_a_run_that_is_only_noted_may_fail_run_others_or_be_one_of_another_thread(
    session: Session, tmp_path: Path, train: Any
) -> None:
    deeds: list[Any] = []

    def step() -> None:
        train(200_000)
        if deeds and noted(session):
            deeds.pop()()

    def fail() -> None:
        raise ValueError("no step")

    other = threading.Thread(target=session.run, args=("train",))
    for deed in (fail, lambda: session.run("inner"), lambda: (other.start(), other.join())):
        for _ in range(8000):
            session.run(step)
        deeds.append(deed)
        with contextlib.suppress(ValueError):
            while deeds:
                session.run(step)
    steps = log(session, tmp_path)
    assert {run["signature"] for run in steps} == {0}
    assert [run["light"] for run in steps if run.get("failed")] == [1]


def test_windows_of_one_graph_share_its_files(session: Session, tmp_path: Path) -> None:
    for _ in range(30):
        session.run("train")
    graphs = list((tmp_path / f"process-{os.getpid()}").glob("windows/*/graph.pb"))
    assert len(graphs) == 5
    assert len({graph.stat().st_ino for graph in graphs}) == 1


def test_the_devices_of_the_session_are_named(session: Session, tmp_path: Path) -> None:
    for _ in range(10):
        session.run("train")
    first = tmp_path / f"process-{os.getpid()}" / "windows" / "000" / "sources.json.gz"
    assert json.loads(gzip.decompress(first.read_bytes())) == {
        "devices": ["/device:CPU:0", "/device:GPU:0"],
        "ops": {},
    }


def test_own_tracing_is_left_alone(session: Session, tmp_path: Path) -> None:
    own = Options(trace_level=3)
    for _ in range(30):
        session.run("train", options=own)
    assert session.calls == [own] * 30
    assert {step["profiled"] for step in log(session, tmp_path)} == {0}
    (message,) = read(tmp_path, "messages.jsonl")
    assert "own profiler (RunOptions.trace_level) was on at step 4" in message["text"]


def test_the_own_trace_of_a_single_run_is_kept(session: Session, tmp_path: Path) -> None:
    metadata = Metadata()
    session.run("train", options=Options(trace_level=3), run_metadata=metadata)
    (step,) = log(session, tmp_path)
    assert (step["profiled"], step["early"]) == (0, 1)
    (window,) = tmp_path.glob("process-*/windows/*/window.json")
    assert json.loads(window.read_text())["start_ns"] == step["start_ns"]
    assert (window.parent / "run_metadata.pb").read_bytes() == metadata.SerializeToString()


def test_own_traces_of_a_loop_stand_for_its_steps(session: Session, tmp_path: Path) -> None:
    for _ in range(30):
        session.run("train", options=Options(trace_level=3), run_metadata=Metadata())
    steps = log(session, tmp_path)
    assert sum(step["profiled"] for step in steps) == 5
    assert [i for i, step in enumerate(steps) if step.get("early")][:3] == [0, 1, 2]
    assert not list(tmp_path.glob("process-*/messages.jsonl"))


def test_own_traces_are_logged_up_to_a_limit(session: Session, tmp_path: Path) -> None:
    for step in range(500):
        session.run("train", options=Options(trace_level=3 * (step % 2)))
    runs = log(session, tmp_path)
    events = [e for e in read(tmp_path, "events.jsonl") if e["kind"] == "profiler"]
    assert len(events) == 200
    assert events[0]["name"] == "RunOptions.trace_level"
    assert [e["start_ns"] for e in events] == [run["start_ns"] for run in runs[1:400:2]]


def test_steps_are_traced_after_own_tracing_has_ended(session: Session, tmp_path: Path) -> None:
    for step in range(80):
        session.run("train", options=Options(trace_level=3) if step < 50 else None)
    traced = [i for i, step in enumerate(log(session, tmp_path)) if step["profiled"]]
    assert traced == [50, 52, 55, 57, 60]


def test_own_options_and_metadata_are_preserved(session: Session) -> None:
    own = Options()
    own.timeout_in_ms = 5
    seen = []
    for _ in range(30):
        metadata = Metadata()
        session.run("train", options=own, run_metadata=metadata)
        seen.append(metadata.fields)
    added = [call for call in session.calls if call is not own]
    assert [(call.trace_level, call.timeout_in_ms) for call in added] == [(1, 5)] * 5
    assert own.trace_level == 0
    # The user's metadata has no trace after a traced run; after others it is unchanged.
    assert seen.count({"other": "o"}) == 5


def test_a_distributed_session_needs_the_full_level(session: Session) -> None:
    session._target = b"grpc://127.0.0.1:1"
    for _ in range(30):
        session.run("train")
    assert {call.trace_level for call in session.calls if call is not None} == {3}


def test_a_failed_run_is_raised_and_never_repeated(session: Session, tmp_path: Path) -> None:
    def fail() -> None:
        raise KeyError("already exists")

    for _ in range(30):
        with pytest.raises(KeyError, match="already exists"):
            session.run(fail)
    assert len(session.calls) == 30
    lines = log(session, tmp_path)
    assert [line["failed"] for line in lines] == [1] * 30
    assert windows(tmp_path) == []


def test_a_run_inside_a_run_is_part_of_it(session: Session, tmp_path: Path) -> None:
    def outer() -> str:
        return str(session.run("inner"))

    for _ in range(10):
        assert session.run(outer) == "inner"
    assert {step["signature"] for step in log(session, tmp_path)} == {0}


def test_runs_of_other_threads_are_not_steps(session: Session, tmp_path: Path) -> None:
    session.run("train")
    thread = threading.Thread(target=session.run, args=("enqueue",))
    thread.start()
    thread.join()
    assert len(log(session, tmp_path)) == 1


def test_loop_in_a_thread_is_observed_if_the_main_thread_never_runs(
    session: Session, tmp_path: Path
) -> None:
    thread = threading.Thread(target=session.run, args=("train",))
    thread.start()
    thread.join()
    assert len(log(session, tmp_path)) == 1


def test_callables_are_observed(session: Session, tmp_path: Path) -> None:
    train = session.make_callable("train")
    assert [train() for _ in range(30)] == ["train"] * 30
    steps = log(session, tmp_path)
    assert len(steps) == 30
    assert sum(step["profiled"] for step in steps) == 5


def test_window_that_cannot_be_written_loses_no_step(session: Session, tmp_path: Path) -> None:
    session.graph = SimpleNamespace(version=1, get_operations=list)
    for _ in range(30):
        session.run("train")
    assert len(log(session, tmp_path)) == 30
    messages = (tmp_path / f"process-{os.getpid()}" / "messages.jsonl").read_text()
    assert [json.loads(line)["slug"] for line in messages.splitlines()] == ["window-lost"]


def test_internal_failure_does_not_affect_the_training(session: Session, tmp_path: Path) -> None:
    (tmp_path / f"process-{os.getpid()}").write_text("in the way")
    assert [session.run("train") for _ in range(30)] == ["train"] * 30


def test_a_graph_without_a_version_ends_only_the_log_of_its_growth(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Graph, "version")
    assert [session.run("train") for _ in range(30)] == ["train"] * 30
    steps = log(session, tmp_path)
    assert len(steps) == 30
    assert len(windows(tmp_path)) == sum(step["profiled"] for step in steps) > 0
    (message,) = read(tmp_path, "messages.jsonl")
    assert message["text"] == "Growth of the graph could not be observed: AttributeError"


def test_where_the_loop_stands_is_known_also_where_runs_are_only_noted(session: Session) -> None:
    assert session.observer._standing() is None
    for count in range(1, 120):
        session.run("train")
        standing = session.observer._standing()
        assert standing.steps == count
    assert standing.thread == threading.get_ident()
    before_ns = standing.since_ns
    session.close()
    assert session.observer._standing().since_ns == before_ns
    assert len(session.observer._standing().recent_ns) == 64


@pytest.mark.parametrize(("ranks", "started"), [(2, 1), (1, 0), (None, 0)])
def test_one_rank_of_several_watches_its_runs(
    ranks: int | None, started: int, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []
    monkeypatch.setattr(stall_watch, "place_in_job", lambda: (0, ranks))
    monkeypatch.setattr(session.observer._stalls, "start", lambda: starts.append(1))
    for _ in range(3):
        session.run("train")
    assert len(starts) == started
