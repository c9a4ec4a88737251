"""A dimension of the batches whose size differs from step to step."""

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.input.varying_sizes import VaryingSize, varying_size
from stepwhy.trace.notation import parse


def found(first, second, names=("aten::zeros", "aten::embedding") * 2):
    """What is found in two steps of two operations; shapes of both in each step."""
    kinds = "  ".join(f"{letter}={name}" for letter, name in zip("abcd", names, strict=True))
    rows = zip("abcd", (*first, *second), strict=True)
    operands = "\n".join(f"{letter} | float32, | {shapes}" for letter, shapes in rows)
    text = f"""
unit: 1 ms
framework: pytorch
main       step      |[--------][--------]|
main       op        | aa bb     cc dd    |  {kinds}

operands: slice | types | shapes
{operands}
"""
    return varying_size(Facts(parse(text)))


def test_the_only_dimension_that_differs_is_named_with_its_sizes():
    assert found(("4,", "1000x96,8x24,"), ("4,", "1000x96,8x192,")) == VaryingSize(
        "aten::embedding", 1, (24, 192)
    )


def test_the_first_operation_counts():
    assert found(("8,", "8x24,"), ("6,", "6x24,")) == VaryingSize("aten::zeros", 0, (8, 6))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("4,", "8x24,"), ("4,", "8x24,")),  # equal
        (("4,", "8x24,"), ("4,", "6x192,")),  # in two dimensions
        (("4,", "8x24,"), ("4,", "8x24x1,")),  # in their number
        (("4,", "8x24,"), ("4,", ",")),  # a scalar
        (("4,", "8x24+3,"), ("4,", "8x24+5,")),  # a list
        (("4,", "8x24,"), ("4,", "8x192,,")),  # in the number of arguments
    ],
)
def test_other_differences_are_left_out(first, second):
    assert found(first, second) is None


def test_steps_that_do_different_things_are_not_compared():
    names = ("aten::zeros", "aten::embedding", "aten::ones", "aten::embedding")
    assert found(("4,", "8x24,"), ("4,", "8x192,"), names) is None


def test_without_shapes_nothing_is_known():
    text = "unit: 1 ms\nframework: pytorch\nmain step |[--------][--------]|\n"
    assert varying_size(Facts(parse(text))) is None
