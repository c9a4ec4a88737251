"""The generators of the program that `tf.data` reads."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.tf2.generators import yielding_line

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = "test_generators.py"


def rows(count: int = 3) -> Iterator[int]:
    total = count
    for number in range(total):
        yield number + 1


class Rows:
    def __call__(self) -> Iterator[int]:
        yield from rows()


def made() -> Any:
    return rows(2)


@pytest.mark.parametrize(
    ("generator", "after", "name"),
    [
        (rows, 3, "rows"),
        (functools.partial(rows, 2), 3, "rows"),
        (Rows(), 1, "__call__"),
        (made, 0, "made"),  # it returns one
    ],
)
def test_the_line_that_yields(generator: Any, after: int, name: str) -> None:
    line = yielding_line(generator)
    first = {"rows": rows, "__call__": Rows.__call__, "made": made}[name].__code__.co_firstlineno
    assert line.endswith(f"{HERE}({first + after}): {name}")


def test_a_generator_of_a_library_has_no_line() -> None:
    assert not yielding_line(iter)
    assert not yielding_line(functools.reduce)
