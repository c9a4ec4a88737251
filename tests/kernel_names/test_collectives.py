"""What collectives do, by their names."""

import pytest

from stepwhy.read.kernel_names.collectives import bus_bandwidth, collective_of


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "all-reduce",
        ),
        ("ncclKernel_AllReduce_TREE_LL_Sum_float(ncclDevComm*, unsigned long)", "all-reduce"),
        ("nccl:all_reduce", "all-reduce"),
        ("gloo:all_reduce", "all-reduce"),
        ("allreduce_coalesced", "all-reduce"),
        ("all-reduce.12", "all-reduce"),
        ("hcom_allReduce__123_0", "all-reduce"),
        ("_allgather_base", "all-gather"),
        ("ncclDevKernel_AllGather_RING_LL", "all-gather"),
        ("nccl:_reduce_scatter_base", "reduce-scatter"),
        ("nccl:all_to_all", "all-to-all"),
        ("all_to_allv", "all-to-all"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "send and receive"),
        ("nccl:send 0->1", "send and receive"),
        ("collective-permute.3", "send and receive"),
        ("ncclDevKernel_Broadcast_RING_LL", "broadcast"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"),
        ("nccl:barrier", "barrier"),
        ("gloo:gather", "gather"),
        ("void gemm<float>()", ""),
    ],
)
def test_names_tell_what_a_collective_does(name, operation):
    assert collective_of(name) == operation


@pytest.mark.parametrize(
    ("operation", "ranks", "factor"),
    [
        ("all-reduce", 2, 1.0),
        ("all-reduce", 8, 1.75),
        ("all-gather", 4, 0.75),
        ("reduce-scatter", 4, 0.75),
        ("all-to-all", 8, 0.875),
        ("broadcast", 8, 1.0),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(operation, ranks, factor):
    assert bus_bandwidth(operation, ranks, 4000, 2000) == factor * 2e9


@pytest.mark.parametrize(
    ("operation", "ranks", "size", "time_ns"),
    [
        ("barrier", 8, 4000, 2000),
        ("all-reduce", -1, 4000, 2000),
        ("all-reduce", 8, None, 2000),
        ("all-reduce", 8, 4000, 0),
    ],
)
def test_without_a_size_a_time_or_a_group_there_is_no_bandwidth(operation, ranks, size, time_ns):
    assert bus_bandwidth(operation, ranks, size, time_ns) is None
