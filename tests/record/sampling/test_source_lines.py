"""What the source of a file says of its lines: generators, loops and calls."""

from __future__ import annotations

import pytest

from stepwhy.record.sampling.source_lines import source_lines


def written(tmp_path, text):
    path = tmp_path / "data.py"
    path.write_text(text)
    return source_lines(str(path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def a():\n    x = 1\n    yield x\n", {1, 2, 3}),
        ("class A:\n    def __iter__(self):\n        yield from b()\n", {2, 3}),
        ("def a():\n    def b():\n        yield 1\n    return b\n", {2, 3}),
        ("def a():\n    def b():\n        return 1\n    yield b\n", {1, 4}),
        ("def a():\n    return sum(\n        x\n        for x in y)\n", set()),
        ("print('\\d')\n", set()),
        ("def a(:\n", set()),
        ("\0", set()),
    ],
)
def test_lines_of_generators(text, expected, tmp_path):
    lines = written(tmp_path, text)
    assert {number for number, line in lines.items() if line.in_generator} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "def a(rows):\n    n = 0\n    for r in rows:\n        n += r\n    return n\n",
            {3: "loop", 4: "loop"},
        ),
        ("def a(rows):\n    return [f(r) for r in rows]\n", {2: "comprehension"}),
        # A loop of a generator hands over one batch after another; a loop in it fills one.
        (
            "def a():\n while True:\n  x = new()\n  for i in b:\n   x[i] = i\n  yield x\n",
            {4: "loop", 5: "loop"},
        ),
        # The training, and functions that are defined in a loop.
        ("for step in range(9):\n    train()\n", {}),
        ("def a():\n    for i in b:\n        def c():\n            d()\n", {2: "loop"}),
    ],
)
def test_lines_in_loops(text, expected, tmp_path):
    lines = written(tmp_path, text)
    assert {number: line.loop for number, line in lines.items() if line.loop} == expected


def test_names_of_called_functions(tmp_path):
    text = "ids = [words.index(w) for w in read(path)]\nx = f()()\ny = a(b(c(d(e(f(1))))))\n"
    lines = written(tmp_path, text)
    assert {number: line.names for number, line in lines.items()} == {
        1: ("index", "read"),
        2: ("f",),
        3: ("a", "b", "c", "d"),
    }


def test_no_file(tmp_path):
    assert source_lines(str(tmp_path / "none.py")) == {}
    assert source_lines(str(tmp_path)) == {}
