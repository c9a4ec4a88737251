"""The declared names of frameworks: all that observers use, and what a run says without them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from tests.versions.__main__ import FRAMEWORKS
from tests.versions.names import look_up

from stepwhy.capture import attach
from stepwhy.capture.framework_names import NAMES, lost_with

CAPTURE = Path(attach.__file__).parent
OBSERVERS = [p for f in ("torch", "jax", "tf1", "tf2", "keras") for p in (CAPTURE / f).glob("*.py")]
# Of Python itself, of files of TensorFlow, or what older versions have: see their use.
NOT_OF_A_FRAMEWORK = {"_exit", "_getframe", "_fun", "_ref", "_value", "_committed"}
DECLARED = " ".join(f"{n.module} {n.name} {n.expression}" for g in NAMES.values() for n in g)


def private_names(path: Path) -> set[str]:
    """Private attributes of other objects than the module's own."""
    tree = ast.parse(path.read_text())
    own = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    return {
        n.attr
        for n in nodes
        if re.match(r"_[a-zA-Z]", n.attr)
        and not n.attr.startswith("_stepwhy")
        and n.attr not in own
        and not (isinstance(n.value, ast.Name) and n.value.id in {"self", "cls"})
    }


@pytest.mark.parametrize("path", OBSERVERS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_private_name_that_an_observer_uses_is_declared(path: Path) -> None:
    words = set(re.findall(r"\w+", DECLARED)) | NOT_OF_A_FRAMEWORK
    assert private_names(path) - words == set()


def test_no_name_is_declared_twice() -> None:
    keys = [(n.module, n.name) for group in NAMES.values() for n in group]
    assert len(keys) == len(set(keys))


def test_a_module_without_declared_names_has_a_sentence_all_the_same() -> None:
    assert lost_with("torch.optim.optimizer") == "steps of PyTorch optimizers"
    assert lost_with("some.module") == "what some.module does"


def test_a_name_is_there_or_not_or_its_module_is_missing() -> None:
    assert look_up("json", "m.dumps is not None") is True
    assert look_up("json", "m.no_such_name is not None") is False
    assert look_up("no_such_module", "True") is None


def test_the_kept_results_are_of_the_versions_and_names_that_are_declared() -> None:
    kept = Path(__file__).parents[2] / "benchmarks" / "results" / "versions.json"
    rows = json.loads(kept.read_text())["rows"]
    for row in rows:
        framework = FRAMEWORKS[row["framework"]]
        assert row["series"] in framework.versions
        declared = [(n.module, n.name) for g in framework.names for n in NAMES[g]]
        assert [(n["module"], n["name"]) for n in row["names"]] == declared
