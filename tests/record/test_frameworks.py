"""Real frameworks under observation: small training scripts, unchanged."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record import Launch, launch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
)
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

_TF1 = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [None, 8])

def tower():
    weights = tf.get_variable("weights", [8, 8])
    with tf.device("/cpu:0"):
        return tf.matmul(x, weights)

loss = tf.reduce_mean(tf.square(tower()))
step = tf.train.get_or_create_global_step()
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
feed = {x: [[1.0] * 8] * 4}
hooks = [tf.train.StopAtStepHook(last_step=20)]
with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
    while not session.should_stop():
        _, at = session.run([train, step], feed)
print("steps", at)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    fetch = session.make_callable(step)
    print([int(fetch()) for _ in range(12)][-1])
    own = tf.RunMetadata()
    session.run(train, feed, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), own)
    print(len(own.step_stats.dev_stats) > 0, len(own.partition_graphs))
sys.exit(3)
"""

_TORCH = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
steps = int(sys.argv[1])
data = TensorDataset(torch.randn(steps * 4, 8), torch.randint(0, 2, (steps * 4,)))
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters())
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
for inputs, labels in DataLoader(data, batch_size=4):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    schedule.step()
    torch.save(model.state_dict(), sys.argv[0] + ".pt")
    if "equal" in sys.argv:
        time.sleep(0.1)  # equally long steps, so that the loop settles as early as possible
    if "profile" in sys.argv and not schedule.last_epoch % 6:
        with torch.autograd.profiler.profile() as own:
            model(inputs)
        print(len(own.function_events) > 0)
print(f"{loss.item():.6f}")
"""


def observe(tmp_path: Path, code: str, *args: str) -> Launch:
    (tmp_path / "train.py").write_text(code)
    return launch([sys.executable, "-Wignore", str(tmp_path / "train.py"), *args], tmp_path / "run")


def steps_of(ended: Launch) -> list[dict[str, Any]]:
    (log,) = ended.run_dir.glob("process-*/steps.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def parameters_of(ended: Launch) -> dict[str, int]:
    """Elements of the parameters by type, as they were logged."""
    logs = ended.run_dir.glob("process-*/events.jsonl")
    events = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return {e["name"]: e["count"] for e in events if e["kind"] == "parameters"}


def torch_state(path: Path) -> dict[str, Any]:
    import torch

    state: dict[str, Any] = torch.load(path)
    return state


@needs_tensorflow
def test_tf1_sessions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ended = observe(tmp_path, _TF1)
    assert ended.exit_code == 3
    assert capfd.readouterr().out == "steps 20\n0\nTrue 0\n"
    assert ended.messages == ()
    (about,) = (json.loads(p.read_text()) for p in ended.run_dir.glob("process-*/process.json"))
    assert (about["framework"], about["observer"]) == ("tensorflow", "tf1-session")
    steps = steps_of(ended)
    training = max((s["signature"] for s in steps), key=[s["signature"] for s in steps].count)
    # Twenty in the loop, and one in the other session.
    assert sum(s["signature"] == training for s in steps) == 21
    assert parameters_of(ended) == {"float32": 64}
    logs = ended.run_dir.glob("process-*/events.jsonl")
    assert sum(log.read_text().count('"kind":"session"') for log in logs) == 2
    windows = sorted(ended.run_dir.glob("process-*/windows/*"))
    # Early runs that the program itself traces are kept, too.
    assert len(windows) == sum(bool(s["profiled"] or s.get("early")) for s in steps)
    assert len(windows) >= 4
    assert sorted(p.name for p in windows[0].iterdir()) == [
        "graph.pb",
        "run_metadata.pb",
        "sources.json.gz",
        "window.json",
    ]
    sources = json.loads(gzip.decompress((windows[0] / "sources.json.gz").read_bytes()))["ops"]
    assert sources["MatMul"] == {
        "requested": "/device:CPU:0",
        "source": "train.py(11): tower",
        "scopes": [{"device": "/cpu:0", "line": "train.py(10)"}],
    }
    # Grappler may fold or rename the product, but not the update of the weights.
    assert b"update_weights" in (windows[0] / "run_metadata.pb").read_bytes()


@needs_torch
def test_torch_optimizers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ended = observe(tmp_path, _TORCH, "24")
    out, err = capfd.readouterr()
    assert (ended.exit_code, err, ended.messages) == (0, "", ())
    assert float(out) > 0
    steps = steps_of(ended)
    assert len(steps) == 23
    assert all(0 < s["input_wait_ns"] < s["end_ns"] - s["start_ns"] for s in steps)
    assert parameters_of(ended) == {"float32": 8 * 8 + 8 + 8 * 2 + 2}
    (process,) = ended.run_dir.glob("process-*/process.json")
    about = json.loads(process.read_text())
    assert about["intra_op_threads"] >= 1
    assert about["usable_cores"] == len(os.sched_getaffinity(0))
    (window,) = ended.run_dir.glob("process-*/windows/*")
    about = json.loads((window / "window.json").read_text())
    first, last = about["first_step"], about["last_step"]
    assert last - first == 3
    # Warm-up and export of the profiler, before and after the window, are not training time.
    profiled = [i for i, s in enumerate(steps) if s["profiled"]]
    assert [i for i in profiled if i <= last + 1] == list(range(first - 1, last + 2))
    # Later, the operations of one step are looked at, and lines are noted in at most four.
    assert len(profiled) <= 6 + 2 + 5
    # It begins once the profiler has switched over, and ends with its last step.
    assert steps[first]["start_ns"] <= about["start_ns"] < steps[first]["end_ns"]
    assert steps[last]["end_ns"] <= about["end_ns"] < steps[last + 1]["end_ns"]
    with gzip.open(window / "trace.json.gz") as file:
        names = [event.get("name", "") for event in json.load(file)["traceEvents"]]
    assert len({name for name in names if name.startswith("ProfilerStep#")}) == 4
    assert names.count("torch.save") == 4
    state = torch_state(tmp_path / "train.py.pt")
    assert sorted(state) == ["0.bias", "0.weight", "2.bias", "2.weight"]


@needs_torch
def test_a_torch_script_that_ends_inside_the_window(tmp_path: Path) -> None:
    # On a busy machine no two early steps may be similar; then the window opens after eight.
    for steps in ("9", "12"):
        (tmp_path / steps).mkdir()
        ended = observe(tmp_path / steps, _TORCH, steps, "equal")
        windows = list(ended.run_dir.glob("process-*/windows/*"))
        if windows:
            break
    (window,) = windows
    about = json.loads((window / "window.json").read_text())
    assert about["first_step"] <= about["last_step"] <= len(steps_of(ended)) - 1


@needs_torch
def test_own_profiler_has_precedence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ended = observe(tmp_path, _TORCH, "24", "profile")
    assert ended.exit_code == 0
    assert capfd.readouterr().out.splitlines()[:-1] == ["True"] * 4
    assert len(steps_of(ended)) == 23
