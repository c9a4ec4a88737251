"""The size of the house: how many rooms, files and lines it has, and how much one has to travel.

These are budgets, not goals: a change that needs more room raises a number here, and says why.
"""

import ast
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "stepwhy"
# One worker reads the code for all tests.
pytestmark = pytest.mark.xdist_group("sources")

MOST = {
    "rooms": 16,
    "files": 1146,
    "lines": 159_400,
    "functions with one caller, ‰": 336,
    "lines of a function": 60,
    "lines of a file": 400,
}


class Read:
    """The functions of a module, methods and inner ones among them, and how often it names what."""

    def __init__(self, tree):
        self.functions, self.names = [], Counter()
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.functions.append(node)
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    self.names[name] += 1

    def used_once(self):
        """Private functions that one place of the module names."""
        private = (f for f in self.functions if f.name.startswith("_") and f.name[1:2] != "_")
        return [f for f in private if self.names[f.name] == 1]


def length(node):
    """Lines of a function without its docstring, as far as it has one."""
    first = node.body[0]
    is_text = ast.get_docstring(node, clean=False) is not None
    return node.end_lineno - node.lineno + 1 - is_text * (first.end_lineno - first.lineno + 1)


def measured():
    """What the package has of everything in `MOST`."""
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    lengths, single = [], 0
    for text in texts.values():  # no syntax tree is kept: the collector would look through all
        module = Read(ast.parse(text))
        lengths += map(length, module.functions)
        single += len(module.used_once())
    lines = [text.count("\n") for text in texts.values()]
    return {
        "rooms": sum(path.is_dir() and path.name != "__pycache__" for path in PACKAGE.iterdir()),
        "files": len(texts),
        "lines": sum(lines),
        "functions with one caller, ‰": round(1000 * single / len(lengths)),
        "lines of a function": max(lengths),
        "lines of a file": max(lines),
    }


def test_the_house_keeps_its_size():
    found = measured()
    assert {what: n for what, n in found.items() if n > MOST[what]} == {}


def test_a_function_that_is_used_once_is_seen():
    tree = ast.parse("def _a():\n    pass\n\n\ndef _b():\n    _a()\n    _b()\n\n\n_b()\n")
    assert [f.name for f in Read(tree).used_once()] == ["_a"]


if __name__ == "__main__":
    for what, number in measured().items():
        print(f"{number:8} {what}")
