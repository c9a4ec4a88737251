"""Names of rows in step statistics."""

import pytest

from stepwhy.read.shared.tensorflow.rows import Row, RowKind, parse_row
from stepwhy.trace import NULL, Copy, DeviceKind

GPU = DeviceKind.GPU


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("/gpu:0/stream:12", Row(RowKind.STREAM, "GPU:0", GPU, 12)),
        ("/device:GPU:1/stream:20", Row(RowKind.STREAM, "GPU:1", GPU, 20)),
        (
            "/device:GPU:0/stream:20<MemcpyD2H>",
            Row(RowKind.STREAM, "GPU:0", GPU, 20, Copy.D2H),
        ),
        ("/device:GPU:0/stream:", Row(RowKind.STREAM, "GPU:0", GPU, NULL)),
        ("/gpu:0/stream:all", Row(RowKind.ALL_STREAMS, "GPU:0", GPU)),
        ("/gpu:0/memcpy", Row(RowKind.COPIES, "GPU:0", GPU)),
        ("/device:GPU:0/sync", Row(RowKind.SYNC, "GPU:0", GPU)),
        ("/job:w/task:2/device:TPU:3", Row(RowKind.OPS, "/job:w/task:2 TPU:3", DeviceKind.TPU)),
        ("/device:NPU:0", Row(RowKind.OPS, "NPU:0", DeviceKind.OTHER)),
    ],
)
def test_rows(name, row):
    assert parse_row(name) == row


@pytest.mark.parametrize("name", ["", "Allocators", "/host:CPU", "/job:worker", "/cpu", "python 3"])
def test_other_names_are_no_rows(name):
    assert parse_row(name) is None
