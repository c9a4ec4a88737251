"""The code of fixes runs in the framework that it is for.

The code of older fixes is run by `fix_contexts.CONTEXTS`, that of others by `RUNS`.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.advice import CODE
from tests.forks import IMPORTED

_spec = importlib.util.spec_from_file_location(
    "fix_contexts", Path(__file__).with_name("fix_contexts.py")
)
contexts = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(contexts)

TF = """
import tensorflow as tf
rate, batch, dataset = 0.1, tf.ones([2, 3]), tf.data.Dataset.from_tensors(tf.ones([2, 3])).repeat(2)
step_of = train_step = tf.function(lambda batch, rate=0.1: batch * rate)
"""
JAX = """
import jax, jax.numpy as jnp, numpy as np
rate, rates, texts = 0.1, [0.1, 0.2], [[1, 2, 3], [4]]
params, batch, batches = jnp.ones(3), jnp.ones(3), [jnp.ones(3)] * 2
step_of = lambda params, batch, rate: params - rate * batch
"""
TORCH = """
import functools, torch
torch.compile = functools.partial(torch.compile, backend="eager")
model, words = torch.nn.Embedding(9, 2), torch.ones(4, 3, dtype=int)
batch, rate = torch.ones(2, 3), 0.1
train_step = lambda batch, rate: (rate * batch).sum()
"""
STATE = """
import copy, types
step, path = 0, "saved"
at_once = lambda target, args: types.SimpleNamespace(start=lambda: target(*args))
threading = types.SimpleNamespace(Thread=at_once)
"""
CHILD = """
import multiprocessing
step, writer, path, state = 0, None, "saved", b"1"
context = multiprocessing.get_context("fork")
write = lambda state, path: open(path, "wb").write(state)
"""
KERAS = "import keras"
TF1 = """
import tensorflow.compat.v1 as tf
folder, graph = "saved", tf.Graph().as_default()
graph.__enter__()
tf.train.create_global_step()
"""
MODEL = """
inputs, labels = keras.ops.ones([4, 3]), keras.ops.ones([4, 2])
model = keras.Sequential([keras.layers.Dense(2)])
model.compile("adam", "mse")
"""
POLICY = "assert keras.mixed_precision.global_policy().compute_dtype == {!r}"
SAVED = "import os; assert os.path.exists({!r})"
VARIABLES = """
variables = [tf.Variable(tf.ones(2))]
loss_of = lambda batch: tf.reduce_sum(variables[0] * batch)
optimizer = tf.keras.optimizers.SGD(0.1)
"""
PARAMETERS = """
params, moments = [torch.ones(2)], [torch.zeros(2)]
gradients, beta = [torch.ones(2)], 0.9
"""
SESSION = """
import types
step, train_op, summaries = 0, tf.constant(1), tf.constant("")
session, writer = tf.Session(), types.SimpleNamespace(add_summary=print)
"""
FETCHES = """
session, steps, feed = tf.Session(), 2, {}
train, loss, accuracy = tf.constant(1), tf.constant(2), tf.constant(3)
"""
LOADS = "loader, steps = DataLoader(dataset, batch_size=2), 40"
RANGE = "dataset = tf.data.Dataset.range(8)"
RECORDS = """
paths = ["a.tfrecord", "b.tfrecord"]
for path in paths:
    with tf.io.TFRecordWriter(path) as file:
        file.write(b"record")
"""
CLOSED = "assert value == 2; session.close(); graph.__exit__(None, None, None)"
METRICS = """
guesses = labels = torch.ones(4, 4, dtype=torch.long)
classes, counts = 3, torch.zeros(9)
"""
TOKENS = """
tokens, table = jnp.array([1, 2]), jnp.arange(12.0).reshape(4, 3)
"""
LINEAR = """
model, batch = torch.nn.Linear(3, 2), torch.ones(4, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loss_of, model = model, lambda batch: loss_of(batch).sum()
torch.cuda.get_device_name, torch.cuda.get_device_capability = lambda: "T4", lambda: (7, 5)
"""
PENALTY = """
model = torch.nn.Linear(3, 2)
loss_of = lambda batch: model(batch).sum()
"""
ROWS = """
from torch.utils.data import DataLoader, TensorDataset
dataset = TensorDataset(torch.arange(64.0))
texts, make_sample, batch_size = list(range(64)), float, 32
"""
POOL = """
import multiprocessing
params, steps, make_batch = 0.0, 2, float
train_step = lambda params, batch: params + batch
"""
CRITIC = """
generator, critic, noise, real = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1), batch, batch
critic_loss = lambda real, fake: (fake - real).mean()
"""
ADJACENCY = """
adjacency, normalise = jnp.ones((2, 2)), lambda matrix: matrix / matrix.sum()
train_step = lambda params, adjacency, batch: (params - adjacency.sum() * batch, batch.sum())
"""
AHEAD = """
import queue, threading
batches, seen = [1.0, 2.0], []
train_step = lambda *arguments: seen.append(arguments[-1])
"""
DATA = "dataset, parse, batch_size = tf.data.Dataset.range(8), (lambda x: x + 1), 4"
DDP = (
    TORCH
    + """
