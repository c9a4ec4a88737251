"""Real sessions under observation: queues, growing graphs, failures and other profilers."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forks import Forks

    from stepwhy.record import Launch

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]

_START = """
import os, signal, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
tf.set_random_seed(1)
"""

_QUEUES = """
mine = tf.FIFOQueue(8, [tf.float32], [[4]], name="mine")
tf.train.add_queue_runner(tf.train.QueueRunner(mine, [mine.enqueue([tf.ones([4])])]))
batch = mine.dequeue_many(2)
if "shuffle" in sys.argv:
    batch = tf.train.shuffle_batch([mine.dequeue()], 2, capacity=30, min_after_dequeue=10)
step = tf.train.get_or_create_global_step()
train = tf.assign_add(step, tf.cast(tf.size(batch), tf.int64) // 8)
with tf.train.MonitoredTrainingSession() as session:
    while session.run(train) < 60:
        pass
graph = tf.get_default_graph()
print(graph.finalized, graph.version, len(graph.get_operations()))
"""

_GROWS = """
x = tf.Variable(tf.ones([64, 64]))
train = x.assign(tf.matmul(x, x) / 64.0)
def metric():
    return tf.reduce_mean(x + tf.random_uniform([64, 64]))
with tf.Session() as session:
    session.run(x.initializer)
    for _ in range(30):
        session.run(train)
        value = session.run(metric())
print(value, session.graph.version)
"""

_FEEDS = """
x = tf.placeholder(tf.float32, [None, 3])
table = tf.get_variable("table", [8, 3], use_resource=False)
train = table.assign_add(tf.reduce_mean(x) * tf.ones([8, 3]))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(12):
        _, values = session.run([train.op, table], {x: [[1.0, 2.0, 3.0]] * 4})
print(values.sum().round(2))
"""

_FAILS = """
import tempfile
applied = tf.Variable(0)
x = tf.placeholder(tf.int32, [])
def interrupt(value):
    if value == -1:
        os.kill(os.getpid(), signal.SIGINT)
    return value
work = tf.linalg.matmul(*[tf.random_normal([300, 300])] * 2)
with tf.control_dependencies([applied.assign_add(1), work]):
    checked = tf.debugging.check_numerics(1.0 / tf.cast(x, tf.float32), "is zero")
    train = tf.add(tf.cast(checked, tf.int32), tf.py_func(interrupt, [x], tf.int32))
rows = tf.data.make_one_shot_iterator(tf.data.Dataset.range(45)).get_next()
bad = {3: 0, 6: 0, 8: -1, 9: 0, 10: -1}
seen = []
profiler = tf.profiler.Profiler(tf.get_default_graph())
with tf.Session() as session:
    session.run(applied.initializer)
    for i in range(60):
        options = metadata = None
        if i % 7 == 5:
            options, metadata = tf.RunOptions(trace_level=3), tf.RunMetadata()
        if i == 20:
            tf.compat.v2.profiler.experimental.start(tempfile.mkdtemp())
        if i == 24:
            tf.compat.v2.profiler.experimental.stop()
        try:
            session.run(train, {x: bad.get(i, i + 1)}, options, metadata)
            session.run(rows)
        except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError, KeyboardInterrupt) as e:
            seen.append((i, type(e).__name__))
        if metadata is not None:
            profiler.add_step(i, metadata)
            seen.append((i, len(metadata.step_stats.dev_stats), len(metadata.partition_graphs)))
    print(session.run(applied), seen)
    quiet = tf.profiler.ProfileOptionBuilder().with_empty_output().build()
    print(profiler.profile_operations(quiet) is not None)
