"""Generator of tfprof profiles: `ProfileProto` as TensorFlow's C++ library fills it."""

from tests.read.tf_samples import EPOCH_US

from stepwhy.read.shared.tensorflow.messages import message_class

CPU = "/job:localhost/replica:0/task:0/device:cpu:0"
GPU = "/job:localhost/replica:0/task:0/device:gpu:0"
STREAMS = "/device:gpu:0/stream:all"


def profile(*nodes, texts=()):
    """A profile of nodes, see `node`, and of numbered texts that lines of code refer to."""
    message = message_class("ProfileProto")()
    for value in nodes:
        message.nodes.add(key=value.id).value.CopyFrom(value)
    for number, value in dict(texts).items():
        message.id_to_string.add(key=number, value=value.encode())
    return message


def node(number, name, op, *, device=CPU, inputs=(), frames=()):
    """A node; inputs are numbers of nodes, frames (number of file, line, number of function)."""
    message = message_class("ProfileNode")(
        id=number, name=name.encode(), op=op.encode(), canonical_device=device.encode()
    )
    for slot, source in enumerate(inputs):
        message.inputs.add(key=slot, value=source)
    for file, line, function in frames:
        message.trace.traces.add(file_id=file, lineno=line, function_id=function)
    return message


def ran(message, *times, step=0, on=CPU, memory=()):
    """The node with runs of (start, duration) us; memory: (end us, asked, peak, left, made)."""
    found = [entry.value for entry in message.execs if entry.key == step]
    used = found[0] if found else message.execs.add(key=step).value
    execs = used.accelerator_execs if "stream" in on else used.cpu_execs
    device = execs.add(key=on.encode())
    for start, duration in times:
        device.value.times.add(int64_values=[EPOCH_US + start, duration])
    for end, asked, peak, left, made in memory:
        record = used.memory_execs.add(memory_micros=EPOCH_US + end, output_bytes=made)
        record.requested_bytes, record.peak_bytes, record.residual_bytes = asked, peak, left
        if made:
            record.output_memory.add(key=0)
    return message


TEXTS = {
    1: "/home/ada/lovelace/train.py",
    2: "tower",
    3: "/usr/lib/python3/dist-packages/tensorflow/python/ops/math_ops.py",
    4: "matmul",
    5: "main.py",
    6: "<module>",
}
FRAMES = [(5, 90, 6), (1, 41, 2), (3, 2000, 4)]


def one_step():
    """A step of five ops on a CPU, with a node that never ran."""
    x = ran(node(1, "x", "Placeholder"), (0, 1))
    w = ran(node(2, "tower/w/read", "Identity"), (2, 1))
    mul = node(3, "tower/MatMul", "MatMul", inputs=[1, 2], frames=FRAMES)
    mul = ran(mul, (10, 40), memory=[(50, 4096, 4096, 4096, 4000)])
    relu = ran(node(4, "tower/Relu", "Relu", inputs=[3]), (45, 20), memory=[(65, 0, 0, 0, 4000)])
    end = ran(node(5, "step", "NoOp", inputs=[4]), (70, 1), memory=[(70, 0, 0, 0, 0)])
    return profile(x, w, mul, relu, end, node(6, "never", "Sub", inputs=[3]), texts=TEXTS)


def on_gpu():
    """One op of a GPU with two kernels and a block of memory."""
    conv = ran(node(1, "conv", "Conv2D", device=GPU), (0, 3), on=GPU)
    conv = ran(conv, (10, 50), (60, 5), on=STREAMS, memory=[(3, 64, 64, 64, 64)])
    used = conv.execs[0].value
    used.memory_execs[0].allocator_bytes_in_use = 1 << 20
    for at, size in ((1, 64), (90, -64)):
        used.allocations.add(alloc_micros=EPOCH_US + at, alloc_bytes=size)
    return profile(conv)


def seeds():
    """A step on a CPU and one on a GPU, as files."""
    return [
        ("cpu.tfprof.pb", one_step().SerializeToString()),
        ("gpu.tfprof.pb", on_gpu().SerializeToString()),
    ]
