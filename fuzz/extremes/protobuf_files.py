"""Extreme XPlane profiles and step statistics, and what protobuf files consist of."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Message = Callable[[int], bytes]
    Build = Callable[[int], bytes]

_EPOCH_NS = 1_700_000_000_000_000_000
EPOCH_US = _EPOCH_NS // 1000
"""When what is generated ran."""


def varint(value: int) -> bytes:
    """Seven bits per byte, lowest first; negative ones as 64 bits."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field that holds a number."""
    return varint(field << 3) + varint(value)


def block(field: int, *parts: bytes) -> bytes:
    """A field that holds bytes, a text or a message."""
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def filled(size: int, message: Message) -> bytes:
    """Messages one behind another, as many as fit into so many bytes; at least one."""
    parts: list[bytes] = []
    for n in count():
        parts.append(message(n))
        size -= len(parts[-1])
        if size <= 0:
            break
    return b"".join(parts)


def whole(message: Message) -> Build:
    """Files that are nothing but messages one behind another."""
    return lambda size: filled(size, message)


# --- XPlane ---


def _named(field: int, key: int, name: bytes) -> bytes:
    """An entry of the descriptions of events (4) or statistics (5)."""
    return block(field, number(1, key), block(2, number(1, key), block(2, name)))


def _event(key: int, at: int, dur: int, *stats: bytes) -> bytes:
    return block(4, number(1, key), number(2, at), number(3, dur), *stats)


def _line(key: int, name: bytes, *events: bytes) -> bytes:
    return block(3, number(1, key), block(2, name), number(3, _EPOCH_NS), *events)


def _plane(name: bytes, *parts: bytes) -> bytes:
    return block(1, block(2, name), *parts)


def _planes_of(field: bytes, *, gpu: bool = False) -> Callable[[Message], Build]:
    """A plane with one line of many parts; `field` says of what."""

    def build(message: Message) -> Build:
        def made(size: int) -> bytes:
            content = filled(size, message)
            names = _named(4, 1, b"op:MatMul") + _named(5, 1, b"correlation_id")
            if field == b"events":
                content = _line(1, b"Stream #1(Kernel)" if gpu else b"python", content)
            return _plane(b"/device:GPU:0" if gpu else b"/host:CPU", content, names)

        return made

    return build


_events = _planes_of(b"events")
_kernels = _planes_of(b"events", gpu=True)
_parts = _planes_of(b"parts")
_gpu_parts = _planes_of(b"parts", gpu=True)
_KERNEL = _named(4, 1, b"kernel")