"""


@dataclass
class Sessions:
    """Runs a program in forks, with and without observation."""

    forks: Forks
    folder: Path

    def watch(self, code: str, *args: str) -> Launch:
        script = self.folder / "train.py"
        script.write_text(_START + code)
        return self.forks.launch(["-Wignore", script, *args], self.folder / "run")

    def alone(self, *args: str) -> str:
        ended = self.forks.run(["-Wignore", self.folder / "train.py", *args], self.folder)
        assert ended.returncode == 0
        return ended.stdout


@pytest.fixture
def sessions(forks: Callable[[str], Forks], tmp_path: Path) -> Sessions:
    return Sessions(forks("tensorflow"), tmp_path)


def lines(ended: Launch, name: str) -> list[dict[str, Any]]:
    (log,) = ended.run_dir.glob(f"process-*/{name}.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_all_queues_of_a_finalised_graph_are_read_by_one_size_operation(
    sessions: Sessions, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = sessions.watch(_QUEUES, "shuffle")
    assert (ended.exit_code, ended.messages) == (0, ())
    assert capfd.readouterr().out == sessions.alone("shuffle")
    levels = lines(ended, "levels")
    bounds = {(e["kind"], e["name"], e["capacity"], e.get("reserve")) for e in levels}
    assert bounds == {
        ("tf1-queue", "mine", 8, None),
        ("tf1-queue", "shuffle_batch/random_shuffle_queue", 30, 10),
    }
    assert all(0 <= e["value"] <= e["capacity"] for e in levels)
    assert any(e["value"] for e in levels)
    (made,) = (e for e in lines(ended, "events") if e["kind"] == "made")
    assert made["reason"] == "tf.train.MonitoredTrainingSession()"


def test_unreadable_queue_is_reported(
    sessions: Sessions, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = sessions.watch(_QUEUES)
    assert capfd.readouterr().out == sessions.alone()
    (message,) = ended.messages
    assert "'mine'" in message
    assert "size()" in message
    assert not list(ended.run_dir.glob("process-*/levels.jsonl"))


def test_growing_graph_is_logged_with_its_line_and_keeps_random_seeds(
    sessions: Sessions, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = sessions.watch(_GROWS)
    assert capfd.readouterr().out == sessions.alone()
    (made,) = (e for e in lines(ended, "events") if e["kind"] == "made")
    assert (made["source"], made["reason"]) == ("train.py(12): <module>", "tf.Session()")
    events = [event for event in lines(ended, "events") if event["kind"] == "graph"]
    assert {event["source"] for event in events[:5]} == {"train.py(11): metric"}
    assert events[0]["count"] == events[1]["count"] > 3
    steps = lines(ended, "steps")
    assert all(s.get("fresh") for s in steps[2::2] if not s.get("light"))
    assert not any(s.get("fresh") for s in steps[3::2])


def test_feeds_and_fetches_of_a_traced_run_are_described(
    sessions: Sessions, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = sessions.watch(_FEEDS)
    assert capfd.readouterr().out == sessions.alone()
    windows = sorted(ended.run_dir.glob("process-*/windows/*/window.json"))
    assert windows
    for window in (json.loads(path.read_bytes()) for path in windows):
        assert window["source"].startswith("train.py(")
        for feed in window["feeds"]:
            assert 0 <= feed.pop("fingerprint") < 1 << 62
        assert window["feeds"] == [
            {
                "name": "Placeholder:0",
                "given": "list of float",
                "wanted": "float32",
                "shape": [4, 3],
                "bytes": 48,
            }
        ]
        assert [(f["name"], f["bytes"]) for f in window["fetches"]] == [("table:0", 96)]


def test_failures_and_other_profilers_are_as_without_the_observer(
    sessions: Sessions, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = sessions.watch(_FAILS)
    out = capfd.readouterr().out
    assert out == sessions.alone()
    # Sixty updates: none was applied twice, even if its traced run raised.
    assert out.startswith("60 [(3, 'InvalidArgumentError'), ")
    assert "(8, 'KeyboardInterrupt')" in out
    assert "OutOfRangeError" in out
    assert ended.exit_code == 0
    # A traced run that failed left no window.
    failed = {run["start_ns"] for run in lines(ended, "steps") if run.get("failed")}
    windows = ended.run_dir.glob("process-*/windows/*/window.json")
    traced = {json.loads(path.read_bytes())["start_ns"] for path in windows}
    assert traced
    assert failed
    assert not traced & failed
