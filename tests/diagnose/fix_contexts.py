"""What surrounds the code of fixes, so that it runs: framework, before, after.

`COMPILED` cannot run without an accelerator or a cluster, and `COMMANDS` are for a shell.
"""

DATA = """
import numpy as np, torch
from torch.utils.data import DataLoader
data = dataset = images = [np.ones(3, np.float32)] * 64
prepare = augment = lambda x: x
batch_size, device = 2, "cpu"
"""
MODEL = """
import torch
model, batch = torch.nn.Linear(3, 2), torch.ones(4, 3)
"""
EAGER = """
import functools
torch.compile = functools.partial(torch.compile, backend="eager")
"""
IMAGES = """
import os, torch
model, images = torch.nn.Conv2d(3, 4, 3), torch.ones(2, 3, 8, 8)
"""
LAST = "assert model(images).is_contiguous(memory_format=torch.channels_last)"
GROUP = """
import torch.distributed
from torch.nn.parallel import DistributedDataParallel
store = torch.distributed.HashStore()
torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
loss = torch.nn.Linear(3, 2)(torch.ones(1, 3)).sum()
"""
# A thread of gloo that waits for the interpreter would never end: let it have it.
UNGROUP = "import time; time.sleep(0.5); torch.distributed.destroy_process_group()"
WRAPPED = "model = DistributedDataParallel(model)"
TF2 = """
import os, numpy as np, tensorflow as tf
dataset, files = tf.data.Dataset.range(64), tf.data.Dataset.range(8)
parse = decode = augment = lambda x: x
n, batch_size = 8, 4
np.save("data.npy", np.ones(3))
"""
RECORDS = """
path, data = "records", [1, 2, 3]
prepare = lambda x: x
to_example = lambda x, y: tf.train.Example()
"""
GRAPH = """
import os, numpy as np, tensorflow.compat.v1 as tf
graph = tf.Graph().as_default()
graph.__enter__()
session = tf.Session()
steps, batch, batch_size, capacity, min_after_dequeue, towers = 2, 2, 2, 64, 8, 2
tensors = [tf.random.normal([])]
"""
END = "\nsession.close(); graph.__exit__(None, None, None)"
QUEUE = """
dataset = tf.data.Dataset.range(64)
parse = decode = lambda x: x
n, path, names = 8, "records", tf.FIFOQueue(2, tf.string)
reader, features = tf.TFRecordReader(), {"x": tf.io.FixedLenFeature([], tf.int64)}
"""
FEEDS = """
x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int32, [None])
train = tf.reduce_sum(x)
rows, classes, first = [[1.0, 2.0, 3.0]] * 4, [1, 2, 3, 4], 0
all_rows, all_classes = np.ones([4, 3]), np.ones(4)
"""
FEATURES = """
x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None])
features = tf.abs(x)
train_op = tf.reduce_sum(features) + tf.reduce_sum(y)
inputs, labels, rows = np.ones([600, 3]), np.ones(600), [0, 1]
"""
JAX_FEATURES = """
import jax, numpy as np
transform, train_step = jax.numpy.abs, lambda params, x, y: params + x.sum(0) + y.sum()
inputs, labels, rows, params = np.ones([600, 2]), np.ones(600), [0, 1], np.zeros(2)
"""
RECORDINGS = """
import numpy as np
prepare, recordings = abs, [np.ones(9)]
number, start, length = 0, 2, 4
"""
FETCHES = """
table, watched, train, feed = tf.ones([4, 2]), [1], tf.constant(1), {}
train_op, loss_op = tf.constant(1), tf.constant(2)
"""
NETWORK = """
weights = tf.Variable(tf.ones([3, 2]))
model = lambda *inputs: tf.reduce_sum(inputs[0] @ weights)
tower, host = "/device:CPU:0", "/device:CPU:0"
devices, losses, batches = [tower], [], [tf.ones([2, 3])]
batch = batches[0]
loss = tower_loss = model(batch)
optimizer = tf.train.GradientDescentOptimizer(0.1)
input_pipeline = lambda: (tf.ones([2, 3]), tf.ones([2]))
gradients = [tf.ones([2]), tf.ones([3])]
"""
NORMS = """
net, gamma, beta = tf.ones([2, 4, 4, 3]), tf.ones([3]), tf.zeros([3])
images, kernel = tf.ones([2, 3, 8, 8]), tf.ones([3, 3, 3, 4])
"""
STORED = """
moving_mean, moving_variance = tf.zeros([3]), tf.ones([3])
"""
JAX = """
import jax, jax.numpy as jnp
step, params, batches = lambda params, batch: (params + batch, batch), 0.0, jnp.ones(4)
"""

