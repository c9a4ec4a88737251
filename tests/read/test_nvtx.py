"""What the texts of NVTX ranges say, and which ranges are steps."""

import numpy as np
import pytest

from stepwhy.read.shared.nvtx import Range, find_steps, read_range
from stepwhy.trace import Kind, Phase


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aten::mm, seq = 12, op_id = 7", Range("aten::mm", Kind.OP, sequence=12)),
        ("aten::mm, op_id = 7, sizes = [[2, 2]]", Range("aten::mm", Kind.OP)),
        ("mm, seq = 115", Range("mm", Kind.OP, sequence=115)),
        ("mm, seq = 0", Range("mm", Kind.OP)),
        ("mm, seq = 99999999999999999999999", Range("mm", Kind.OP)),
        (f"mm, seq = {'9' * 5000}", Range("mm", Kind.OP)),
        ("aten::t", Range("aten::t", Kind.OP)),
        ("AddBackward0, stashed seq = 3", Range("AddBackward0", Kind.OP, Phase.BACKWARD, 3)),
        (
            "torch::autograd::GraphRoot, seq = 9",
            Range("torch::autograd::GraphRoot", Kind.OP, Phase.BACKWARD, 9),
        ),
        (
            "enumerate(DataLoader)#_Iter.__next__, op_id = 1",
            Range("enumerate(DataLoader)#_Iter.__next__", Kind.INPUT, Phase.INPUT),
        ),
        ("nccl:all_reduce, op_id = 1", Range("nccl:all_reduce", Kind.FRAMEWORK)),
        ("ncclGroupStart", Range("ncclGroupStart", Kind.FRAMEWORK)),
        ("backward", Range("backward", Kind.ANNOTATION, Phase.BACKWARD)),
        ("layer, part 2", Range("layer, part 2", Kind.ANNOTATION)),
        ("read /home/jane/data/a.tfrecord", Range("read ~/data/a.tfrecord", Kind.ANNOTATION)),
        (r"C:\Users\jane\a.py", Range(r"~\a.py", Kind.ANNOTATION)),
        ("x" * 500, Range("x" * 200, Kind.ANNOTATION)),
        ("", Range("", Kind.ANNOTATION)),
    ],
)
def test_texts(text, expected):
    assert read_range(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Conv2D: block/conv1", Range("Conv2D", Kind.OP, Phase.FORWARD)),
        (
            '{"op":"MatMul","name":"gradients/fc_grad/MatMul","args":[]}',
            Range("MatMul", Kind.OP, Phase.BACKWARD),
        ),
        (
            "QueueDequeueManyV2: batch/deq",
            Range("QueueDequeueManyV2", Kind.INPUT, Phase.INPUT),
        ),
        ("HloExecute", Range("HloExecute", Kind.ANNOTATION)),
    ],
)
def test_operations_of_tensorflow(text, expected):
    assert read_range(text, "tensorflow-core") == expected


@pytest.mark.parametrize(
    ("name", "is_input"),
    [
        ("DataLoader", True),
        ("Data loading", True),
        ("data_load", True),
        ("[_TrainingEpochLoop].train_dataloader_next", True),
        ("load data", True),
        ("fetch_data", True),
        ("get batch", True),
        ("next_batch", True),
        ("data", True),
        ("data_wait", True),
        ("get_batch_norm", False),
        ("get batch size", False),
        ("data_parallel", False),
        ("metadata", False),
        ("reader", False),
    ],
)
def test_names_of_the_fetch_of_a_batch(name, is_input):
    assert (read_range(name).kind is Kind.INPUT) is is_input


def steps_of(*ranges):
    """Names of those (name, start, end) or (name, start, end, thread) that are steps."""
    rows = [(*r, 0)[:4] for r in ranges]
    names = [r[0] for r in rows]
    start, end, thread = (np.asarray([r[i] for r in rows], dtype=np.int64) for i in (1, 2, 3))
    return [
        n
        for n, is_step in zip(names, find_steps(names, thread, start, end), strict=True)
        if is_step
    ]


def loop(name, count, period=100, length=95, first=0):
    return [
        (name.format(i=i), first + i * period, first + i * period + length) for i in range(count)
    ]


@pytest.mark.parametrize(
    "name",
    [
        "iteration",
        "iter",
        "step",
        "Train_Step",
        "train_iter",
        "training step",
        "train_batch",
        "run_training_batch",
        "batch {i}",
        "mini_batch",
        "one_step",
    ],
)
def test_a_name_that_repeats_without_gaps_is_a_step(name):
    assert len(steps_of(*loop(name, 3))) == 3
    assert steps_of(*loop(name, 2)) == []
    assert steps_of(*loop(name, 5, length=30)) == []


@pytest.mark.parametrize(
    "name",
    [
        "ProfilerStep#{i}",
        "iteration {i}",
        "Step {i}",
        "step_{i}",
        "iter={i}",
        "train_step[{i}]",
        "step {i}/90",
        "Step {i} to 90",
        "Iteration {i} - 90",
    ],
)
def test_a_number_alone_proves_a_step(name):
    assert len(steps_of(*loop(name, 2, length=5))) == 2


@pytest.mark.parametrize(
    "name",
    [
        "forward",
        "stepper",
        "optimizer.step",
        "batch_norm",
        "batchnorm",
        "step decay",
        "layer 3",
        "epoch 1",
        "iterator",
        "multistep",
    ],
)
def test_other_names_are_no_steps(name):
    assert steps_of(*loop(name, 5)) == []


def test_each_thread_has_its_own_loop():
    ranges = [("step", 0, 90, 1), ("step", 100, 190, 1), ("step", 0, 90, 2)]
    assert steps_of(*ranges) == []
    assert len(steps_of(*ranges, ("step", 200, 290, 1))) == 3
