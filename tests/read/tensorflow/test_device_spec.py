"""Device names: parsing, merging, contradiction and the canonical form."""

import pytest

from stepwhy.read.shared.tensorflow.device_spec import (
    DeviceSpec,
    canonical,
    canonical_name,
    conflicts,
    merge,
    parse_device,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", ""),
        ("/gpu:0", "GPU:0"),
        ("/device:GPU:1", "GPU:1"),
        ("/device:GPU:*", "GPU"),
        ("/job:worker", "/job:worker"),
        ("/job:worker/task:1/cpu:0", "/job:worker/task:1 CPU:0"),
        ("/job:worker/replica:0/task:1/device:CPU:0", "/job:worker/task:1 CPU:0"),
        ("/job:worker/replica:2/task:1/device:CPU:0", "/job:worker/replica:2/task:1 CPU:0"),
        ("/job:localhost/replica:0/task:0/device:XLA_GPU:0", "XLA_GPU:0"),
        ("/job:localhost/replica:0/task:3/device:CPU:0", "/job:localhost/task:3 CPU:0"),
    ],
)
def test_one_spelling_for_every_name(text, name):
    assert canonical_name(text) == name


@pytest.mark.parametrize("text", ["gpu:0", "/", "/host:CPU", "/gpu:0/stream:all", "/job:", "a b"])
def test_other_text_is_no_device(text):
    assert parse_device(text) is None
    assert canonical_name(text) == text


def test_an_inner_scope_wins_field_by_field():
    outer = DeviceSpec(job="worker", task="1", type="GPU", index="0")
    assert canonical(merge(outer, DeviceSpec(task="2"))) == "/job:worker/task:2 GPU:0"
    assert canonical(merge(outer, DeviceSpec(type="CPU", index="3"))) == "/job:worker/task:1 CPU:3"
    assert canonical(merge(outer, DeviceSpec(type="CPU"))) == "/job:worker/task:1 CPU"
    assert merge(outer, DeviceSpec()) == outer


@pytest.mark.parametrize(
    ("outer", "inner", "contradict"),
    [
        ("/gpu:0", "/cpu:0", True),
        ("/gpu:0", "/gpu:1", True),
        ("/gpu:0", "/device:GPU:0", False),
        ("/job:worker/task:1", "/cpu:0", False),
        ("/job:worker/task:1", "/job:ps/task:0", True),
        ("/job:worker/task:1", "", False),
    ],
)
def test_only_what_both_name_can_contradict(outer, inner, contradict):
    assert conflicts(parse_device(outer), parse_device(inner)) is contradict
