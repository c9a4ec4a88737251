"""Files of a run contain no secret of its environment or arguments, and only short lines."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.framework

_MARK = "s3cr3t4711"
_USER = "zyxuser4711"
_TOKEN = "hf" + "_" + "zq9VnW4lKtR7aB1cD2eF3gH4iJ5kL6mN7o"
# A shorter host name may be part of a word.
_SHORTEST_NAME = 5
_ENVIRONMENT = {
    "AWS_SECRET_ACCESS_KEY": f"wJalr{_MARK}",
    "HF_TOKEN": f"hf_{_MARK}AbCdEfGh",
    "WANDB_API_KEY": f"0123456789abcdef0123456789{_MARK}",
    "DATABASE_URL": f"postgresql://me:{_MARK}@db/train",
    "AUTHORIZATION": f"Bearer {_MARK}",
    "STORAGE": json.dumps({"password": _MARK}),
    "SERVICE_SECRET": _MARK,
    "USER": _USER,
    "LOGNAME": _USER,
}
_ARGUMENTS = [
    f"--token={_MARK}",
    "--api-key",
    _MARK,
    f"https://me:{_MARK}@host/data",
    f"https://host/data?sig={_MARK}&n=1",
    json.dumps({"lr": 0.1, "password": _MARK}),
    "--header",
    f"Authorization: Bearer {_MARK}",
    f"WANDB_API_KEY={_MARK}",
    "--wandb-key",
    _MARK,
    f"--key={_MARK}",
    f"--name=x-{_MARK}-of-{_USER}",
    _TOKEN,
    _USER,
]

_ENDS = """
    if not step % 20:
        time.sleep(0.1)
raise RuntimeError("not with " + os.environ["AWS_SECRET_ACCESS_KEY"] + str(sys.argv))
"""

_TORCH = """
import os, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(240, 8))
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (batch,) in enumerate(DataLoader(data, batch_size=4, num_workers=1)):
    optimizer.zero_grad()
    with torch.profiler.record_function(f"load {TOKEN} password={MARK} of {USER}"):
        pass
    model(batch).sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), os.path.expanduser("~/model.pt"))
"""

_TF1 = """
import os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [None, 8])
weights = tf.get_variable("weights", [8, 8])
with tf.name_scope(TOKEN), tf.name_scope(USER):
    loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
session = tf.Session()
session.run(tf.global_variables_initializer())
saver = tf.train.Saver()
for step in range(60):
    session.run(train, {x: [[1.0] * 8] * 4})
    if step == 30:
        saver.save(session, os.path.expanduser("~/model"))
"""

_KERAS = """
import os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, numpy, tensorflow as tf
model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
batches = tf.data.Dataset.from_tensor_slices(
    (numpy.ones((480, 8), "float32"), numpy.ones((480, 1), "float32"))
)
batches = batches.map(lambda x, y: (x * 2, y), num_parallel_calls=2).batch(4).prefetch(2)
model.fit(batches, epochs=1, verbose=0)
for step in range(1):
"""

_JAX = """
import os, sys, time
import jax, jax.numpy as jnp
train = jax.jit(lambda w: w - 0.1 * jax.grad(lambda w: jnp.sum(w * w))(w))
weights = jnp.ones((8, 8))
for step in range(60):
    weights = train(weights).block_until_ready()
"""


def missing(name: str) -> pytest.MarkDecorator:
    found = importlib.util.find_spec(name) is not None
    return pytest.mark.skipif(not found, reason=f"{name} is not installed")


def contents(run_dir: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below a folder, unpacked, and its name."""
    for path in sorted(run_dir.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            packed = data.startswith(b"\x1f\x8b")
            yield str(path.relative_to(run_dir)), gzip.decompress(data) if packed else data


@dataclass(frozen=True)
class Left:
    """Unpacked files of a run, and its output."""

    files: dict[str, bytes]
    report: bytes
    result: bytes
    private: list[str]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(_TORCH, marks=missing("torch"), id="torch"),
        pytest.param(_TF1, marks=missing("tensorflow"), id="tf1"),
        pytest.param(_KERAS, marks=missing("tensorflow"), id="keras"),
        pytest.param(_JAX, marks=missing("jax"), id="jax"),
    ],
)
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Left:
    """A program that was run and explained in the home of a user with secrets."""
    home = tmp_path_factory.mktemp("run") / _USER
    home.mkdir()
    known = f"TOKEN, MARK, USER = {_TOKEN!r}, {_MARK!r}, {_USER!r}\n"
    (home / "train.py").write_text(known + request.param + _ENDS)
    environment = {**os.environ, **_ENVIRONMENT, "HOME": str(home)}

    def stepwhy(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "stepwhy", *words],
            cwd=home,
            env=environment,
            capture_output=True,
            timeout=300,
            check=False,
        )

    done = stepwhy("run", "--out", "runs/one", str(home / "train.py"), *_ARGUMENTS)
    assert done.returncode == 1
    # Secrets that the program itself prints are not masked.
    report = done.stderr.partition(b"RuntimeError: not with")[2].partition(b"\n")[2]
    private = [_MARK, _USER, _TOKEN, str(home), "/home/", "/root/"]
    host = socket.gethostname()
    if len(host) >= _SHORTEST_NAME:
        private.append(host)
    result = stepwhy("explain", "runs/one", "--json").stdout
    return Left(dict(contents(home / "runs" / "one")), report, result, private)


def test_a_run_leaves_no_secret_behind(left: Left) -> None:
    assert any("/windows/000/" in name for name in left.files)
    assert b"Report as a page" in left.report
    assert json.loads(left.result)["steps"]["count"] > 0
    written = {**left.files, "report": left.report, "--json": left.result}
    leaks = [
        (name, word, data[max(data.find(word.encode()) - 80, 0) :][:200])
        for name, data in written.items()
        for word in left.private
        if word.encode() in data
    ]

    assert leaks == []


def test_a_step_takes_less_than_300_bytes_of_the_log(left: Left) -> None:
    logs = [data for name, data in left.files.items() if name.endswith("/steps.jsonl")]
    lengths = [len(line) for log in logs for line in log.splitlines()]
    assert len(lengths) >= 50
    # A line with a compilation is longer, but most steps have none.
    assert sorted(lengths)[len(lengths) * 9 // 10] < 200
    assert max(lengths) < 300
