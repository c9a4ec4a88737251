"""Files of advice are complete, and nothing in them is left unread or unused."""

from __future__ import annotations

import ast
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import get_args
from zipfile import ZipFile

import pytest
from tests.advice import CODE, FILES, FIXES, module_of

from stepwhy.diagnose.shared.advice import SECTION, advice, advice_text, fixes_of
from stepwhy.result import Fix
from stepwhy.result.result import Risk

WIDEST = 73  # columns: a terminal of 80 less the indentation of the report
SEVERAL = """\
## one

Do it.

Risk: none

## two

Call {name}
again.

```sh
make
```

Risk: unknown
"""
# Names of types, which the rule gets from elsewhere.
ELSEWHERE = {"full_precision_matmul": {"bfloat16-inference", "float16-inference"}}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_sections_and_nothing_else(path):
    text = advice_text(module_of(path))
    assert re.sub(r"\n+", "", SECTION.sub("", text)) == ""
    assert text.count("\n## ") + 1 == len(fixes_of(module_of(path)))


def test_risks_are_known():
    assert {fix.risk for fix in FIXES.values()} <= set(get_args(Risk))


def test_code_fits_the_terminal():
    # A line that is wrapped is no code when it is copied.
    assert [key for key, code in CODE.items() if max(map(len, code.splitlines())) > WIDEST] == []


def asked(argument):
    """The names that an argument may be, as far as it writes them."""
    if isinstance(argument, ast.IfExp):
        return asked(argument.body) | asked(argument.orelse)
    return {argument.value} if isinstance(argument, ast.Constant) else set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_sections_are_asked_for_and_exist(path):
    tree = ast.parse(path.with_suffix(".py").read_text(encoding="utf-8"))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    calls = [call for call in calls if ast.unparse(call.func) in {"RULE.fix", "advice"}]
    arguments = [call.args[-1] if call.args else ast.Constant("fix") for call in calls]
    names, here = set().union(*map(asked, arguments)), set(fixes_of(module_of(path)))
    written = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    assert names <= here
    assert here - names - written == ELSEWHERE.get(path.stem, set())


def test_values_go_into_the_text(monkeypatch):
    monkeypatch.setattr("stepwhy.diagnose.shared.advice.advice_text", lambda _: SEVERAL)
    assert advice("of.values", "one") == Fix("Do it.", "", "none")
    assert advice("of.values", "two", name="f") == Fix("Call f again.", "make", "unknown")
    with pytest.raises(KeyError):
        advice("of.values", "three")


def test_a_file_in_an_archive_is_read(tmp_path, monkeypatch):
    archive = tmp_path / "rules.zip"
    with ZipFile(archive, "w") as file:
        file.writestr("zipped_rules/__init__.py", "")
        file.writestr("zipped_rules/rule.py", "")
        file.writestr("zipped_rules/rule.md", SEVERAL)
    monkeypatch.setattr(sys, "path", [str(archive), *sys.path])
    assert find_spec("zipped_rules.rule").origin.startswith(str(archive))
    assert list(fixes_of("zipped_rules.rule")) == ["one", "two"]


def test_a_package_whose_advice_is_read_belongs_to_the_one_that_contains_it(tmp_path, monkeypatch):
    (tmp_path / "outer_rules" / "family").mkdir(parents=True)
    for folder in ("outer_rules", "outer_rules/family"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "outer_rules" / "family" / "rule.md").write_text(SEVERAL)
    monkeypatch.syspath_prepend(tmp_path)
    assert list(fixes_of("outer_rules.family.rule")) == ["one", "two"]
    assert import_module("outer_rules").family.__name__ == "outer_rules.family"
