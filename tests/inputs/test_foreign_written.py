"""Files other than traces, written by the frameworks themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stepwhy.base.errors import InputError
from stepwhy.read.inputs.foreign.known import known
from stepwhy.read.inputs.reading import read_source
from tests.forks import IMPORTED

pytestmark = pytest.mark.framework

TORCH = """
import cProfile, torch, warnings
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile
warnings.simplefilter("ignore")
model = torch.nn.Linear(8, 8)
observer = ExecutionTraceObserver().register_callback("graph.json")
activities = [ProfilerActivity.CPU]
with profile(activities=activities, execution_trace_observer=observer) as profiler:
    model(torch.rand(4, 8)).sum().backward()
open("table.txt", "w").write(profiler.key_averages().table(sort_by="cpu_time_total"))
torch.save(model.state_dict(), "legacy.pt", _use_new_zipfile_serialization=False)
torch.save(model.state_dict(), "model.pt")
cProfile.run("sum(range(10))", "run.prof")
"""
TENSORFLOW = """
from tensorflow.compat import v1 as tf
tf.disable_v2_behavior()
x = tf.random.uniform([20, 30])
y = tf.matmul(x, tf.get_variable("w", [30, 10]), name="y")
saver = tf.train.Saver()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    metadata = tf.RunMetadata()
    full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(y, options=full, run_metadata=metadata)
    saver.save(session, "./model")
    tf.saved_model.simple_save(session, "saved", {"x": x}, {"y": y})
    open("graph.pb", "wb").write(session.graph_def.SerializeToString())
    open("graph.pbtxt", "w").write(str(session.graph_def))
    open("metadata.pbtxt", "w").write(str(metadata))
    tf.profiler.write_op_log(session.graph, ".", run_meta=metadata)
"""
JAX = """
import jax, jax.numpy as jnp
lowered = jax.jit(lambda x: x @ x).lower(jnp.ones((10, 10)))
open("hlo.pb", "wb").write(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
jax.profiler.save_device_memory_profile("memory.prof")
"""

WRITTEN = {
    "torch": (
        TORCH,
        {
            "graph.json": "an execution trace of PyTorch",
            "table.txt": "a table that PyTorch's profiler printed",
            "legacy.pt": "a checkpoint of PyTorch",
            "model.pt": "a checkpoint of PyTorch",
            "run.prof": "a profile of cProfile",
        },
    ),
    "tensorflow": (
        TENSORFLOW,
        {
            "graph.pb": "a TensorFlow graph",
            "graph.pbtxt": "a TensorFlow graph",
            "model.meta": "a TensorFlow graph",
            "metadata.pbtxt": "a RunMetadata that was written as text",
            "saved/saved_model.pb": "a SavedModel",
            "model.index": "a part of a TensorFlow checkpoint",
            "checkpoint": "a part of a TensorFlow checkpoint",
            "tfprof_log": "a log for tfprof",
        },
    ),
    "jax": (JAX, {"hlo.pb": "a module of XLA", "memory.prof": "a pprof profile"}),
}


@pytest.mark.parametrize("framework", WRITTEN)
def test_other_files_of_frameworks_are_named(framework, tmp_path, forks):
    pytest.importorskip(framework)
    program, files = WRITTEN[framework]
    if framework in IMPORTED:
        forks(framework).check_output(program, tmp_path)
    else:
        command = [sys.executable, "-W", "ignore", "-c", program]
        subprocess.run(command, check=True, timeout=300, cwd=tmp_path, capture_output=True)
    for name, what in files.items():
        assert what in refused(tmp_path / name), name


def refused(path):
    """The error for a file."""
    try:
        error = known(read_source(path))
    except InputError as archive:
        error = archive
    return "" if error is None else error.what
