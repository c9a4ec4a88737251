"""The code of fixes runs in the framework that it is for.

The code of older fixes is run by `fix_contexts.CONTEXTS`, that of others by `RUNS`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forks import IMPORTED

from stepwhy.diagnose import TABLE, load
from stepwhy.result import Fix

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
paths, parse, batch_size = ["a.tfrecord", "b.tfrecord"], (lambda record: record), 2
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
ROWS = """
from torch.utils.data import DataLoader, TensorDataset
dataset = TensorDataset(torch.arange(64.0))
texts, make_sample = list(range(64)), float
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
END = "dist.destroy_process_group()"
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
TABLE_OF_ROWS = """
table, kernel, rate = tf.Variable(tf.ones([9, 3])), tf.Variable(tf.ones([3, 2])), 0.1
layers, loss = [kernel], tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 2]) @ kernel)
gradient = tf.gradients(loss, table)[0]
"""
INITIALISED = """with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run({})
graph.__exit__(None, None, None)"""
RUNS = [
    (
        "unused_graph",
        "_FIX",
        TORCH
        + "model, metric = torch.nn.Linear(3, 2), torch.nn.functional.mse_loss\n"
        + "target = torch.ones(2, 2)",
        "assert not score.requires_grad",
    ),
    (
        "unused_gradient",
        "_FIX",
        TORCH + "teacher = torch.nn.Linear(3, 2)",
        "assert not target.requires_grad and not teacher.weight.requires_grad",
    ),
    (
        "unused_gradient",
        "_FIX_DROPPED",
        TORCH + CRITIC,
        "loss.backward(); assert generator.weight.grad is None is not critic.weight.grad",
    ),
    (
        "python_preprocessing",
        "_FIX_GENERATOR",
        TF + "import numpy as np; rows, labels = np.ones((300, 3)), np.ones(300)",
        "assert next(iter(dataset))[0].shape == (256, 3) and len([*batches()]) == 2",
    ),
    (
        "constant_computation",
        "_FIX_JAX",
        JAX + ADJACENCY,
        "assert params.tolist() == [-1, -1, -1] and loss == 3",
    ),
    (
        "constant_computation",
        "_FIX_SESSION",
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
        "_FIX",
        TORCH,
        "assert Layer(torch.ones(3, 3))(torch.ones(3, 2)).tolist() == [[1, 1]] * 3",
    ),
    (
        "constant_computation",
        "_FIX_MADE",
        TORCH
        + "values, loader = [1.0, 2.0], [torch.ones(2)]\n"
        + "loss_of = lambda batch, weights: (batch * weights).sum()",
        "assert loss == 3",
    ),
    (
        "double_backward",
        "_FIX",
        TORCH
        + LINEAR
        + "\nmodel, loss = loss_of, model(batch); loss_of = lambda x: model(x).sum()",
        "assert len(gradients) == 2 and gradients[0].grad_fn is None",
    ),
    (
        "discarded_result",
        "_PYTORCH",
        TORCH
        + "import types; monitor, loader = types.SimpleNamespace(), [batch] * 3\n"
        + "model, loss_of = torch.nn.Linear(3, 2), torch.sum",
        "assert not monitor.is_on and step == 2",
    ),
    (
        "discarded_result",
        "_WEIGHTED",
        TORCH
        + "output, target, weight, hidden = batch, batch + 1, 0.0, None\n"
        + "loss_of, penalty = torch.nn.functional.mse_loss, None",
        "assert loss == 1",
    ),
    (
        "discarded_result",
        "_JAX",
        JAX + "step, old, evaluate = 3, 0.5, lambda params: params.sum()",
        "assert score == 0.5",
    ),
    (
        "discarded_result",
        "_TENSORFLOW",
        TF1
        + "is_due, old, evaluate, batch = tf.constant(True), tf.zeros([]), tf.reduce_sum, [1.0]",
        INITIALISED.format("score"),
    ),
    ("dense_update", "_LAZY", TF1 + TABLE_OF_ROWS, INITIALISED.format("train")),
    ("dense_update", "_OWN", TF1 + TABLE_OF_ROWS, INITIALISED.format("update")),
    (
        "dense_update",
        "_KERAS",
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
        "_JAX",
        JAX
        + "table, ids = jnp.ones((9, 3)), jnp.array([1, 2])\n"
        + "loss_of = lambda rows, batch: (rows @ batch).sum()",
        "assert loss == 6 and abs(table.sum() - 26.4) < 1e-4",
    ),
    ("recomputed_forward", "_FREE", TORCH + BLOCKS, "assert x.shape == (2, 3)"),
    ("recomputed_forward", "_UNKNOWN", TORCH + BLOCKS, "assert x.shape == (2, 3)"),
    (
        "whole_buffer_copy",
        "_JAX",
        JAX + BUFFER + "rows = jnp.ones((2, 3))",
        "assert buffer.sum(1).tolist() == [0, 0, 3, 3, 0, 0, 0, 0]",
    ),
    (
        "whole_buffer_copy",
        "_JAX_WINDOW",
        JAX + BUFFER + "row = jnp.ones(3)",
        "assert buffer.sum(1).tolist() == [0, 3, 0, 0, 0, 0, 0, 0]",
    ),
    (
        "whole_buffer_copy",
        "_JAX_INSIDE",
        JAX + BUFFER,
        "assert jax.lax.scan(body, (buffer, 0), jnp.ones((4, 3)))[0][0].sum() == 12",
    ),
    (
        "whole_buffer_copy",
        "_TORCH",
        TORCH + "buffer, index, rows = torch.zeros(4, 2), torch.tensor([1]), torch.ones(1, 2)",
        "assert buffer.sum(1).tolist() == [0, 2, 0, 0]",
    ),
    (
        "whole_buffer_copy",
        "_TORCH_WINDOW",
        TORCH + "count, buffer, rows = 7, torch.zeros(4, 2), torch.ones(2, 2)",
        "assert buffer.sum(1).tolist() == [2, 0, 0, 2] and count == 9",
    ),
    (
        "whole_buffer_copy",
        "_TENSORFLOW",
        TF1
        + "variable = tf.Variable(tf.zeros([4, 2]), use_resource=True)\n"
        + "indices, rows = [[1]], tf.ones([1, 2])",
        INITIALISED.format("update"),
    ),
    (
        "padding",
        "_FIX",
        TORCH,
        "assert collate([([3, 4], 1), ([5], 0)])[0].tolist() == [[3, 4], [5, 0]]",
    ),
    (
        "logging_stall",
        "_SYNC",
        'import os; step, record, file = 0, "loss 0.5", open("log.txt", "w")',
        'assert open("log.txt").read() == "loss 0.5\\n"',
    ),
    (
        "exposed_transfer",
        "_JAX_ONCE",
        JAX
        + "features = np.ones(3); train_step = lambda params, fixed, batch: params + batch * fixed",
        "assert isinstance(features, jax.Array) and params[0] == 3",
    ),
    (
        "exposed_transfer",
        "_JAX_AHEAD",
        JAX + "train_step = lambda params, batch: params + batch; batches = [np.ones(3)] * 4",
        "assert params[0] == 5",
    ),
    (
        "logging_stall",
        "_TF1",
        TF1 + SESSION,
        "session.close(); graph.__exit__(None, None, None)",
    ),
    (
        "logging_stall",
        "_TENSORBOARD",
        TORCH
        + "import types; step = 0; loss, writer = 0.5, types.SimpleNamespace(add_scalar=print)",
        "",
    ),
    (
        "memory_growth",
        "_TORCH",
        TORCH + "total, outputs, loss, output = 0.0, [], torch.ones(()), torch.ones(2)",
        "assert total == 1.0",
    ),
    (
        "python_preprocessing",
        "_MORE_FEEDERS",
        "import threading; started = []; fill_queue = lambda: started.append(1)",
        "assert len(started) == 4",
    ),
    ("memory_growth", "_TF", TF + "losses, loss = [], tf.constant(2.0)", "assert losses == [2.0]"),
    ("memory_growth", "_ANY", JAX + "losses, loss = [], jnp.ones(())", "assert losses == [1.0]"),
    (
        "gc_pause",
        "_FIX",
        TORCH + "import gc; batches = [batch] * 2; train_step = print",
        "assert not gc.isenabled(); gc.enable()",
    ),
    ("iterator_rebuild", "_TORCH", TORCH + ROWS + LOADS, "assert len(batch[0]) == 2"),
    ("iterator_rebuild", "_TF", TF + "steps = 5", "assert batch.shape == (2, 3)"),
    ("iterator_rebuild", "_TF1", TF1 + FETCHES + RANGE, CLOSED.partition("; ")[2]),
    ("storage_wait", "_TORCH", TORCH + ROWS, "assert loader.num_workers == 2"),
    ("storage_wait", "_TF", TF + RECORDS, "assert next(iter(dataset)).shape == 2"),
    ("repeated_computation", "_FED", TF1 + FETCHES, CLOSED),
    ("repeated_computation", "_READ", TF1 + FETCHES, CLOSED),
    ("unfused_optimizer", "_AT_ONCE_FUSED", TORCH + PARAMETERS, "optimizer.step()"),
    ("unfused_optimizer", "_AT_ONCE_ON_DEVICE", TORCH + PARAMETERS, "optimizer.step()"),
    ("unfused_optimizer", "_LISTS_ON_DEVICE", TORCH + PARAMETERS, "optimizer.step()"),
    ("unfused_optimizer", "_LISTS", TORCH + PARAMETERS, "optimizer.step()"),
    ("unfused_optimizer", "_OWN", TORCH + PARAMETERS, "assert (moments[0] == 0.1).all()"),
    ("eager_loop", "_TF", TF + VARIABLES, "assert train_step(tf.ones(2)).shape == ()"),
    (
        "eager_loop",
        "_JAX",
        JAX + "import functools; loss_of = lambda params, batch: (params * batch).sum()",
        "assert train_step(params, batch)[0].shape == (3,)",
    ),
    ("eager_loop", "_JAX_BESIDE", JAX, "assert rest_of_step(jnp.eye(3)) is None"),
    ("eager_loop", "_JAX_SCAN", JAX, "assert states_of(jnp.eye(3), jnp.ones([5, 2, 3])).sum()"),
    ("eager_loop", "_TORCH", TORCH, "assert model(words).shape == (4, 3, 2)"),
    (
        "eager_loop",
        "_TORCH_CELL",
        TORCH + "self, width, inputs = torch.nn.Module(), 3, torch.ones(2, 5, 3)",
        "assert states.shape == (2, 5, 3)",
    ),
    ("unfused_pattern", "_FIX", TORCH, "assert model(words).shape == (4, 3, 2)"),
    ("pageable_copy", "_PYTORCH", TORCH + LOADER, "assert batch.shape == (2, 3)"),
    ("redundant_cast", "_TO_FLOAT16", TORCH + LAYER, "assert output.dtype == torch.float16"),
    ("redundant_cast", "_TO_BFLOAT16", TORCH + LAYER, "assert output.dtype == torch.bfloat16"),
    ("unfused_attention", "_FIX", TORCH + HEADS, "assert hidden.shape == (2, 4, 8)"),
    ("redundant_gradient_sync", "_FIX", DDP, END),
    ("small_collectives", "_WRAPPED", DDP + "model = model.module", END),
    (
        "small_collectives",
        "_BY_HAND",
        DDP + "loss = model(micro_batches[0]).sum().backward()",
        "assert (model.module.bias.grad == 4).all(); " + END,
    ),
    (
        "small_collectives",
        "_NUMBERS",
        DDP + "import torch.distributed as dist; values = [torch.tensor(1.0), torch.tensor(2.0)]",
        "assert values.tolist() == [1, 2]; " + END,
    ),
    (
        "sequence_imbalance",
        "_FIX",
        TORCH + "import random",
        "assert [batches([5, 9, 6], 1, rank, 2, 0) for rank in (0, 1)] == [[[0]], [[2]]]",
    ),
    (
        "unfavourable_shape",
        "_PYTORCH",
        TORCH + "batch = torch.ones(4, 13)",
        "assert layer(batch).shape == (4, 512); assert layer.in_features == 16",
    ),
    (
        "idle_accelerator",
        "_TORCH",
        TORCH + LAYER + "\nloader = [(torch.ones(4, 3), torch.ones(4))]",
        "assert model(inputs).shape == (4, 2)",
    ),
    ("idle_accelerator", "_TENSORFLOW", TF, ""),
    ("idle_accelerator", "_JAX", JAX, ""),
    (
        "dense_embedding_gradient",
        "_TORCH",
        TORCH + LAYER + "\nfrom torch import nn; words, width, layers = 9, 3, model",
        "embedding(torch.tensor([1])).sum().backward(); of_tables.step(); of_rest.step()",
    ),
    (
        "eager_loop",
        "_TORCH_ELEMENTS",
        TORCH + "values = [[1.0, 2.0]] * 3",
        "assert table.shape == (3, 2)",
    ),
    (
        "dense_embedding_gradient",
        "_SAME_OPTIMIZER",
        TORCH + "\nfrom torch import nn; words, width = 9, 3",
        """embedding(torch.tensor([1])).sum().backward()
torch.optim.SGD(embedding.parameters(), 0.1, momentum=0.9).step()
torch.optim.Adagrad(embedding.parameters()).step()""",
    ),
    (
        "dense_embedding_gradient",
        "_TENSORFLOW",
        TF + "table, words = tf.Variable(tf.ones([9, 3])), [1, 2]",
        "assert rows.shape == [2, 3] and penalty == 3",
    ),
    (
        "graph_loop",
        "_FIX",
        TF + "rows, score = tf.ones([3, 2]), tf.reduce_sum",
        "assert scores.shape == [3]",
    ),
    (
        "session_rebuild",
        "_FIX",
        TF1 + "steps, train_op = 2, tf.assign_add(tf.train.get_global_step(), 1)",
        "assert session is not None; graph.__exit__(None, None, None)",
    ),
    (
        "double_precision",
        "_TORCH",
        TORCH + LAYER + "\nimport numpy; array = numpy.ones((4, 3))",
        "assert model(inputs).dtype == torch.float32",
    ),
    (
        "double_precision",
        "_TENSORFLOW",
        TF + "import numpy; data = numpy.ones(3)",
        "assert tf.constant(data).dtype == tf.float32",
    ),
    (
        "double_precision",
        "_JAX",
        JAX + "params = {'w': jnp.ones(3)}",
        "assert params['w'].dtype == jnp.float32",
    ),
    ("full_precision_matmul", "_TF32", TORCH, ""),
    ("full_precision_matmul", "_BFLOAT16", TORCH + LINEAR, "loss.backward()"),
    ("full_precision_matmul", "_FLOAT16", TORCH + LINEAR, ""),
    ("full_precision_matmul", "_FLOAT16_INFERENCE", TORCH + LINEAR, "assert output.ndim == 0"),
    ("full_precision_matmul", "_BFLOAT16_INFERENCE", TORCH + LINEAR, "assert output.ndim == 0"),
    ("full_precision_matmul", "_LOOK_UP", TORCH + LINEAR, ""),
    ("full_precision_matmul", "_MIXED_FLOAT16", KERAS, POLICY.format("float16")),
    ("full_precision_matmul", "_MIXED_BFLOAT16", KERAS, POLICY.format("bfloat16")),
    ("serial_input", "_TORCH", TORCH + ROWS, "assert len(next(iter(loader))[0]) == 32"),
    ("serial_input", "_GENERATOR_TORCH", TORCH + ROWS, "assert len(next(iter(loader))) == 32"),
    ("serial_input", "_KERAS", KERAS, "assert Batches().workers == 2"),
    ("serial_input", "_TF", TF + DATA, "assert next(iter(dataset)).shape == 4"),
    ("serial_input", "_GENERATOR", JAX + POOL, "assert params == 1.0"),
    ("cpu_oversubscription", "_THREADS", TORCH, "assert torch.get_num_threads() == 2"),
    (
        "eager_loop",
        "_TORCH_UPDATE",
        TORCH + "moments = gradients = [torch.ones(2)]",
        "assert round(float(moments[0][0]), 2) > 0",
    ),
    (
        "iterator_rebuild",
        "_PREDICT",
        KERAS
        + "\ninputs = keras.ops.ones([4, 3])"
        + "\nmodel = keras.Sequential([keras.layers.Dense(2)])",
        "assert outputs.shape == (4, 2)",
    ),
    (
        "unfused_pattern",
        "_CPU",
        TORCH + "import types\nself, width, hidden = types.SimpleNamespace(), 3, batch",
        "assert self.norm(hidden).shape == (2, 3)",
    ),
    (
        "double_precision",
        "_MIXED",
        TORCH + "import numpy; array, self = numpy.ones(3), torch.nn.Module()",
        "assert self.bias.dtype == torch.float32",
    ),
    (
        "small_batch",
        "_FIT",
        KERAS + MODEL,
        "model.fit(inputs, labels, verbose=0); assert model.steps_per_execution == 16",
    ),
    ("small_batch", "_SEVERAL_STEPS", KERAS + MODEL, "model.fit(inputs, labels, verbose=0)"),
    ("small_batch", "_LARGER_FIT", KERAS + MODEL, ""),
    ("small_batch", "_LOADER", TORCH + ROWS, "assert len(next(iter(loader))[0]) == 64"),
    ("small_batch", "_SESSION", TF + DATA, "assert next(iter(dataset)).shape == 8"),
    (
        "small_batch",
        "_JAX",
        JAX + "batches, step = jnp.ones([2, 3]), lambda params, batch: (params, batch.sum())",
        "assert losses.shape == (2,)",
    ),
    (
        "one_hot_product",
        "_TORCH",
        TORCH
        + "from torch.nn.functional import one_hot\nself, tokens = model, words"
        + "\nwords = 9",
        "assert (hidden == one_hot(tokens, words).float() @ self.weight).all()",
    ),
    (
        "one_hot_product",
        "_TENSORFLOW",
        TF + "weights, tokens, words = tf.eye(4), [1, 2], 4",
        "assert (hidden == tf.matmul(tf.one_hot(tokens, words), weights)).numpy().all()",
    ),
    ("idle_cores", "_TORCH", TORCH, "assert torch.get_num_threads() == 2"),
    ("idle_cores", "_SESSION", TF, "assert config.intra_op_parallelism_threads == 0"),
    ("worker_respawn", "_PERSISTENT", TORCH + ROWS, "assert len(next(iter(loader))[0]) == 32"),
    (
        "worker_respawn",
        "_NEW",
        TORCH + ROWS + "epochs, train_step = 2, lambda batch, rate: batch[0].sum()",
        "",
    ),
    ("missing_prefetch", "_TORCH", TORCH + ROWS, "assert len(next(iter(loader))[0]) == 32"),
    ("missing_prefetch", "_KERAS", KERAS, "assert Batches().workers == 2"),
    ("missing_prefetch", "_TF", TF + DATA, "assert next(iter(dataset)) == 0"),
    ("missing_prefetch", "_THREAD", TORCH + AHEAD, "assert seen == [1.0, 2.0]"),
    ("missing_prefetch", "_JAX", JAX + AHEAD, "assert seen == [1.0, 2.0]"),
    (
        "dominant_op",
        "_UNBIND",
        TORCH + "inputs, state, cell = torch.ones(2, 5, 3), 0, lambda row, state: state + row",
        "assert state.tolist() == [[5, 5, 5]] * 2",
    ),
    ("dominant_op", "_ONE_HOT", JAX + TOKENS, "assert (hidden == table[tokens]).all()"),
    ("host_callback", "_TF", TF + "rows = tf.ones([4, 3])", "assert total.shape == (4, 3)"),
    (
        "host_callback",
        "_TF1",
        TF1 + "rows = tf.ones([4, 3])",
        "assert smoothed.shape == (4, 3); graph.__exit__(None, None, None)",
    ),
    ("host_callback", "_JAX", JAX + "rows = jnp.ones([4, 3])", "assert smoothed.shape == (4, 3)"),
    (
        "host_callback",
        "_JAX_DEBUG",
        JAX + "step, train_step = 0, lambda params, batch: (params, batch.sum())",
        "",
    ),
    ("host_callback", "_TORCH", TORCH + "scores = torch.ones(2, 5)", "assert ranks[0, 0] == 2.5"),
    ("python_overhead", "_WHOLE_TENSORS", TORCH + METRICS, "assert counts[4] == 16"),
    (
        "checkpoint_stall",
        "_TORCH",
        TORCH + STATE + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        SAVED.format("saved"),
    ),
    (
        "checkpoint_stall",
        "_CHILD",
        TORCH + CHILD,
        "writer.join(); " + SAVED.format("saved"),
    ),
    ("checkpoint_stall", "_KERAS", KERAS, ""),
    (
        "checkpoint_stall",
        "_TF",
        TF + STATE + "checkpoint = tf.train.Checkpoint(step=tf.Variable(1))",
        "",
    ),
    ("checkpoint_stall", "_TF1", TF1, "session.close(); graph.__exit__(None, None, None)"),
    ("checkpoint_stall", "_JAX", JAX + STATE, SAVED.format("saved.npz")),
    (
        "recompilation",
        "_TF_SHAPE",
        TF,
        "train_step(tf.ones([2, 3], tf.int32), tf.ones(2, tf.int32))",
    ),
    ("recompilation", "_TF_VALUE", TF, ""),
    (
        "slow_startup",
        "_PREPARE",
        TORCH + "import numpy as np; from pathlib import Path; texts, prepare = [1, 2], np.asarray",
        "assert tokens.tolist() == [1, 2]",
    ),
    (
        "slow_startup",
        "_JAX",
        JAX + "layer, hidden, weights = lambda h, w: h * w, jnp.ones(3), jnp.full([4, 3], 2.0)",
        "assert hidden[0] == 16; jax.config.update('jax_compilation_cache_dir', None)",
    ),
    (
        "profiler_perturbation",
        "_SESSION",
        TF1 + SESSION + "metadata, train_op = tf.RunMetadata(), tf.constant(1.0)",
        "session.close(); graph.__exit__(None, None, None)",
    ),
    ("profiler_perturbation", "_OWN", TORCH + "loader, step = range(3), lambda batch: None", ""),
    ("slow_startup", "_INDUCTOR", TORCH + "import os", "del os.environ['TORCHINDUCTOR_CACHE_DIR']"),
    ("recompilation", "_TF_FUNCTION", TF, ""),
    ("recompilation", "_JAX_SHAPE", JAX, "assert words.shape == (2, 64) and words.sum() == 10"),
    ("recompilation", "_JAX_VALUE", JAX, "assert params.shape == (3,)"),
    ("recompilation", "_JAX_FUNCTION", JAX, "assert params.shape == (3,)"),
    ("recompilation", "_TORCH_SHAPE", TORCH, "assert model(words).shape == (4, 3, 2)"),
    ("recompilation", "_TORCH_VALUE", TORCH, ""),
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
    # Some code starts workers, which import the script.
    script.write_text(f"if __name__ == '__main__':\n    names = {{}}\n{''.join(lines)}")
    if framework in IMPORTED:
        run = forks(framework).run([script], tmp_path, tmp_path)
    else:
        command = [sys.executable, script]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def program(case):
    """The framework of a case, and the code of its fix with what stands around it."""
    diagnosis, fix, before, after = case
    framework = next(name for start, name in FRAMEWORKS.items() if before.startswith(start))
    code = getattr(load(diagnosis), fix).code
    assert code
    return framework, f"{before}\n{code}\n{after}"


def in_context(case):
    """The framework of a case of `fix_contexts`, and its code."""
    diagnosis, fix = case
    framework, before, after = contexts.CONTEXTS[case]
    return framework, f"{before}\n{getattr(load(diagnosis), fix).code}\n{after}"


def fixes_in(value):
    """All fixes in a constant of a diagnosis, which may be a table of them."""
    if isinstance(value, Fix):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from fixes_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from fixes_in(inner)


@pytest.mark.parametrize("name", TABLE)
def test_code_fits_into_a_terminal(name):
    # 80 columns less the indent: a line that is wrapped is no code when it is copied.
    constants = [fix for value in vars(load(name)).values() for fix in fixes_in(value)]
    lines = [line for fix in constants for line in fix.code.split("\n")]
    assert [line for line in lines if len(line) > 73] == []


def test_all_code_runs_or_compiles():
    known = {tuple(case[:2]) for case in RUNS} | contexts.CONTEXTS.keys()
    known |= contexts.COMPILED | contexts.COMMANDS
    code = {
        (name, key)
        for name in TABLE
        for key, value in vars(load(name)).items()
        if isinstance(value, Fix) and value.code
    }
    assert known == code


@pytest.mark.parametrize("case", sorted(contexts.COMPILED), ids="-".join)
def test_code_compiles(case):
    diagnosis, fix = case
    compile(getattr(load(diagnosis), fix).code, fix, "exec")
