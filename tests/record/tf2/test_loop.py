"""Which TensorFlow 2 loops are profiled."""

import json

import pytest

from stepwhy.record.tf2.loop import is_one_of_several_workers


def config(workers, kind="worker"):
    cluster = {"worker": [f"host:{port}" for port in range(workers)]}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}})}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        (config(1), False),
        (config(2), True),
        ({"RANK": "0", "WORLD_SIZE": "2"}, False),
        ({"TF_CONFIG": "{"}, False),
    ],
    ids=["none", "one", "two", "other launcher", "damaged"],
)
def test_workers_that_run_collectives_together_are_not_profiled(environ, expected):
    assert is_one_of_several_workers(environ) is expected