PREDICTS = """
import keras
inputs, labels = keras.ops.ones([4, 3]), keras.ops.ones([4, 2])
model, held_out, step = keras.Sequential([keras.layers.Dense(2)]), (inputs, labels), 0
model.compile("sgd", "mse")
"""
TRAINERS = """
import torch
from unittest.mock import Mock
Trainer, TrainingArguments = Mock(), Mock()
"""
CONTEXTS = {
    ("ddp", "bucket-view"): ("torch", MODEL + GROUP, UNGROUP),
    ("frequent_evaluation", "often"): ("keras", PREDICTS, "assert outputs.shape == (4, 2)"),
    ("frequent_evaluation", "batch"): ("keras", PREDICTS, "assert outputs.shape == (4, 2)"),
    ("frequent_evaluation", "loop"): (
        "keras",
        PREDICTS + "evaluate = lambda model, pairs: model.evaluate(*pairs, verbose=0)",
        "assert accuracy > 0",
    ),
    ("frequent_evaluation", "validation"): (
        "keras",
        PREDICTS,
        "assert len(model.history.history['val_loss']) == 2",
    ),
    ("discarded_result", "function"): (
        "torch",
        "import torch\nrows = torch.ones(3, 2, requires_grad=True)",
        """def forward(ctx, graph, rows):
    ctx.save_for_backward(graph, rows)
    return graph @ rows

Product.forward = staticmethod(forward)
Product.apply(torch.eye(3), rows).sum().backward()
assert rows.grad.sum() == 6""",
    ),
    ("eager_loop", "torch-line"): (
        "torch",
        MODEL + "model(batch).sum().backward()",
        "assert norm > 0",
    ),
    ("hot_line", "jacobian"): (
        "torch",
        "import torch\nfunction, inputs = torch.sin, torch.ones(3)\ndirection = weights = inputs",
        "assert change.equal(gradient)",
    ),
    ("frequent_evaluation", "transformers"): (
        "torch",
        TRAINERS + "model = train = held_out = compute_metrics = None",
        "assert Trainer.call_args.kwargs['preprocess_logits_for_metrics'](torch.eye(3), 0)[2] == 2",
    ),
    ("frequent_evaluation", "lightning"): (
        "torch",
        TRAINERS,
        "assert Trainer.call_args.kwargs['check_val_every_n_epoch'] == 5",
    ),
    ("hot_line", "metric"): ("keras", "import keras", ""),
    ("input_bound", "pytorch-workers"): ("torch", DATA, "assert loader.num_workers == 2"),
    ("input_bound", "pytorch-more"): ("torch", "import os" + DATA, "loader.num_workers"),
    ("input_bound", "tf-data"): ("tensorflow", TF2, "assert next(iter(dataset)) == 0"),
    ("input_bound", "tf-batched"): ("tensorflow", TF2, "assert next(iter(dataset)).shape == 4"),
    ("input_bound", "tf-cache"): ("tensorflow", TF2, "assert next(iter(dataset)) == 0"),
    ("input_bound", "tf-ahead"): ("tensorflow", TF2, "assert next(iter(dataset)) == 0"),
    ("input_bound", "tf-parallel"): ("tensorflow", TF2, "assert next(iter(dataset)) == 0"),
    ("input_bound", "tf-epochs"): ("tensorflow", TF2, "assert len(list(dataset)) == 8"),
    ("input_bound", "tf-repeat"): (
        "keras",
        TF2
        + "import keras\nbatches, model = 2, keras.Sequential([keras.layers.Dense(1)])"
        + "\nmodel.compile('sgd', 'mse')"
        + "\ndataset = tf.data.Dataset.from_tensors((tf.ones([4, 1]), tf.ones([4, 1])))",
        "assert model.optimizer.iterations == 20",
    ),
    ("input_bound", "tf-queue"): ("tensorflow", GRAPH + QUEUE, END),
    ("python_preprocessing", "function"): (
        "numpy",
        RECORDINGS,
        "assert len(window) == 4",
    ),
    ("python_preprocessing", "tf"): ("tensorflow", TF2 + RECORDS, "next(iter(dataset))"),
    ("python_preprocessing", "tf-fed"): ("tensorflow", TF2 + RECORDS, "next(iter(dataset))"),
    ("python_preprocessing", "pydataset"): (
        "keras",
        DATA + "\nimport keras",
        "assert len(Batches().prepared) and Batches().workers == 2",
    ),
    ("python_preprocessing", "pytorch"): ("torch", DATA, "assert len(Prepared()[3]) == 2"),
    ("python_preprocessing", "pytorch-files"): (
        "torch",
        DATA + "paths, read = [1, 2], lambda path: np.full(3, path)",
        "assert Decoded()[1].shape == (3,) and len(Decoded()) == 2",
    ),
    ("serial_input", "torch-batched"): (
        "torch",
        "import torch; batch_size = 4\ndataset = torch.utils.data.TensorDataset(torch.arange(6))",
        "assert [len(batch[0]) for batch in loader] == [4, 2]",
    ),
    ("serial_input", "random"): ("tensorflow", GRAPH, END),
    ("queue_starvation", "faster"): ("tensorflow", GRAPH + QUEUE, END),
    ("queue_starvation", "smaller"): ("tensorflow", GRAPH + QUEUE, END),
    ("repeated_computation", "backward"): (
        "torch",
        MODEL + "losses = [model(batch).sum(), model(batch).square().mean()]",
        "assert model.weight.grad is not None",
    ),
    ("repeated_computation", "tape"): (
        "keras",
        TF2
        + "import keras\nmodel = keras.Sequential([keras.layers.Dense(1)])"
        + "\nlosses_of = lambda m: [tf.reduce_sum(m(tf.ones([4, 3])))] * 2",
        "assert len(gradients) == 2 and gradients[1] == 8.0",
    ),
    ("repeated_computation", "again"): (
        "torch",
        MODEL + "criterion = torch.nn.functional.cross_entropy\nlabels = torch.zeros(4, dtype=int)",
        "assert 0 <= hits <= 4; loss.backward()",
    ),
    ("repeated_computation", "again-loop"): (
        "torch",
        MODEL + "torch.nn.utils.parametrizations.orthogonal(model)",
        "assert model.parametrizations.weight.original.grad is not None",
    ),
    ("repeated_preprocessing", "pytorch-features"): (
        "torch",
        "import torch\ninputs, labels, transform = torch.ones(600, 2), torch.ones(600), torch.abs",
        "assert len(data) == 600",
    ),
    ("repeated_preprocessing", "tf-features"): (
        "tensorflow",
        TF2 + "inputs, labels, transform = np.ones([600, 2]), np.ones(600), np.abs",
        "assert len(data) == 600",
    ),
    ("unfused_pattern", "pairs"): (
        "torch",
        "import torch\na, b = torch.rand(4, 8), torch.rand(3, 8)",
        "assert torch.allclose(distances, (a[:, None] - b[None]).norm(dim=-1), atol=1e-5)",
    ),
    ("unfused_pattern", "pairs-tf"): (
        "tensorflow",
        TF2 + "a, b = tf.random.normal([4, 8]), tf.random.normal([3, 8])",
        "assert np.allclose(squares, tf.reduce_sum((a[:, None] - b[None]) ** 2, -1), atol=1e-4)",
    ),
    ("unfused_pattern", "pairs-jax"): (
        "jax",
        "import jax, jax.numpy as jnp\na, b = jnp.ones((4, 8)), jnp.arange(24.0).reshape(3, 8)",
        "assert jnp.allclose(squares, ((a[:, None] - b[None]) ** 2).sum(-1))",
    ),
    ("session_overhead", "merged"): (
        "tensorflow",
        GRAPH
        + "session.close()\n"
        + "no = lambda *_: None\n"
        + "session = type('', (), {'run': lambda _, nodes, fed: nodes, 'close': no})()\n"
        + "x, rate_of, w = tf.placeholder(tf.float32, [None, 1]), abs, tf.Variable([1.0])\n"
        + "loss_op, step = tf.reduce_sum(w * x), 3",
        "assert loss is loss_op and values[rate] == 3" + END,
    ),
    ("repeated_preprocessing", "jax-features"): (
        "jax",
        JAX_FEATURES,
        "assert params.shape == (2,)",
    ),
    ("repeated_preprocessing", "session-features"): (
        "tensorflow",
        GRAPH + FEATURES,
        "assert known.shape == (600, 3)" + END,
    ),
    ("repeated_preprocessing", "pytorch"): ("torch", DATA, "assert len(Prepared()[3]) == 3"),
    ("repeated_preprocessing", "tf-data"): ("tensorflow", TF2, "next(iter(dataset))"),
    ("repeated_preprocessing", "tf-unfilled"): ("tensorflow", TF2, "next(iter(dataset))"),
    ("repeated_preprocessing", "tf-moved"): ("tensorflow", TF2, "next(iter(dataset))"),
    ("repeated_preprocessing", "tf-epochs"): ("tensorflow", TF2, "next(iter(dataset))"),
    ("repeated_preprocessing", "tf-shuffled"): ("tensorflow", TF2, "next(iter(dataset))"),
    ("feed_dict_copy", "converted"): ("tensorflow", GRAPH + FEEDS, END),
    ("feed_dict_copy", "constant"): (
        "tensorflow",
        GRAPH + "table = np.ones([4, 3])",
        "assert session.run(table_input).shape == (4, 3)" + END,
    ),
    ("feed_dict_copy", "large"): ("tensorflow", GRAPH + FEEDS, "session.run(rows)" + END),
    ("launch_bound", "training"): ("torch", MODEL + EAGER, "model(batch).sum().backward()"),
    ("launch_bound", "inference"): ("torch", MODEL + EAGER, "assert output.shape == (4, 2)"),
    ("launch_bound", "rest"): ("torch", MODEL, ""),
    ("debug_settings", "numerics"): ("tensorflow", "import tensorflow as tf", ""),
    ("debug_settings", "fix"): (
        "torch",
        "import torch",
        "assert not torch.is_anomaly_enabled()",
    ),
    ("launch_bound", "jax"): ("jax", JAX, "assert params == 4 and losses.shape == (4,)"),
    ("launch_bound", "tensorflow"): ("tensorflow", TF2, "train_step(1)"),
    ("launch_bound", "sessions"): ("tensorflow", GRAPH, END),
    ("host_sync", "pytorch"): (
        "torch",
        "import torch; step, running_loss, loss = 0, 0, torch.ones(())",
        "assert running_loss == 1",
    ),
    ("large_fetch", "fix"): ("tensorflow", GRAPH + FETCHES, END),
    ("session_evidence", "feed-less"): ("tensorflow", GRAPH + FETCHES, "assert loss == 2" + END),
    ("single_device_towers", "spread"): (
        "tensorflow",
        GRAPH + NETWORK + "tower = lambda i: loss",
        "assert len(losses) == towers" + END,
    ),
    ("single_device_towers", "spread-tasks"): (
        "tensorflow",
        GRAPH + NETWORK + "tower = lambda i: tf.ones([i + 1]) * 2",
        'assert losses[1].device == "/job:worker/task:1"' + END,
    ),
    ("unfetched_tower", "fix"): (
        "tensorflow",
        GRAPH + "batch, tower = tf.ones([4, 3]), lambda i, images: images + i",
        "assert len(logits) == towers" + END,
    ),
    ("soft_placement_fallback", "fix"): ("tensorflow", GRAPH, "tf.Session(config=config)" + END),
    ("uncolocated_gradients", "fix"): ("tensorflow", GRAPH + NETWORK, END),
    ("variable_traffic", "fix"): ("tensorflow", GRAPH + NETWORK, END),
    ("exposed_transfer", "loader"): ("torch", DATA, "assert batch.shape == (2, 3)"),
    ("exposed_transfer", "tasks"): ("tensorflow", GRAPH + NETWORK, END),
    ("slow_link", "combine-tf"): ("tensorflow", GRAPH + NETWORK, "assert flat.shape == 5" + END),
    ("slow_link", "combine-torch"): (
        "torch",
        "import torch; tensors, device = [torch.ones(2, 2)] * 2, 'cpu'",
        "assert flat.shape == (8,)",
    ),
    ("slow_link", "pin"): ("torch", DATA, "assert batch.shape == (2, 3)"),
    ("unfused_batch_norm", "tensorflow"): ("tensorflow", GRAPH + NORMS, END),
    ("unfused_batch_norm", "predicting"): ("tensorflow", GRAPH + NORMS + STORED, END),
    ("unfused_batch_norm", "pytorch"): ("torch", "from torch import nn", "nn.Sequential(*layers)"),
    ("unfavourable_layout", "channels-last"): ("torch", IMAGES, LAST),
    ("unfavourable_layout", "channels-last-amd"): ("torch", IMAGES, LAST),
    ("unfavourable_layout", "permuted"): (
        "torch",
        "import torch; images, network = torch.ones(2, 8, 8, 3), torch.nn.Conv2d(3, 4, 3)",
        "assert pooled.shape == (2, 4)",
    ),
    ("unfavourable_layout", "transposed"): ("tensorflow", GRAPH + NORMS, END),
    ("unfavourable_layout", "tf-first"): (
        "tensorflow",
        GRAPH + NORMS + "images = tf.ones([2, 8, 8, 3])",
        END,
    ),
    ("unfavourable_layout", "tf-last"): ("tensorflow", GRAPH + NORMS, END),
    ("memory_headroom", "pytorch"): (
        "torch",
        DATA + "loss = torch.ones((), requires_grad=True)",
        "assert loss.grad == 0.5",
    ),
    ("memory_headroom", "tensorflow"): ("tensorflow", TF2, "next(iter(dataset))"),
    ("memory_headroom", "inference"): (
        "torch",
        "import torch; requests = [torch.ones(2, 3)] * 2",
        "assert batch.shape == (4, 3)",
    ),
    ("exposed_communication", "exchange-at-last"): ("torch", MODEL + GROUP + WRAPPED, UNGROUP),
    ("exposed_communication", "few-buckets"): ("torch", MODEL + GROUP, UNGROUP),
    ("warmup_included", "pytorch"): (
        "torch",
        "import torch; loader, step = range(3), lambda batch: None",
        "",
    ),
    ("wall_device_gap", "later"): (
        "torch",
        "import torch; loader, step = range(3), lambda batch: None",
        "",
    ),
    ("host_sync", "jax-read"): (
        "jax",
        "step, params, batch = 0, 1, 2\ndef train_step(params, batch): return params, 0.5",
        "",
    ),
    ("gc_pause", "called"): ("torch", "import gc; step = 999", ""),
    ("host_sync", "jax"): ("jax", "import jax; step, params = 0, jax.numpy.ones(3)", ""),
    ("wall_device_gap", "pytorch"): ("torch", "", ""),
    ("wall_device_gap", "pytorch-gpu"): ("torch", "", ""),
}
COMPILED = {
    ("graph_growth", "fix"),  # leaves the metric out
    ("misplaced_op", "fix"),  # leaves the variable out
    ("exposed_transfer", "tensorflow"),  # needs a GPU
    ("host_sync", "to-device"),  # needs a GPU
    ("idle_cores", "tensorflow"),  # only before TensorFlow has run anything
    ("host_sync", "to-host"),  # needs a GPU
    ("launch_bound", "old"),  # needs a GPU
    ("python_preprocessing", "table"),  # needs pandas
}
COMMANDS = {
    ("slow_link", "pcie"),
    ("allocator_pressure", "pytorch"),
    ("page_faults", "fix"),
    ("pipeline_bubble", "megatron"),
    ("stage_imbalance", "last-megatron"),
    ("exposed_communication", "pipeline"),
}