import contextlib
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
micro_batches = [torch.ones(4, 3)] * 3
"""
)
# A thread of gloo that waits for the interpreter would never end: let it have it.
END = "import time; time.sleep(0.5); dist.destroy_process_group()"
LAYER = "model = torch.nn.Linear(3, 2)"
HEADS = """
query = key = value = torch.ones(2, 4, 8)
mask, attention = torch.zeros(4, 4), torch.nn.MultiheadAttention(8, 2)
"""
LOADER = """
from torch.utils.data import DataLoader
dataset, batch_size, device = torch.ones(4, 3), 2, "cpu"
"""
BLOCKS = """
from torch.utils.checkpoint import checkpoint
blocks, x, checkpointed = [torch.nn.Linear(3, 3)] * 4, batch, 2
"""
BUFFER = "import functools; buffer, place, step = jnp.zeros((8, 3)), 2, 9\n"
HEAD = """
head, hidden = torch.nn.Linear(3, 2), torch.ones(2, 3)
"""
TABLE_OF_ROWS = """
table, kernel, rate = tf.Variable(tf.ones([9, 3])), tf.Variable(tf.ones([3, 2])), 0.1
layers, loss = [kernel], tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 2]) @ kernel)
gradient = tf.gradients(loss, table)[0]
"""
INITIALISED = """with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run({})
graph.__exit__(None, None, None)"""
TABLE = """
import numpy as np, sqlite3
connection, i = sqlite3.connect(":memory:"), 2
connection.execute("create table t (key, v)")
connection.execute("insert into t values (1, 5), (2, 6), (2, 7), (3, 8)")
"""
RUNS = [
    (
        "unused_graph",
        "fix",
        TORCH
        + "model, metric = torch.nn.Linear(3, 2), torch.nn.functional.mse_loss\n"
        + "target = torch.ones(2, 2)",
        "assert not score.requires_grad",
    ),
    (
        "unused_gradient",
        "frozen",
        TORCH + "teacher = torch.nn.Linear(3, 2)",
        "assert not target.requires_grad and not teacher.weight.requires_grad",
    ),
    (
        "unused_gradient",
        "dropped",
        TORCH + CRITIC,
        "loss.backward(); assert generator.weight.grad is None is not critic.weight.grad",
    ),
    (
        "unused_gradient",
        "input",
        TORCH + LAYER + "\ninputs = torch.ones(2, 3).requires_grad_()\nloss = model(inputs).sum()",
        "assert gradient.shape == (2, 3) and model.weight.grad is None",
    ),
    (
        "python_preprocessing",
        "generator",
        TF + "import numpy as np; rows, labels = np.ones((300, 3)), np.ones(300)",
        "assert next(iter(dataset))[0].shape == (256, 3) and len([*batches()]) == 2",
    ),
    (
        "python_preprocessing",
        "elements",
        TORCH + "import numpy as np; values, limit = [1, 9], 3",
        "assert result.tolist() == [1, 3]",
    ),
    (
        "python_preprocessing",
        "search",
        TORCH + "words, text = ['a', 'b'], ['b', 'a']",
        "assert numbers == [1, 0]",
    ),
    (
        "python_preprocessing",
        "archive",
        TORCH + "import numpy as np; np.savez('data.npz', load=np.ones(4))",
        "assert load[1:3].tolist() == [1, 1]",
    ),
    (
        "constant_computation",
        "jax",
        JAX + ADJACENCY,
        "assert params.tolist() == [-1, -1, -1] and loss == 3",
    ),
    (
        "constant_computation",
        "session",
        TF1
        + "adjacency = __import__('numpy').ones([3, 3], 'float32')\n"
        + "normalise, features = lambda matrix: matrix / 3, tf.ones([3, 2])",
        """with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    assert session.run(hidden).tolist() == [[1, 1]] * 3
