"""Lines of generator functions, by compiling the file."""

from __future__ import annotations

import pytest

from stepwhy.record.sampling.stack_lines import generator_lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def a():\n    x = 1\n    yield x\n", {1, 2, 3}),
        ("class A:\n    def __iter__(self):\n        yield from b()\n", {2, 3}),
        ("def a():\n    def b():\n        yield 1\n    return b\n", {2, 3}),
        ("def a():\n    return sum(\n        x\n        for x in y)\n", set()),
        ("print('\\d')\n", set()),
        ("def a(:\n", set()),
        ("\0", set()),
    ],
)
def test_lines(text, expected, tmp_path):
    path = tmp_path / "data.py"
    path.write_text(text)
    assert generator_lines(str(path)) == expected


def test_no_file(tmp_path):
    assert generator_lines(str(tmp_path / "none.py")) == frozenset()
    assert generator_lines(str(tmp_path)) == frozenset()
