import importlib
import pkgutil
import re
from contextlib import suppress

import stepwhy
from stepwhy.base.errors import MissingPackageError
from stepwhy.base.patterns import _Regex, regex


def test_it_is_compiled_with_its_first_use(monkeypatch):
    compiled = []
    compile_now = re.compile
    monkeypatch.setattr(re, "compile", lambda *a: compiled.append(a) or compile_now(*a))
    word = regex(r"\w+", re.ASCII)
    assert word.pattern == r"\w+"
    assert compiled == []
    assert word.findall("a bé") == ["a", "b"]
    assert word.fullmatch("a b") is None
    assert word.flags == re.ASCII
    assert compiled == [(r"\w+", re.ASCII)]


def test_expressions_of_bytes_match_bytes():
    assert regex(rb"\d+").search(b"step 12")[0] == b"12"


def expressions(value):
    """Expressions in what a module holds, in its tables as well."""
    if isinstance(value, _Regex):
        yield value
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from expressions(item)
    elif isinstance(value, dict):
        yield from expressions([*value, *value.values()])


def modules():
    """All modules but those that run inside of a training, and the kernels."""
    for info in pkgutil.walk_packages(stepwhy.__path__, "stepwhy."):
        if not re.search(r"\.(capture|kernels|__main__)\b", info.name):
            with suppress(MissingPackageError):  # a callback needs the library of its framework
                yield importlib.import_module(info.name)


def test_every_expression_can_be_compiled():
    found = {
        (module.__name__, one._compiled)
        for module in modules()
        for one in expressions(list(vars(module).values()))
    }
    assert len(found) > 50  # the search can see