XPLANE: dict[str, Build] = {
    "devices": whole(
        lambda n: _plane(
            b"/device:GPU:%d" % n, _line(1, b"Stream #1(Kernel)", _event(1, n, 9)), _KERNEL
        )
    ),
    "empty planes": lambda size: (
        _plane(b"/host:CPU", _line(1, b"t", _event(1, 1, 1)), _KERNEL)
        + filled(size, lambda _: block(1))
    ),
    "TPUs": whole(
        lambda n: _plane(b"/device:TPU:%d" % n, _line(1, b"XLA Ops", _event(1, n, 9)), _KERNEL)
    ),
    "host planes": whole(
        lambda n: _plane(b"/host:CPU", _line(n, b"t%d" % n, _event(1, n, 9)), _KERNEL)
    ),
    "streams": _gpu_parts(lambda n: _line(n, b"Stream #%d(Kernel)" % n, _event(1, n, 9000))),
    "threads": _parts(lambda n: _line(n, b"thread %d" % n, _event(1, n, 9000))),
    "tiny events": _events(lambda n: _event(1, n, 1)),
    "empty events": _events(lambda _: block(4)),
    "kernels": _kernels(lambda n: _event(1, 2000 * n, 1000)),
    "overlapping kernels": _kernels(lambda n: _event(1, n, 10**12)),
    "nested events": _events(lambda n: _event(1, 1000 * n, 10**13 - 2000 * n)),
    "names": _parts(
        lambda n: _line(1, b"python", _event(n, 2000 * n, 1000)) + _named(4, n, b"op%d" % n)
    ),
    "names of kernels": _gpu_parts(
        lambda n: (
            _line(1, b"Stream #1(Kernel)", _event(n, 2000 * n, 1000)) + _named(4, n, b"k%d" % n)
        )
    ),
    "long names": _parts(
        lambda n: _line(1, b"python", _event(n, 2000 * n, 1000)) + _named(4, n, b"op" * 100_000)
    ),
    "unused names": lambda size: _plane(
        b"/host:CPU",
        _line(1, b"t", _event(1, 1, 1)),
        filled(size, lambda n: _named(4, n, b"x%d" % n)),
    ),
    "statistics": _events(
        lambda n: _event(
            1, 2000 * n, 1000, *(block(4, number(1, 1), number(4, n)) for _ in range(9))
        )
    ),
    "names of statistics": _parts(
        lambda n: (
            _line(1, b"python", _event(1, 2000 * n, 1000, block(4, number(1, n), number(4, n))))
            + _named(5, n, b"s%d" % n)
        )
    ),
    "correlations": _kernels(
        lambda n: _event(1, 2000 * n, 1000, block(4, number(1, 1), number(4, n)))
    ),
    "texts": _events(
        lambda n: _event(1, 2000 * n, 1000, block(4, number(1, 1), block(5, b"text %d" % n)))
    ),
    "steps": lambda size: _plane(
        b"/host:CPU",
        _line(
            1,
            b"python",
            filled(
                size, lambda n: _event(2, 10**6 * n, 10**6, block(4, number(1, 2), number(4, n)))
            ),
        ),
        _named(4, 2, b"train"),
        _named(5, 2, b"step_num"),
    ),
    "huge times": _events(lambda n: _event(1, (n % 97) << 55, 1 << 60)),
    "negative times": _events(lambda n: _event(1, -(n << 40), n)),
    "lines of one thread": _parts(lambda n: _line(1, b"python", _event(1, 9 * n, 9))),
    "deep messages": lambda size: _plane(
        b"/host:CPU", _line(1, b"t", _event(1, 1, 1)), _deep(size), _KERNEL
    ),
    "aggregates": _events(lambda n: block(4, number(1, 1), number(5, 10**6 + n), number(3, 5))),
}


def _deep(size: int) -> bytes:
    inner = b""
    while len(inner) < min(size, 10_000):
        inner = block(6, inner)
    return filled(size, lambda _: inner)


# --- RunMetadata ---


def _node(name: bytes, label: bytes, at: int, dur: int, thread: int = 0, *more: bytes) -> bytes:
    times = number(2, EPOCH_US + at) + number(4, dur) + number(5, dur)
    return block(2, block(1, name), times, block(7 + 1, label), number(10, thread), *more)


def _device(name: bytes, *nodes: bytes) -> bytes:
    return block(1, block(1, name), *nodes)


CPU = b"/job:localhost/replica:0/task:0/device:CPU:0"
"""The device of most nodes."""
_GPU = b"/job:localhost/replica:0/task:0/device:GPU:0"


def _stats(message: Message, device: bytes = CPU) -> Build:
    return lambda size: block(1, _device(device, filled(size, message)))


def _devices(message: Message) -> Build:
    return lambda size: block(1, filled(size, message))


def _graph_node(n: int, *inputs: bytes, device: bytes = CPU, more: bytes = b"") -> bytes:
    named = block(1, b"node%d" % n) + block(2, b"Identity")
    return block(1, named, *(block(3, i) for i in inputs), block(4, device), more)


def _graph(message: Message) -> Build:
    stats = block(1, _device(CPU, _node(b"node1", b"node1 = Identity(x)", 0, 5)))
    return lambda size: stats + block(3, filled(size, message))


