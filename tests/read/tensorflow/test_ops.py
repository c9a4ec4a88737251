"""Op names, kinds and phases."""

import pytest

from stepwhy.read.shared.tensorflow.ops import (
    copy_direction,
    copy_name,
    device_kind,
    executor_kind,
    normalise_op,
    phase_of,
)
from stepwhy.trace import Copy, Kind, Phase


@pytest.mark.parametrize(
    ("op", "plain"),
    [
        ("Conv2D", "Conv2D"),
        ("_MklNativeConv2D", "Conv2D"),
        ("_MklMatMul", "MatMul"),
        ("_MklNativeConv2DBackpropFilter", "Conv2DBackpropFilter"),
        ("_MklFusedBatchNormV3", "FusedBatchNormV3"),
        ("_MklFusedBatchNormGradV3", "FusedBatchNormGradV3"),
        ("_MklNativeFusedBatchNormEx", "_FusedBatchNormEx"),
        ("_MklNativeFusedConv2D", "_FusedConv2D"),
        ("_FusedMatMul", "_FusedMatMul"),
        ("_MklToTf", "_MklToTf"),
    ],
)
def test_onednn_names_become_the_programs(op, plain):
    assert normalise_op(op) == plain


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("MatMul", Kind.KERNEL),
        ("NoOp", Kind.KERNEL),
        ("QueueDequeueManyV2", Kind.INPUT),
        ("QueueDequeueUpToV2", Kind.INPUT),
        ("IteratorGetNext", Kind.INPUT),
        ("MultiDeviceIteratorGetNextFromShard", Kind.INPUT),
        ("Unstage", Kind.INPUT),
        ("OrderedMapUnstageNoKey", Kind.INPUT),
        ("_Recv", Kind.WAIT),
        ("_HostRecv", Kind.WAIT),
        ("_HostSend", Kind.WAIT),
        ("AccumulatorTakeGradient", Kind.WAIT),
        ("CollectiveReduceV2", Kind.COLLECTIVE),
        ("HorovodAllreduce", Kind.COLLECTIVE),
        ("NcclAllReduce", Kind.COLLECTIVE),
        ("SaveV2", Kind.STORAGE),
        ("MergeV2Checkpoints", Kind.STORAGE),
        ("MergeSummary", Kind.STORAGE),
        ("WriteScalarSummary", Kind.STORAGE),
        ("PyFunc", Kind.PYTHON),
        ("EagerPyFunc", Kind.PYTHON),
        ("ResourceGather", Kind.KERNEL),
    ],
)
def test_waiting_is_never_computation(op, kind):
    assert executor_kind(op, "node") is kind


def test_the_token_queue_of_synchronous_replicas_is_no_input():
    assert executor_kind("QueueDequeueV2", "sync_token_q_Dequeue") is Kind.WAIT


@pytest.mark.parametrize(
    ("op", "node", "kind"),
    [
        ("MEMCPYHtoD", "x", Kind.MEMCPY),
        ("MEMSET", "x", Kind.MEMSET),
        ("MatMul", "x", Kind.KERNEL),
        ("ncclKernel_AllReduce", "", Kind.COLLECTIVE),
        ("CollectiveReduce", "x", Kind.COLLECTIVE),
    ],
)
def test_what_runs_on_a_stream(op, node, kind):
    assert device_kind(op, node) is kind


@pytest.mark.parametrize(
    ("op", "node", "phase"),
    [
        ("MatMul", "tower_0/dense/MatMul", Phase.FORWARD),
        ("MatMul", "gradients/tower_0/dense/MatMul_grad/MatMul", Phase.BACKWARD),
        ("AddN", "train/gradients_1/AddN", Phase.BACKWARD),
        ("MatMul", "gradient_tape/dense/MatMul", Phase.BACKWARD),
        ("Const", "ConstantFolding/gradients/x_grad/Shape", Phase.BACKWARD),
        ("ReluGrad", "anything", Phase.BACKWARD),
        ("ResourceApplyAdam", "train/update_w", Phase.OPTIMIZER),
        ("SparseApplyAdagrad", "train/update_w", Phase.OPTIMIZER),
        ("ApplyGradientDescent", "gradients/odd", Phase.OPTIMIZER),
        ("AssignSub", "train/GradientDescent/sub", Phase.OPTIMIZER),
        ("NoOp", "Adam", Phase.OPTIMIZER),
        ("Sqrt", "StatefulPartitionedCall/adam_1/Sqrt", Phase.OPTIMIZER),
        ("UnsortedSegmentSum", "sgd/UnsortedSegmentSum", Phase.OPTIMIZER),
        ("Square", "loss/ArithmeticOptimizer/ReplaceMulWithSquare_mul", Phase.FORWARD),
        ("AssignSub", "train/LookaheadOptimizer/AssignSub", Phase.OPTIMIZER),
        ("MatMul", "sgd_head/MatMul", Phase.FORWARD),
        ("MatMul", "Adapter/MatMul", Phase.FORWARD),
        ("Identity", "save/Identity", Phase.OTHER),
        ("NoOp", "_SOURCE", Phase.OTHER),
    ],
)
def test_phases_by_op_and_scope(op, node, phase):
    assert phase_of(op, node, Kind.KERNEL) is phase


def test_what_is_not_computation_has_the_phase_of_its_kind():
    kinds = (Kind.INPUT, Kind.WAIT, Kind.COLLECTIVE, Kind.MEMCPY, Kind.STORAGE)
    assert [phase_of("x", "gradients/x", k).name for k in kinds] == [
        "INPUT",
        "COMMUNICATION",
        "COMMUNICATION",
        "UNKNOWN",
        "OTHER",
    ]


@pytest.mark.parametrize("copy", [Copy.H2D, Copy.D2H, Copy.D2D, Copy.PEER, Copy.H2H])
def test_names_of_copies_say_their_direction(copy):
    assert copy_direction(copy_name(copy)) is copy