assert not tf.trainable_variables()
graph.__exit__(None, None, None)""",
    ),
    (
        "constant_computation",
        "buffer",
        TORCH,
        "assert Layer(torch.ones(3, 3))(torch.ones(3, 2)).tolist() == [[1, 1]] * 3",
    ),
    (
        "constant_computation",
        "made",
        TORCH
        + "values, loader = [1.0, 2.0], [torch.ones(2)]\n"
        + "loss_of = lambda batch, weights: (batch * weights).sum()",
        "assert loss == 3",
    ),
    (
        "double_backward",
        "fix",
        TORCH
        + LINEAR
        + "\nmodel, loss = loss_of, model(batch); loss_of = lambda x: model(x).sum()",
        "assert len(gradients) == 2 and gradients[0].grad_fn is None",
    ),
    (
        "double_backward",
        "rarely",
        TORCH + PENALTY + "step, weight, penalty = 32, 0.5, lambda model, batch: 1",
        "assert loss == loss_of(batch) + 8",
    ),
    (
        "double_backward",
        "without-weight",
        TORCH + PENALTY + "weight, penalty = 0, None",
        "assert loss == loss_of(batch)",
    ),
    (
        "discarded_result",
        "pytorch",
        TORCH
        + "import types; monitor, loader = types.SimpleNamespace(), [batch] * 3\n"
        + "model, loss_of = torch.nn.Linear(3, 2), torch.sum",
        "assert not monitor.is_on and step == 2",
    ),
    (
        "discarded_result",
        "weighted",
        TORCH
        + "output, target, weight, hidden = batch, batch + 1, 0.0, None\n"
        + "loss_of, penalty = torch.nn.functional.mse_loss, None",
        "assert loss == 1",
    ),
    (
        "discarded_result",
        "ignored",
        TORCH
        + HEAD
        + "labels, loss_of = torch.tensor([1, -100]), torch.nn.functional.cross_entropy",
        "assert scores.shape == (1, 2)",
    ),
    (
        "discarded_result",
        "rows",
        TORCH + HEAD + "index, score = [1], head",
        "assert chosen.shape == (1, 2)",
    ),
    (
        "discarded_result",
        "table",
        TORCH + HEAD + "index, table, normalise = [1], hidden, torch.nn.functional.normalize",
        "assert vectors.shape == (1, 3)",
    ),
    (
        "discarded_result",
        "place",
        TORCH + HEAD + "hidden = hidden[None]",
        "assert scores.shape == (1, 2)",
    ),
    (
        "discarded_result",
        "cut",
        TORCH + "conv, x, padding = torch.nn.Conv1d(2, 2, 3), torch.ones(1, 2, 8), 2",
        "assert y.shape == (1, 2, 8)",
    ),
    (
        "discarded_result",
        "diagonal",
        TORCH + "first, second = batch, batch + 1",
        "assert torch.equal(scores, (first @ second.T).diagonal())",
    ),
    (
        "discarded_result",
        "jax",
        JAX + "step, old, evaluate = 3, 0.5, lambda params: params.sum()",
        "assert score == 0.5",
    ),
    (
        "discarded_result",
        "tensorflow",
        TF1
        + "is_due, old, evaluate, batch = tf.constant(True), tf.zeros([]), tf.reduce_sum, [1.0]",
        INITIALISED.format("score"),
    ),
    ("dense_update", "lazy", TF1 + TABLE_OF_ROWS, INITIALISED.format("train")),
    ("dense_update", "own", TF1 + TABLE_OF_ROWS, INITIALISED.format("update")),
    (
        "dense_update",
        "keras",
        (
            "import tensorflow as tf\n"
            "table, layers = tf.Variable(tf.ones([9, 3])), [tf.Variable(tf.ones(3))]\n"
            "with tf.GradientTape(persistent=True) as tape:\n"
            "    loss = tf.reduce_sum(tf.gather(table, [1, 2]) * layers[0])"
        ),
        "assert abs(float(tf.reduce_sum(table)) - 26.4) < 1e-4",
    ),
    (
        "dense_update",
        "computed",
        (
            "import tensorflow as tf\n"
            "table, mask, ids = tf.ones([9, 3]), tf.eye(9)[:, 1:2], tf.constant([1, 2])"
        ),
        "assert float(tf.reduce_sum(rows)) == 3",
    ),
    (
        "dense_update",
        "own-function",
        (
            "import tensorflow as tf\n"
            "table, rate = tf.Variable(tf.ones([9, 3])), 0.1\n"
            "with tf.GradientTape() as tape:\n"
            "    loss = tf.reduce_sum(tf.gather(table, [1, 2]))\n"
            "gradient = tape.gradient(loss, table)"
        ),
        "assert abs(float(tf.reduce_sum(table)) - 26.4) < 1e-4",
    ),
    (
        "dense_update",
        "jax",
        JAX
        + "table, ids = jnp.ones((9, 3)), jnp.array([1, 2])\n"
        + "loss_of = lambda rows, batch: (rows @ batch).sum()",
        "assert loss == 6 and abs(table.sum() - 26.4) < 1e-4",
    ),
    ("recomputed_forward", "free", TORCH + BLOCKS, "assert x.shape == (2, 3)"),
    ("recomputed_forward", "unknown", TORCH + BLOCKS, "assert x.shape == (2, 3)"),
    (
        "whole_buffer_copy",
        "jax",
        JAX + BUFFER + "rows = jnp.ones((2, 3))",
        "assert buffer.sum(1).tolist() == [0, 0, 3, 3, 0, 0, 0, 0]",
    ),
    (
        "whole_buffer_copy",
        "jax-window",
        JAX + BUFFER + "row = jnp.ones(3)",
        "assert buffer.sum(1).tolist() == [0, 3, 0, 0, 0, 0, 0, 0]",
    ),
    (
        "whole_buffer_copy",
        "jax-inside",
        JAX + BUFFER,
        "assert jax.lax.scan(body, (buffer, 0), jnp.ones((4, 3)))[0][0].sum() == 12",
    ),
    (
        "whole_buffer_copy",
        "torch",
        TORCH + "buffer, index, rows = torch.zeros(4, 2), torch.tensor([1]), torch.ones(1, 2)",
        "assert buffer.sum(1).tolist() == [0, 2, 0, 0]",
    ),
    (
        "whole_buffer_copy",
        "torch-window",
        TORCH + "count, buffer, rows = 7, torch.zeros(4, 2), torch.ones(2, 2)",
        "assert buffer.sum(1).tolist() == [2, 0, 0, 2] and count == 9",
    ),
    (
        "whole_buffer_copy",
        "tensorflow",
        TF1
        + "variable = tf.Variable(tf.zeros([4, 2]), use_resource=True)\n"
        + "indices, rows = [[1]], tf.ones([1, 2])",
        INITIALISED.format("update"),
    ),
    (
        "padding",
        "fix",
        TORCH,
        "assert collate([([3, 4], 1), ([5], 0)])[0].tolist() == [[3, 4], [5, 0]]",
    ),
    (
        "logging_stall",
        "sync",
        'import os; step, record, file = 0, "loss 0.5", open("log.txt", "w")',
        'assert open("log.txt").read() == "loss 0.5\\n"',
    ),
    (
        "exposed_transfer",
        "jax-once",
        JAX
        + "features = np.ones(3); train_step = lambda params, fixed, batch: params + batch * fixed",
        "assert isinstance(features, jax.Array) and params[0] == 3",
    ),
    (
        "exposed_transfer",
        "jax-ahead",
        JAX + "train_step = lambda params, batch: params + batch; batches = [np.ones(3)] * 4",
        "assert params[0] == 5",
    ),
    (
        "logging_stall",
        "tf1",
        TF1 + SESSION,
        "session.close(); graph.__exit__(None, None, None)",
    ),
    (
        "logging_stall",
        "tensorboard",
        TORCH
        + "import types; step = 0; loss, writer = 0.5, types.SimpleNamespace(add_scalar=print)",
        "",
    ),
    (
        "memory_growth",
        "torch",
        TORCH + "total, outputs, loss, output = 0.0, [], torch.ones(()), torch.ones(2)",
        "assert total == 1.0",
    ),
    (
        "python_preprocessing",
        "parse",
        TORCH + "import json, numpy as np; lines, i = ['{\"x\": [1]}', '{\"x\": [2]}'], 1",
        "assert sample.tolist() == [2]",
    ),
    (
        "python_preprocessing",
        "slices",
        TORCH
        + "import h5py, numpy as np; path, i = 'signal.h5', 1\n"
        + "h5py.File(path, 'w')['signal'] = np.ones((3, 2))",
        "assert np.load('signal.npy', mmap_mode='r').shape == (3, 2) and len(sample) == 3",
    ),
    (
        "python_preprocessing",
        "convert",
        TORCH + "import numpy as np; arrays = [np.ones(3)] * 2",
        "assert batch.shape == (2, 3)",
    ),
    (
        "python_preprocessing",
        "query",
        TORCH + TABLE,
        "assert sample.tolist() == [6, 7]",
    ),
    (
        "step_growth",
        "hooks",
        TORCH + "layers, hook = [torch.nn.Linear(3, 2)], lambda *_: None",
        "assert not layers[0]._forward_hooks",
    ),
    (
        "step_growth",
        "callbacks",
        KERAS
        + "\nepochs, Norms = 1, keras.callbacks.Callback"
        + MODEL
        + "import tensorflow; data = tensorflow.data.Dataset.from_tensors((inputs, labels))",
        "assert len(model.history.epoch) == 1",
    ),
    (
        "step_growth",
        "line",
        TORCH + "import collections; total, count, loss = 0, 0, batch.sum()",
        "assert total == 6 and count == 1",
    ),
    (
        "step_growth",
        "epochs",
        TORCH + "from unittest.mock import Mock\n"
        "loader, model, metric, logged = [(1, 2), (3, 4)], abs, Mock(), []\nlog = logged.append",
        "assert metric.update.call_count == 2 and logged == [metric.compute.return_value]",
    ),
    (
        "mostly_zero_operand",
        "diagonal",
        TORCH + "scale, hidden = torch.rand(3), torch.rand(3, 2)\ngain = other = torch.rand(4)",
        "assert hidden.shape == (3, 2) and other.shape == (4,)",
    ),
    (
        "mostly_zero_operand",
        "jax",
        "import jax, numpy as np\nmatrix, hidden = np.diag([1.0, 0, 3]), np.ones((3, 2))",
        "assert np.allclose(result, matrix @ hidden)",
    ),
    (
        "mostly_zero_operand",
        "blocks",
        TORCH + "adjacencies, hidden = [*torch.rand(2, 3, 3)], torch.rand(6, 4)"
        "\nwhole = torch.block_diag(*adjacencies) @ hidden",
        "assert torch.allclose(hidden, whole)",
    ),
    (
        "mostly_zero_operand",
        "few",
        TORCH + "words, table = torch.tensor([[0, 2], [1, 2]]), torch.rand(3, 4)",
        "assert torch.allclose(hidden, torch.tensor([[1.0, 0, 1], [0, 1, 1]]) @ table)",
    ),
    (
        "mostly_zero_operand",
        "scattered",
        TORCH + "indices, starts = torch.tensor([0, 2, 1]), torch.tensor([0, 2])"
        "\ntable = torch.rand(3, 4)",
        "assert torch.allclose(hidden, torch.tensor([[1.0, 0, 1], [0, 1, 0]]) @ table)",
    ),
    (
        "mostly_zero_operand",
        "constant",
        TORCH + "adjacency, hidden = torch.eye(3), torch.rand(3, 4)\nwhole = adjacency @ hidden",
        "assert torch.allclose(hidden, whole)",
    ),
    (
        "mostly_zero_operand",
        "compact",
        TORCH + "features, table = torch.tensor([[0.0, 2, 0], [0, 1, 0]]), torch.rand(3, 4)",
        "assert torch.allclose(hidden, features @ table)",
    ),
    (
        "mostly_zero_operand",
        "stuffed",
        TORCH + "small, weight = torch.rand(1, 2, 4, 4), torch.rand(3, 2, 3, 3)"
        "\nstuffed = torch.zeros(1, 2, 8, 8); stuffed[:, :, ::2, ::2] = small",
        "assert torch.allclose(large, torch.conv2d(stuffed, weight, padding=1), atol=1e-5)",
    ),
    (
        "discarded_result",
        "jax-vmap",
        JAX
        + "first, second, count, x, condition = jnp.sin, jnp.cos, 1, jnp.ones((3, 2)), True\n"
        + "f = lambda is_first, row: jax.lax.cond(is_first, first, second, row)\n"
        + "assert 'select_n' in str(jax.make_jaxpr(jax.vmap(f))(x[:, 0] > 0, x))",
        (
            "assert left.shape == (1, 2) and right.shape == (2, 2)\n"
            "run = jax.vmap(f, in_axes=(None, 0))\n"
            "assert bool((both == jnp.sin(x)).all())\n"
            "assert 'cond' in str(jax.make_jaxpr(run)(condition, x))"
        ),
    ),
    (
        "subnormal_numbers",
        "fix",
        TORCH + "exponent, state = -batch * 200, batch * 1e-35",
        "assert kernel.min() > 1e-36 and not state.any()",
    ),
    (
        "python_preprocessing",
        "more-feeders",
        "import threading; started = []; fill_queue = lambda: started.append(1)",
        "assert len(started) == 4",
    ),
    ("memory_growth", "tf", TF + "losses, loss = [], tf.constant(2.0)", "assert losses == [2.0]"),
    ("memory_growth", "any", JAX + "losses, loss = [], jnp.ones(())", "assert losses == [1.0]"),
    (
        "gc_pause",
        "fix",
        TORCH + "import gc; batches = [batch] * 2; train_step = print",
        "assert not gc.isenabled(); gc.enable()",
    ),
    ("iterator_rebuild", "torch", TORCH + ROWS + LOADS, "assert len(batch[0]) == 2"),
    ("iterator_rebuild", "tf", TF + "steps = 5", "assert batch.shape == (2, 3)"),
    ("iterator_rebuild", "tf1", TF1 + FETCHES + RANGE, CLOSED.partition("; ")[2]),
    ("storage_wait", "torch", TORCH + ROWS, "assert loader.num_workers == 2"),
    ("storage_wait", "tf", TF + RECORDS, "assert next(iter(dataset)) == b'record'"),
    (
        "frequent_evaluation",
        "session",
        TF1 + FETCHES + "accuracy, held_out = loss, {}",
        CLOSED,
    ),
    ("repeated_computation", "fed", TF1 + FETCHES, CLOSED),
    ("repeated_computation", "read", TF1 + FETCHES, CLOSED),
    (
        "repeated_computation",
        "outputs",
        TF1 + "inputs = tf.ones([2, 3]); outputs = inputs @ tf.ones([3, 4])",
        "assert norm.shape == (); graph.__exit__(None, None, None)",
    ),
    ("unfused_optimizer", "at-once-fused", TORCH + PARAMETERS, "optimizer.step()"),
    ("unfused_optimizer", "at-once-if-free", TORCH + PARAMETERS, "optimizer.step()"),
    ("unfused_optimizer", "at-once-on-device", TORCH + PARAMETERS, "optimizer.step()"),
    ("unfused_optimizer", "lists-on-device", TORCH + PARAMETERS, "optimizer.step()"),
    ("unfused_optimizer", "lists", TORCH + PARAMETERS, "optimizer.step()"),
    ("unfused_optimizer", "own", TORCH + PARAMETERS, "assert (moments[0] == 0.1).all()"),
    (
        "repeated_computation",
        "examples",
        TF1
        + "import numpy as np; session, rows = tf.Session(), [np.ones(3)] * 4\n"
        + "states = tf.placeholder(tf.float32, [None, 3]); q = 2 * states",
        "assert best.shape == (4,); graph.__exit__(None, None, None)",
    ),
    ("eager_loop", "tf", TF + VARIABLES, "assert train_step(tf.ones(2)).shape == ()"),
    (
        "eager_loop",
        "jax",
        JAX + "import functools; loss_of = lambda params, batch: (params * batch).sum()",
        "assert train_step(params, batch)[0].shape == (3,)",
    ),
    ("eager_loop", "jax-beside", JAX, "assert rest_of_step(jnp.eye(3)) is None"),
    (
        "eager_loop",
        "jax-each",
        JAX + "function, params, batch = lambda p, x: p * x, 2.0, jnp.ones([5, 3])",
        "assert results.shape == (5, 3)",
    ),
    (
        "eager_loop",
        "jax-input",
        JAX + "import numpy as np; images = np.eye(4).reshape(2, 2, 4)",
        "assert batch.shape == (2, 2, 4)",
    ),
    (
        "graph_loop",
        "torch",
        TORCH
        + "inputs, state = torch.ones(2, 5, 3), torch.zeros(2, 4)\n"
        + "cell, layer = torch.nn.GRUCell(3, 4), torch.nn.Linear(4, 7)",
        "assert scores.shape == (2, 5, 7)",
    ),
    (
        "graph_loop",
        "after",
        TF
        + "inputs, layer = tf.ones([2, 5, 3]), lambda states: states @ tf.ones([4, 7])\n"
        + "rnn = lambda inputs: tf.tanh(inputs @ tf.ones([3, 4]))",
        "assert scores.shape == (2, 5, 7)",
    ),
    (
        "graph_loop",
        "jax-rows",
        JAX + "score, rows = lambda row: row.sum(), jnp.ones([5, 3])",
        "assert scores.shape == (5,)",
    ),
    (
        "graph_loop",
        "jax-product",
        JAX
        + "inputs, w_input = jnp.ones([5, 2, 3]), jnp.ones([3, 4])\n"
        + "w_state, start, w_output = jnp.ones([4, 4]), jnp.ones([2, 4]), jnp.ones([4, 6])",
        "assert states.shape == (5, 2, 4) and scores.shape == (5, 2, 6)",
    ),
    ("eager_loop", "jax-scan", JAX, "assert states_of(jnp.eye(3), jnp.ones([5, 2, 3])).sum()"),
    (
        "eager_loop",
        "torch-examples",
        TORCH + "model, examples = torch.nn.Linear(3, 2), [torch.ones(3)] * 4",
        "assert len(values) == 4",
    ),
    ("eager_loop", "torch", TORCH, "assert model(words).shape == (4, 3, 2)"),
    (
        "eager_loop",
        "torch-cell",
        TORCH + "self, width, inputs = torch.nn.Module(), 3, torch.ones(2, 5, 3)",
        "assert states.shape == (2, 5, 3)",
    ),
    ("unfused_pattern", "compile", TORCH, "assert model(words).shape == (4, 3, 2)"),
    ("pageable_copy", "pytorch", TORCH + LOADER, "assert batch.shape == (2, 3)"),
    ("redundant_cast", "to-float16", TORCH + LAYER, "assert output.dtype == torch.float16"),
    ("redundant_cast", "to-bfloat16", TORCH + LAYER, "assert output.dtype == torch.bfloat16"),
    ("unfused_attention", "fix", TORCH + HEADS, "assert hidden.shape == (2, 4, 8)"),
    ("redundant_gradient_sync", "fix", DDP, END),
    ("small_collectives", "wrapped", DDP + "model = model.module", END),
    (
        "small_collectives",
        "by-hand",
        DDP + "loss = model(micro_batches[0]).sum().backward()",
        "assert (model.module.bias.grad == 4).all(); " + END,
    ),
    (
        "small_collectives",
        "numbers",
        DDP + "import torch.distributed as dist; values = [torch.tensor(1.0), torch.tensor(2.0)]",
        "assert values.tolist() == [1, 2]; " + END,
    ),
    (
        "sequence_imbalance",
        "batches",
        TORCH + "import random",
        "assert [batches([5, 9, 6], 1, rank, 2, 0) for rank in (0, 1)] == [[[0]], [[2]]]",
    ),
    (
        "unfavourable_shape",
        "pytorch",
        TORCH + "batch = torch.ones(4, 13)",
        "assert layer(batch).shape == (4, 512); assert layer.in_features == 16",
    ),
    (
        "idle_accelerator",
        "torch",
        TORCH + LAYER + "\nloader = [(torch.ones(4, 3), torch.ones(4))]",
        "assert model(inputs).shape == (4, 2)",
    ),
    ("idle_accelerator", "tensorflow", TF, ""),
    ("idle_accelerator", "jax", JAX, ""),
    (
        "dense_embedding_gradient",
        "torch",
        TORCH + LAYER + "\nfrom torch import nn; words, width, layers = 9, 3, model",
        "embedding(torch.tensor([1])).sum().backward(); of_tables.step(); of_rest.step()",
    ),
    (
        "eager_loop",
        "torch-elements",
        TORCH + "values = [[1.0, 2.0]] * 3",
        "assert table.shape == (3, 2)",
    ),
    (
        "dense_embedding_gradient",
        "indexed",
        TORCH
        + LAYER
        + "\nlayers, ids = model, torch.tensor([[1, 2], [2, 3]])"
        + "\nmodel.table = torch.nn.Parameter(torch.ones(9, 3))",
        "assert rows.shape == (2, 2, 3); rows.sum().backward(); of_tables.step()",
    ),
    (
        "dense_embedding_gradient",
        "same-optimizer",
        TORCH + "\nfrom torch import nn; words, width = 9, 3",
        """embedding(torch.tensor([1])).sum().backward()