RUN_METADATA: dict[str, Build] = {
    "devices": _devices(
        lambda n: _device(
            b"/job:worker/replica:0/task:%d/device:GPU:0" % n, _node(b"x", b"x = MatMul(a)", n, 9)
        )
    ),
    "tasks with CPUs": _devices(
        lambda n: _device(
            b"/job:worker/replica:0/task:%d/device:CPU:0" % n, _node(b"x", b"x = MatMul(a)", n, 9)
        )
    ),
    "streams": _devices(
        lambda n: _device(b"/device:GPU:0/stream:%d" % n, _node(b"x", b"x = MatMul(a)", 2 * n, 1))
    ),
    "nodes": _stats(lambda n: _node(b"scope/n%d" % n, b"scope/n%d = Add(a, b)" % n, 2 * n, 1)),
    "ops": _stats(lambda n: _node(b"n%d" % n, b"n%d = Op%d(a, b)" % (n, n), 2 * n, 1)),
    "deep scopes": _stats(
        lambda n: _node(b"a/" * 5000 + b"%d" % n, b"a/" * 5000 + b"%d = Add(b)" % n, 2 * n, 1)
    ),
    "long labels": _stats(lambda n: _node(b"x", b"x = Add(" + b"a, " * 30000 + b"b)", 2 * n, 1)),
    "overlapping": _stats(lambda n: _node(b"x", b"x = Add(a)", n, 10**7, n)),
    "overlapping on one thread": _stats(lambda n: _node(b"x", b"x = Add(a)", n, 10**7)),
    "threads": _stats(lambda n: _node(b"x", b"x = Add(a)", 2 * n, 1, n)),
    "tiny": _devices(lambda _: block(1)),
    "tiny nodes": _stats(lambda _: block(2)),
    "huge times": _stats(lambda n: _node(b"x", b"x = Add(a)", (n % 91) << 56, 1 << 60)),
    "outputs": _stats(
        lambda n: _node(
            b"x", b"x = Add(a)", 2 * n, 1, 0, *(block(7, number(1, i)) for i in range(500))
        )
    ),
    "allocators": _stats(
        lambda n: _node(
            b"x",
            b"x = Add(a)",
            2 * n,
            1,
            0,
            block(
                6,
                block(1, b"pool%d" % n),
                number(2, 9),
                block(6, number(1, EPOCH_US + n), number(2, 9)),
                block(6, number(1, EPOCH_US + n + 1), number(2, -9)),
            ),
        )
    ),
    "allocations": _stats(
        lambda n: _node(
            b"x",
            b"x = Add(a)",
            2 * n,
            1,
            0,
            block(
                6,
                block(1, b"cpu"),
                number(2, 9),
                *(block(6, number(1, EPOCH_US + n), number(2, 9)) for _ in range(2000)),
            ),
        )
    ),
    "graph chain": _graph(lambda n: _graph_node(n, b"node%d" % (n - 1))),
    "graph star": _graph(lambda n: _graph_node(n, b"node0")),
    "graph inputs": _graph(lambda n: _graph_node(n, *(b"node%d" % i for i in range(2000)))),
    "graph devices": _graph(
        lambda n: _graph_node(n, device=b"/job:w/replica:0/task:%d/device:GPU:0" % n)
    ),
    "graphs": lambda size: (
        block(1, _device(CPU, _node(b"node1", b"node1 = Identity(x)", 0, 5)))
        + filled(size, lambda n: block(3, _graph_node(n)))
    ),
    "graph attributes": _graph(
        lambda n: _graph_node(
            n,
            more=b"".join(
                block(5, block(1, b"k%d" % i), block(2, block(2, b"v"))) for i in range(999)
            ),
        )
    ),
    "sends": _graph(
        lambda n: block(
            1,
            block(1, b"s%d" % n),
            block(2, b"_Send" if n % 2 else b"_Recv"),
            block(4, CPU),
            *(
                block(5, block(1, k), block(2, block(2, v)))
                for k, v in (
                    (b"tensor_name", b"edge_%d" % (n // 2)),
                    (b"send_device", CPU),
                    (b"recv_device", _GPU),
                )
            ),
        )
    ),
}
