"""Functions of data sets that return the same for an element in each epoch."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from stepwhy.record.torch.item_functions import changing_lines, stable_functions

HERE = "test_item_functions.py"


def distances(ids):
    return [np.abs(ids - k) for k in ids]


def shifted(ids):
    return ids + random.randrange(3)  # noqa: S311


def both(ids):
    return distances(shifted(ids))


class _Images:
    def __init__(self, transform=None):
        self.transform = transform
        self.ids = np.arange(3)

    def load(self, i):
        return distances(self.ids + i)


class Plain(_Images):
    def __getitem__(self, i):
        return self.load(i)


class Measured(_Images):
    def __getitem__(self, i):
        return sys.getsizeof(i), self.load(i)


class AugmentedLast(_Images):
    def __getitem__(self, i):
        found = distances(self.ids + i)
        return shifted(found)


class AugmentedFirst(_Images):
    def __getitem__(self, i):
        ids = shifted(self.ids)
        return distances(ids)


class Within(_Images):
    def __getitem__(self, i):
        return both(self.ids)


class Transformed(_Images):
    def __getitem__(self, i):
        return self.transform(distances(self.ids))


class RandomCrop:
    def __call__(self, values):
        return values


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, values):
        return [transform(values) for transform in self.transforms]


def names(dataset):
    return {one.rpartition(": ")[2] for one in stable_functions(dataset)}


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Plain(), {"__getitem__", "load", "distances"}),
        (Measured(), {"__getitem__", "load", "distances"}),
        (AugmentedFirst(), set()),
        (AugmentedLast(), {"distances"}),
        (Within(), set()),
        (Transformed(RandomCrop()), set()),
        (Transformed(Compose(RandomCrop())), set()),
        (object(), set()),
    ],
)
def test_what_comes_after_random_numbers_is_not_stable(dataset, expected):
    assert names(dataset) == expected


def test_the_data_set_within_a_subset_is_looked_at():
    torch = pytest.importorskip("torch")
    subset = torch.utils.data.Subset(Plain(), [0, 1])
    assert names(subset) == {"__getitem__", "load", "distances"}


def test_the_file_is_part_of_the_name():
    found = stable_functions(AugmentedLast())
    assert [one.endswith(f"{HERE}: distances") for one in found] == [True]


@pytest.mark.parametrize(
    ("dataset", "expected"), [(AugmentedLast(), 1), (AugmentedFirst(), 0), (Plain(), None)]
)
def test_the_line_from_which_on_a_function_changes(dataset, expected):
    found = changing_lines(dataset)
    if expected is None:
        assert found == []
        return
    ((number, function),) = [one.rpartition("(")[2].split("): ") for one in found]
    first = type(dataset).__getitem__.__code__.co_firstlineno
    assert (int(number) - first - 1, function) == (expected, "__getitem__")