torch.optim.SGD(embedding.parameters(), 0.1).step()
torch.optim.Adagrad(embedding.parameters()).step()""",
    ),
    (
        "dense_embedding_gradient",
        "tensorflow",
        TF + "table, words = tf.Variable(tf.ones([9, 3])), [1, 2]",
        "assert rows.shape == [2, 3] and penalty == 3",
    ),
    (
        "graph_loop",
        "fix",
        TF + "rows, score = tf.ones([3, 2]), tf.reduce_sum",
        "assert scores.shape == [3]",
    ),
    (
        "session_rebuild",
        "fix",
        TF1 + "steps, train_op = 2, tf.assign_add(tf.train.get_global_step(), 1)",
        "assert session is not None; graph.__exit__(None, None, None)",
    ),
    (
        "double_precision",
        "torch",
        TORCH + LAYER + "\nimport numpy; array = numpy.ones((4, 3))",
        "assert model(inputs).dtype == torch.float32",
    ),
    (
        "double_precision",
        "tensorflow",
        TF + "import numpy; data = numpy.ones(3)",
        "assert tf.constant(data).dtype == tf.float32",
    ),
    (
        "double_precision",
        "jax",
        JAX + "params = {'w': jnp.ones(3)}",
        "assert params['w'].dtype == jnp.float32",
    ),
    ("full_precision_matmul", "tf32", TORCH, ""),
    ("full_precision_matmul", "bfloat16", TORCH + LINEAR, "loss.backward()"),
    ("full_precision_matmul", "float16", TORCH + LINEAR, ""),
    ("full_precision_matmul", "float16-inference", TORCH + LINEAR, "assert output.ndim == 0"),
    ("full_precision_matmul", "bfloat16-inference", TORCH + LINEAR, "assert output.ndim == 0"),
    ("full_precision_matmul", "look-up", TORCH + LINEAR, ""),
    ("full_precision_matmul", "mixed-float16", KERAS, POLICY.format("float16")),
    ("full_precision_matmul", "mixed-bfloat16", KERAS, POLICY.format("bfloat16")),
    ("serial_input", "torch", TORCH + ROWS, "assert len(next(iter(loader))[0]) == 32"),
    ("serial_input", "generator-torch", TORCH + ROWS, "assert len(next(iter(loader))) == 32"),
    ("serial_input", "keras", KERAS, "assert Batches().workers == 2"),
    ("serial_input", "tf", TF + DATA, "assert next(iter(dataset)) == 1"),
    ("serial_input", "generator", JAX + POOL, "assert params == 1.0"),
    ("cpu_oversubscription", "threads", TORCH, "assert torch.get_num_threads() == 2"),
    (
        "eager_loop",
        "torch-update",
        TORCH + "moments = gradients = [torch.ones(2)]",
        "assert round(float(moments[0][0]), 2) > 0",
    ),
    ("iterator_rebuild", "fit", KERAS + MODEL, "assert loss > 0"),
    (
        "iterator_rebuild",
        "predict",
        KERAS
        + "\ninputs = keras.ops.ones([4, 3])"
        + "\nmodel = keras.Sequential([keras.layers.Dense(2)])",
        "assert outputs.shape == (4, 2)",
    ),
    (
        "unfused_pattern",
        "cpu",
        TORCH + "import types\nself, width, hidden = types.SimpleNamespace(), 3, batch",
        "assert self.norm(hidden).shape == (2, 3)",
    ),
    (
        "double_precision",
        "mixed",
        TORCH + "import numpy; array, self = numpy.ones(3), torch.nn.Module()",
        "assert self.bias.dtype == torch.float32",
    ),
    (
        "small_batch",
        "fit",
        KERAS + MODEL,
        "model.fit(inputs, labels, verbose=0); assert model.steps_per_execution == 16",
    ),
    ("small_batch", "several-steps", KERAS + MODEL, "model.fit(inputs, labels, verbose=0)"),
    ("small_batch", "larger-fit", KERAS + MODEL, ""),
    ("small_batch", "loader", TORCH + ROWS, "assert len(next(iter(loader))[0]) == 64"),
    ("small_batch", "session", TF + DATA, "assert next(iter(dataset)).shape == 8"),
    (
        "small_batch",
        "jax",
        JAX + "batches, step = jnp.ones([2, 3]), lambda params, batch: (params, batch.sum())",
        "assert losses.shape == (2,)",
    ),
    (
        "one_hot_product",
        "torch",
        TORCH
        + "from torch.nn.functional import one_hot\nself, tokens = model, words"
        + "\nwords = 9",
        "assert (hidden == one_hot(tokens, words).float() @ self.weight).all()",
    ),
    (
        "one_hot_product",
        "tensorflow",
        TF + "weights, tokens, words = tf.eye(4), [1, 2], 4",
        "assert (hidden == tf.matmul(tf.one_hot(tokens, words), weights)).numpy().all()",
    ),
    ("idle_cores", "torch", TORCH, "assert torch.get_num_threads() == 2"),
    ("idle_cores", "session", TF, "assert config.intra_op_parallelism_threads == 0"),
    ("worker_respawn", "persistent", TORCH + ROWS, "assert len(next(iter(loader))[0]) == 32"),
    (
        "worker_respawn",
        "new",
        TORCH + ROWS + "epochs, train_step = 2, lambda batch, rate: batch[0].sum()",
        "",
    ),
    ("serial_input", "torch-ahead", TORCH + ROWS, "assert len(next(iter(loader))[0]) == 32"),
    ("serial_input", "keras-ahead", KERAS, "assert Batches().workers == 2"),
    ("serial_input", "tf-ahead", TF + DATA, "assert next(iter(dataset)) == 0"),
    ("serial_input", "thread-ahead", TORCH + AHEAD, "assert seen == [1.0, 2.0]"),
    ("serial_input", "jax-ahead", JAX + AHEAD, "assert seen == [1.0, 2.0]"),
    (
        "dominant_op",
        "unbind",
        TORCH + "values, result = torch.ones(2, 5, 3), 0",
        "assert result.tolist() == [[5, 5, 5]] * 2",
    ),
    ("dominant_op", "one-hot", JAX + TOKENS, "assert (hidden == table[tokens]).all()"),
    ("host_callback", "tf", TF + "rows = tf.ones([4, 3])", "assert total.shape == (4, 3)"),
    (
        "host_callback",
        "tf1",
        TF1 + "rows = tf.ones([4, 3])",
        "assert smoothed.shape == (4, 3); graph.__exit__(None, None, None)",
    ),
    ("host_callback", "jax", JAX + "rows = jnp.ones([4, 3])", "assert smoothed.shape == (4, 3)"),
    (
        "host_callback",
        "jax-debug",
        JAX + "step, train_step = 0, lambda params, batch: (params, batch.sum())",
        "",
    ),
    ("host_callback", "torch", TORCH + "scores = torch.ones(2, 5)", "assert ranks[0, 0] == 2.5"),
    (
        "python_overhead",
        "each-tensor",
        TORCH + "for p in model.parameters(): p.grad = torch.ones_like(p)",
        "assert len(norms) == len(gradients)",
    ),
    ("python_overhead", "whole-tensors", TORCH + METRICS, "assert counts[4] == 16"),
    (
        "python_overhead",
        "random-access",
        "import random\nmemory, capacity, position, transition, batch_size = [1], 1, 0, 2, 1",
        "assert (memory, position, batch) == ([2], 0, [2])",
    ),
    (
        "python_overhead",
        "drawn-few",
        "import numpy as np\nsize, batch_size = 100, 8",
        "assert len(set(places.tolist())) == 8",
    ),
    (
        "checkpoint_stall",
        "torch",
        TORCH + STATE + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        SAVED.format("saved"),
    ),
    (
        "checkpoint_stall",
        "child",
        TORCH + CHILD,
        "writer.join(); " + SAVED.format("saved"),
    ),
    ("checkpoint_stall", "keras", KERAS, ""),
    ("checkpoint_stall", "keras-backup", KERAS, ""),
    ("checkpoint_stall", "tf1-hook", TF1, "graph.__exit__(None, None, None)"),
    (
        "checkpoint_stall",
        "tf",
        TF + STATE + "checkpoint = tf.train.Checkpoint(step=tf.Variable(1))",
        "",
    ),
    ("checkpoint_stall", "tf1", TF1, "session.close(); graph.__exit__(None, None, None)"),
    ("checkpoint_stall", "jax", JAX + STATE, SAVED.format("saved.npz")),
    (
        "recompilation",
        "tf-shape",
        TF,
        "train_step(tf.ones([2, 3], tf.int32), tf.ones(2, tf.int32))",
    ),
    ("recompilation", "tf-value", TF, ""),
    (
        "slow_startup",
        "prepare",
        TORCH + "import numpy as np; from pathlib import Path; texts, prepare = [1, 2], np.asarray",
        "assert tokens.tolist() == [1, 2]",
    ),
    (
        "slow_startup",
        "jax",
        JAX + "layer, hidden, weights = lambda h, w: h * w, jnp.ones(3), jnp.full([4, 3], 2.0)",
        "assert hidden[0] == 16; jax.config.update('jax_compilation_cache_dir', None)",
    ),
    (
        "profiler_perturbation",
        "session",
        TF1 + SESSION + "metadata, train_op = tf.RunMetadata(), tf.constant(1.0)",
        "session.close(); graph.__exit__(None, None, None)",
    ),
    ("profiler_perturbation", "own", TORCH + "loader, step = range(3), lambda batch: None", ""),
    ("slow_startup", "inductor", TORCH + "import os", "del os.environ['TORCHINDUCTOR_CACHE_DIR']"),
    ("recompilation", "tf-function", TF, ""),
    ("recompilation", "jax-shape", JAX, "assert words.shape == (2, 64) and words.sum() == 10"),
    ("recompilation", "jax-value", JAX, "assert params.shape == (3,)"),
    (
        "recompilation",
        "jax-eager",
        JAX + "grads, state = params, 1\nupdate = lambda *given: given[:2]",
        "assert params.shape == (3,)",
    ),
    ("recompilation", "jax-function", JAX, "assert params.shape == (3,)"),
    ("recompilation", "torch-shape", TORCH, "assert model(words).shape == (4, 3, 2)"),
    ("recompilation", "torch-value", TORCH, ""),
]
# What a case starts with, and the module that it needs; others need the standard library only.
FRAMEWORKS = {TF: "tensorflow", TF1: "tensorflow", KERAS: "keras", JAX: "jax", TORCH: "torch"}
FRAMEWORKS |= {"import tensorflow as tf\n": "tensorflow", "": "os"}


@pytest.mark.framework
@pytest.mark.parametrize("framework", sorted(set(FRAMEWORKS.values())))
def test_code_runs(framework, tmp_path, forks):
    if importlib.util.find_spec(framework) is None:
        pytest.skip("the framework is not installed")
    cases = [*(program(case) for case in RUNS), *(in_context(case) for case in contexts.CONTEXTS)]
    code = [text for text in cases if text[0] == framework]
    assert code
    script = tmp_path / "fixes.py"
    # A loader that the garbage collector finds waits ten seconds for its workers to end.
    lines = [f"    exec({text!r}, names)\n    names.clear()\n" for _, text in code]
    # Some code starts workers, which import the script. What hangs shows where.
    limit = "    import faulthandler; faulthandler.dump_traceback_later(240, exit=True)\n"
    start = f"if __name__ == '__main__':\n    names = {{}}\n{limit}"
    script.write_text(start + "".join(lines))
    if framework in IMPORTED:
        run = forks(framework).run([script], tmp_path, tmp_path)
    else:
        command = [sys.executable, script]
        run = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240
        )
    assert run.returncode == 0, run.stderr


def program(case):
    """The framework of a case, and the code of its fix with what stands around it."""
    diagnosis, fix, before, after = case
    framework = next(name for start, name in FRAMEWORKS.items() if before.startswith(start))
    return framework, f"{before}\n{completed(CODE[diagnosis, fix])}\n{after}"


def in_context(case):
    """The framework of a case of `fix_contexts`, and its code."""
    framework, before, after = contexts.CONTEXTS[case]
    return framework, f"{before}\n{completed(CODE[case])}\n{after}"


SIZE = ", globals().get('batch_size', 32)"
# What the program passes where the code of a fix has three dots.
PASSED = {
    "DataLoader": f"dataset{SIZE}",
    "AdamW": "[torch.nn.Parameter(torch.ones(2))]",
    "compile": "'adam', 'mse'",
    "fit": "inputs, labels",
    "Session": "''",
    "MonitoredTrainingSession": "checkpoint_dir=folder",
    "ModelCheckpoint": "'model.keras'",
    "BackupAndRestore": "'backup'",
    "CheckpointSaverHook": "folder",
    "TFRecordDataset": "paths",
    "map": "parse",
    "batch": "batch_size",
    "take": "n",
    "Embedding": "words, width",
}


def completed(code):
    """The code with the arguments that it leaves out; a new batch size takes the place of one."""

    def passed(found):
        if found[2] is None and found[1] not in PASSED:
            return found[0]
        arguments, new = PASSED[found[1]], found[2] or ""
        if "batch_size" in new:
            arguments = arguments.removesuffix(SIZE)
        return f"{found[1]}({arguments},{new})"

    return re.sub(r"(\w+)\(\s*\.\.\.(?:,([^()]*))?\)", passed, code)


def test_all_code_runs_or_compiles():
    known = {tuple(case[:2]) for case in RUNS} | contexts.CONTEXTS.keys()
    known |= contexts.COMPILED | contexts.COMMANDS
    assert known == CODE.keys()


@pytest.mark.parametrize("case", sorted(contexts.COMPILED), ids="-".join)
def test_code_compiles(case):
    compile(CODE[case], case[1], "exec")
