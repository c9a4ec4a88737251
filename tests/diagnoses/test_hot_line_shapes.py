"""Which shapes of arguments show that a line compares all pairs."""

import pytest

from stepwhy.diagnoses import hot_line


@pytest.mark.parametrize(
    ("shapes", "is_of_pairs"),
    [
        ("64x1x3, 1x64x3", True),
        ("64x3, 64x3", False),
        ("128+512+10", False),  # a list of tensors
        ("8x3+2, 1x64x3", False),
        ("64x1x3, 1x64x3, 8x3+2", True),
        ("", False),
    ],
)
def test_two_arguments_that_are_each_repeated_for_the_other(shapes, is_of_pairs):
    assert hot_line._is_of_pairs(shapes) == is_of_pairs
