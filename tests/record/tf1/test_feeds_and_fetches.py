"""Descriptions of fed and fetched values: types and sizes, never values."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from stepwhy.record.tf1.feeds_and_fetches import describe, fingerprint

SECRET = 31337


def placeholder(name="x:0", dtype="float32", size=4):
    base = SimpleNamespace(name=dtype, size=size)
    kind = type("Placeholder", (), {"name": name, "dtype": SimpleNamespace(base_dtype=base)})
    return kind()


def fed(value, key=None):
    return describe([], {key or placeholder(): value}, [])["feeds"][0]


@pytest.mark.parametrize(
    ("value", "given", "shape", "size"),
    [
        (np.zeros([2, 3]), "float64", [2, 3], 24),
        (np.zeros([2, 3], np.float32), "float32", [2, 3], 24),
        ([[SECRET, 2, 3], [4, 5, 6]], "list of int", [2, 3], 24),
        ([np.zeros(3, np.float32)] * 2, "list of float32 array", [2, 3], 24),
        ((np.float64(SECRET), np.float64(1)), "tuple of float64", [2], 8),
        (float(SECRET), "float", [], 4),
        ([], "list", None, None),
    ],
)
def test_fed_value_has_the_size_in_the_type_of_the_placeholder(value, given, shape, size):
    described = fed(value)
    assert described.get("shape") == shape
    assert described.get("bytes") == size
    assert {k: described[k] for k in ("name", "given", "wanted")} == {
        "name": "x:0",
        "given": given,
        "wanted": "float32",
    }


def test_values_are_not_described():
    feeds = {placeholder(): [[SECRET]], placeholder("y:0"): SECRET, "z:0": f"{SECRET}"}
    assert str(SECRET) not in json.dumps(describe(["w:0"], feeds, [SECRET]))


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [
        (np.zeros([2, 3]), np.zeros([2, 3]), True),
        (np.zeros([2, 3]), np.zeros([3, 2]), False),
        (np.zeros(3), np.zeros(3, np.float32), False),
        ([[SECRET, 2]], [[SECRET, 2]], True),
        ([[SECRET, 2]], [[SECRET, 3]], False),
        (0.5, 0.5, True),
        (0.5, 1.0, False),
        ([], [], True),
        (np.arange(10**6), np.arange(10**6), True),
        (np.arange(10**6), np.arange(10**6) + 1, False),
        (np.zeros([4, 6])[:, ::2], np.zeros([4, 3]), True),
    ],
)
def test_equal_values_have_the_same_fingerprint(one, other, is_equal):
    assert (fingerprint(one) == fingerprint(other)) is is_equal
    assert 0 <= fingerprint(one) < 1 << 62


@pytest.mark.parametrize("value", [[np.zeros(2), np.zeros(3)], np.array([None]), object()])
def test_value_that_cannot_be_compared_has_no_fingerprint(value):
    assert fingerprint(value) is None
    assert "fingerprint" not in fed(value)


def test_strings_have_no_size():
    class Strings:
        name = "string"

        @property
        def size(self):
            raise TypeError

    key = SimpleNamespace(name="s:0", dtype=SimpleNamespace(base_dtype=Strings()))
    hashable = type("Key", (), vars(key))()
    assert "bytes" not in fed(["a", "bc"], hashable)


def test_a_feed_by_name_has_the_size_of_its_array():
    described = fed(np.zeros(4, np.int16), "x:0")
    assert (described["name"], described["bytes"]) == ("x:0", 8)
    assert "wanted" not in described


def test_value_that_is_not_an_array_has_no_shape():
    class SparseTensorValue(NamedTuple):
        indices: Any
        values: Any
        dense_shape: Any

    described = fed(SparseTensorValue(np.zeros([5, 2]), np.zeros(5), np.zeros(2)))
    assert described["given"] == "SparseTensorValue"
    assert "shape" not in described


def test_fetches_are_described_largest_first_without_operations():
    fetches = {"train": placeholder("train"), "values": [placeholder("a:0"), placeholder("b:0")]}
    result = {"train": None, "values": [np.float32(1), np.zeros([8, 8], np.float32)]}
    described = describe(fetches, None, result)
    assert described["feeds"] == []
    assert [(f["name"], f["bytes"]) for f in described["fetches"]] == [("b:0", 256), ("a:0", 4)]


def test_single_fetch_is_described():
    described = describe("loss:0", None, np.zeros(2))["fetches"]
    assert described == [{"name": "loss:0", "given": "float64", "shape": [2], "bytes": 16}]


def test_many_fetches_are_bounded():
    names = [f"v{i}:0" for i in range(500)]
    described = describe(names, None, [np.zeros(i) for i in range(500)])["fetches"]
    assert [f["name"] for f in described[:2]] == ["v499:0", "v498:0"]
    assert len(described) == 64
