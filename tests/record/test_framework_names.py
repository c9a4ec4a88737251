"""The declared names of frameworks: all that observers use, and what a run says without them."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.versions import __main__ as versions
from tests.versions.__main__ import FRAMEWORKS
from tests.versions.names import look_up

from stepwhy.record import attach
from stepwhy.record.framework_names import NAMES, lost_with

if TYPE_CHECKING:
    import pytest

CAPTURE = Path(attach.__file__).parent
# What never touches a framework, and the declarations themselves.
OTHERS = ("bootstrap", "core/process", "framework_names", "launcher", "sampling")
# TensorFlow's names are looked up for observers alone, not for lines of graphs and for trials.
UNLISTED = {"watchers/graph_lines.py", "trials/functions.py", "trials/tf_data.py"}
PATHS = {str(path.relative_to(CAPTURE)): path for path in CAPTURE.rglob("*.py")}
USERS = [
    path for name, path in PATHS.items() if not name.startswith(OTHERS) and name not in UNLISTED
]
# Of Python itself, of files of TensorFlow, or what older versions have: see their use.
NOT_OF_A_FRAMEWORK = {
    "_exit", "_getframe", "_current_frames", "_fun", "_ref", "_value", "_committed",
    "_typeshed", "_asdict", "_replace",
}  # fmt: skip
DECLARED = " ".join(f"{n.module} {n.name} {n.expression}" for g in NAMES.values() for n in g)
READERS = {"getattr", "hasattr", "setattr"}


def private_names(path: Path) -> set[str]:
    """Private attributes of other objects than the module's own, and private names it imports."""
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    own = {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    found = {
        n.attr
        for n in nodes
        if isinstance(n, ast.Attribute)
        and not (isinstance(n.value, ast.Name) and n.value.id in {"self", "cls"})
    }
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not f"{node.module}.".startswith("stepwhy."):
            found |= {*f"{node.module}".split("."), *(each.name for each in node.names)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            read = node.args[1:2] if node.func.id in READERS else []
            found |= {each.value for each in read if isinstance(each, ast.Constant)}
    return {n for n in found if re.match(r"_[a-zA-Z]", n) and not n.startswith("_stepwhy")} - own


def test_every_private_name_that_is_used_is_declared() -> None:
    words = set(re.findall(r"\w+", DECLARED)) | NOT_OF_A_FRAMEWORK
    used = {str(path.relative_to(CAPTURE)): private_names(path) - words for path in USERS}
    assert {path: names for path, names in used.items() if names} == {}


def test_private_names_are_found_in_whatever_way_they_are_used(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "from torch._C import _a\nfrom stepwhy.x import _own\n"
        "def _f(x): return x._b, getattr(x, '_c'), hasattr(x, '_d'), x._f(), x._stepwhy_mark\n"
    )
    assert private_names(path) == {"_C", "_a", "_b", "_c", "_d"}


def test_no_name_is_declared_twice() -> None:
    keys = [(n.module, n.name) for group in NAMES.values() for n in group]
    assert len(keys) == len(set(keys))


def test_a_module_without_declared_names_has_a_sentence_all_the_same() -> None:
    assert lost_with("torch.amp.grad_scaler") == "steps that a GradScaler skips"
    assert lost_with("some.module") == "what some.module does"
    assert "stepwhy try" not in lost_with("torch.utils.data.dataloader")


def test_a_name_is_there_or_not_or_its_module_is_missing() -> None:
    assert look_up("json", "m.dumps is not None") is True
    assert look_up("json", "m.no_such_name is not None") is False
    assert look_up("no_such_module", "True") is None


def test_a_version_takes_the_first_python_with_which_it_can_be_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def install(_: Path, python: str, *__: object) -> None:
        if python == "python3.11":
            raise subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(versions, "_install", install)
    monkeypatch.setattr(versions, "_tried", lambda *_: {"version": "0.11.2"})
    assert versions._try("jax", "0.11", ["python3.11", "python3.12"], None) == {"version": "0.11.2"}
    assert versions._try("jax", "0.11", ["python3.11"], None) is None


def test_names_alone_are_looked_up_again_for_the_same_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def observed(*_: object) -> dict[str, list[str]]:
        return {"missing": []}

    monkeypatch.setattr(versions, "_output", lambda _: "2.11.0")
    monkeypatch.setattr(versions, "_names", lambda *_: ["new"])
    monkeypatch.setattr(versions, "_observed", observed)
    (tmp_path / "torch-2.11").mkdir()
    before = {"version": "2.11.0", "names": ["old"], "programs": ["kept"]}
    found = versions._try("torch", "2.11", [], tmp_path, before)
    assert found == {"version": "2.11.0", "names": ["new"], "programs": ["kept"]}
    later = versions._try("torch", "2.11", [], tmp_path, {**before, "version": "2.11.1"})
    assert later is not None
    assert later["programs"] == [{"missing": []}] * 2


def test_the_kept_results_are_of_the_versions_and_names_that_are_declared() -> None:
    kept = Path(__file__).parents[2] / "benchmarks" / "results" / "versions.json"
    rows = json.loads(kept.read_text())["rows"]
    for row in rows:
        framework = FRAMEWORKS[row["framework"]]
        assert row["series"] in framework.versions
        declared = [(n.module, n.name) for g in framework.names for n in NAMES[g]]
        assert [(n["module"], n["name"]) for n in row["names"]] == declared
