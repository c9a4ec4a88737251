"""The table of modules that are instrumented once they are imported."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest

from stepwhy.record import RUN_DIR_VARIABLE, attach
from stepwhy.record.core import import_hooks


@pytest.fixture
def own_state(monkeypatch):
    monkeypatch.setattr(attach, "_instrumented", set())
    monkeypatch.setattr(attach, "_first_run_dir", "")
    monkeypatch.setattr(import_hooks, "_pending", {})
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


@pytest.mark.parametrize("target", sorted(set(attach.INSTRUMENTATION.values())))
def test_every_function_of_the_table_has_two_parameters(target):
    home, _, name = target.partition(":")
    function = getattr(import_module(f"stepwhy.record.{home}"), name)
    assert len(signature(function).parameters) == 2


@pytest.mark.parametrize("name", sorted(attach.INSTRUMENTATION))
def test_every_module_of_the_table_exists(name):
    if find_spec(name.partition(".")[0]) is None:
        pytest.skip("the framework is not installed")
    # Check only its file: `find_spec` would import its parents.
    package, *rest = name.split(".")
    path = Path(find_spec(package).submodule_search_locations[0], *rest)
    assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@pytest.mark.usefixtures("own_state")
def test_a_module_is_instrumented_once(monkeypatch, tmp_path):
    calls = []
    target = ModuleType("stepwhy.record.for_a_test")
    target.observe = lambda module, run_dir: calls.append((module.__name__, run_dir))
    monkeypatch.setitem(sys.modules, target.__name__, target)
    monkeypatch.setitem(sys.modules, "a_framework", ModuleType("a_framework"))
    monkeypatch.setattr(attach, "INSTRUMENTATION", {"a_framework": "for_a_test:observe"})
    monkeypatch.setenv(RUN_DIR_VARIABLE, str(tmp_path))
    attach.observe()
    attach.observe()
    assert calls == [("a_framework", str(tmp_path))]
    assert attach.is_instrumented("a_framework")


@pytest.mark.usefixtures("own_state")
def test_nothing_is_instrumented_after_the_end_of_a_block(monkeypatch, tmp_path):
    monkeypatch.setattr(attach, "INSTRUMENTATION", {"a_framework": "for_a_test:observe"})
    monkeypatch.setenv(RUN_DIR_VARIABLE, str(tmp_path))
    attach.observe()
    monkeypatch.delenv(RUN_DIR_VARIABLE)
    import_hooks._pending["a_framework"][0](ModuleType("a_framework"))
    assert not attach.is_instrumented("a_framework")


def test_bootstrap_folder_hides_no_modules_of_the_job():
    folder = Path(attach.__file__).with_name("bootstrap")
    names = {path.name for path in folder.iterdir()} - {"__pycache__"}
    assert names == {"sitecustomize.py", "stepwhy_bootstrap.py"}
