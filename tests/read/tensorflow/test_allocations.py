"""Allocations of ops, from hand-made step statistics."""

from stepwhy.read.shared.tensorflow.allocations import Allocations
from stepwhy.read.shared.tensorflow.messages import message_class
from stepwhy.trace import NULL, Meta, TraceBuilder

AT_US = 1_700_000_000_000_000


def stats(*ops):
    """Ops as (name, allocator, in use at the end, [(us, bytes), ...])."""
    message = message_class("StepStats")()
    device = message.dev_stats.add(device=b"/device:CPU:0")
    for name, allocator, in_use, records in ops:
        start_ns = AT_US * 1000
        node = device.node_stats.add(node_name=name, all_start_nanos=start_ns)
        node.all_end_rel_nanos = 9000
        used = node.memory.add(allocator_name=allocator, allocator_bytes_in_use=in_use)
        for time_us, size in records:
            used.allocation_records.add(alloc_micros=AT_US + time_us, alloc_bytes=size)
    return message


def build(message):
    builder = TraceBuilder()
    allocations = Allocations(builder)
    for node in message.dev_stats[0].node_stats:
        allocations.add_node(node)
    allocations.finish(by_time=True)
    return allocations.blocks > 0, builder.finish(Meta("test"))


def read(message):
    told, trace = build(message)
    table = trace.allocations
    first = int(table.block.max(initial=0)) & ~1023
    return told, [
        (
            int(table.time_ns[i]) // 1000 - AT_US,
            trace.string(int(table.owner[i])),
            int(table.change[i]),
            None if table.block[i] == NULL else int(table.block[i]) - first,
            None if table.total[i] == NULL else int(table.total[i]),
        )
        for i in range(len(table))
    ]


def test_sizes_join_a_block_with_its_release():
    conv = (b"conv", b"mklcpu", 0, [(1, 512), (2, 64), (3, -64), (4, 64), (8, -64), (9, -512)])
    assert read(stats(conv)) == (
        True,
        [
            (1, "conv", 512, 0, None),
            (2, "conv", 64, 1, None),
            (3, "conv", -64, 1, None),
            (4, "conv", 64, 2, None),
            (8, "conv", -64, 2, None),
            (9, "conv", -512, 0, None),
        ],
    )


def test_what_the_allocator_has_handed_out_is_read_where_the_op_ends():
    told, rows = read(stats((b"a", b"GPU_0_bfc", 4096, [(1, 512)])))
    assert told
    assert rows == [(1, "a", 512, 0, None), (9, "a", 0, None, 4096)]


def test_a_release_of_nothing_known_joins_nothing():
    assert read(stats((b"a", b"cpu", 0, [(1, -512)])))[1] == [(1, "a", -512, None, None)]


def test_damaged_records_are_left_out():
    damaged = [(-AT_US, 512), (1 << 61, 512), (1, 0), (1, 1 << 60)]
    assert read(stats((b"a", b"cpu", -5, damaged))) == (False, [])


def test_host_allocators_are_told_apart():
    names = (b"cpu", b"mklcpu", b"gpu_host_bfc", b"GPU_0_bfc")
    _, trace = build(stats(*((b"a", name, 0, [(1, 1)]) for name in names)))
    assert trace.allocations.host.tolist() == [1, 1, 1, 0]
