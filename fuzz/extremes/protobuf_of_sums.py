"""Extreme tfprof profiles and TensorBoard event files."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

from fuzz.extremes.protobuf_files import CPU, EPOCH_US, block, filled, number, varint, whole
from fuzz.mutate.records import frame

if TYPE_CHECKING:
    from fuzz.extremes.protobuf_files import Build, Message

# --- tfprof ---


def _tfprof_node(
    n: int, *more: bytes, steps: range = range(1), device: bytes = CPU, runs: int = 1
) -> bytes:
    execs = b"".join(
        block(
            12,
            number(1, step),
            block(
                2,
                block(
                    5,
                    block(1, device),
                    block(
                        2,
                        *(
                            block(1, block(1, varint(EPOCH_US + 10 * (n + i)), varint(5)))
                            for i in range(runs)
                        ),
                    ),
                ),
            ),
        )
        for step in steps
    )
    named = block(1, b"scope/n%d" % n) + block(9, b"MatMul") + block(6, device) + number(13, n)
    return block(1, number(1, n), block(2, named, execs, *more))


TFPROF: dict[str, Build] = {
    "nodes": whole(_tfprof_node),
    "steps": whole(lambda n: _tfprof_node(n, steps=range(n, n + 1))),
    "steps of one node": lambda size: _tfprof_node(1, steps=range(size // 80)),
    "runs": lambda size: _tfprof_node(1, runs=size // 14),
    "devices": whole(
        lambda n: _tfprof_node(n, device=b"/job:w/replica:0/task:%d/device:GPU:0" % n)
    ),
    "inputs": whole(
        lambda n: _tfprof_node(n, *(block(2, number(1, i), number(2, i)) for i in range(2000)))
    ),
    "input chain": whole(lambda n: _tfprof_node(n, block(2, number(1, 0), number(2, n - 1)))),
    "frames": whole(
        lambda n: _tfprof_node(
            n, block(10, *(block(1, number(6, i), number(2, n), number(7, i)) for i in range(500)))
        )
    ),
    "texts": lambda size: (
        _tfprof_node(1) + filled(size, lambda n: block(4, number(1, n), block(2, b"f%d.py" % n)))
    ),
    "memory": whole(
        lambda n: (
            block(
                1,
                number(1, n),
                block(
                    2,
                    block(1, b"n%d" % n),
                    block(
                        12,
                        block(
                            2,
                            *(block(11, number(1, EPOCH_US + i), number(2, 9)) for i in range(999)),
                        ),
                    ),
                ),
            )
            + _tfprof_node(10**6 + n)
        )
    ),
}

# --- TensorBoard ---


def _summary(n: int, *values: bytes) -> bytes:
    return frame(b"\x09" + pack("<d", 1.5e9 + n) + number(2, n) + block(5, *values))


def _scalar(tag: bytes, value: float) -> bytes:
    return block(1, block(1, tag), b"\x15" + pack("<f", value))


def _events_of(message: Message) -> Build:
    version = frame(b"\x09" + pack("<d", 1.5e9) + block(3, b"brain.Event:2"))
    level = _summary(1, _scalar(b"q/fraction_of_32_full", 0.5))
    return lambda size: version + level + filled(size, message)


TENSORBOARD: dict[str, Build] = {
    "levels": _events_of(lambda n: _summary(n, _scalar(b"q/fraction_of_32_full", 0.5))),
    "queues": _events_of(lambda n: _summary(n, _scalar(b"q%d/fraction_of_32_full" % n, 0.5))),
    "queues with levels": _events_of(
        lambda n: _summary(n, _scalar(b"q%d/fraction_of_32_full" % (n % 997), n % 2))
    ),
    "steps": _events_of(lambda n: _summary(n, _scalar(b"global_step/sec", 2.5))),
    "values": _events_of(lambda n: _summary(n, *(_scalar(b"t%d" % i, 1.0) for i in range(5000)))),
    "tags": _events_of(lambda n: _summary(n, _scalar(b"tag %d" % n, 1.0))),
    "empty records": _events_of(lambda _: frame(b"")),
    "long tags": _events_of(
        lambda n: _summary(n, _scalar(b"/fraction_of_" * 20000 + b"%d_full" % n, 1.0))
    ),
}
