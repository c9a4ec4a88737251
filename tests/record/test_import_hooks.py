"""Hooks that are called after an import."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from stepwhy.record.core import import_hooks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "observed_pkg").mkdir()
    (tmp_path / "observed_pkg" / "__init__.py").write_text("")
    (tmp_path / "observed_pkg" / "inner.py").write_text("VALUE = 1\n")
    (tmp_path / "observed_pkg" / "broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "observed_pkg"
    import_hooks._pending.clear()
    sys.meta_path[:] = [f for f in sys.meta_path if f is not import_hooks._finder]
    for name in [n for n in sys.modules if n.startswith("observed_pkg")]:
        del sys.modules[name]


def test_the_hook_sees_the_executed_module(package: str) -> None:
    seen: list[int] = []
    import_hooks.after_import(f"{package}.inner", lambda module: seen.append(module.VALUE))
    assert f"{package}.inner" not in sys.modules
    importlib.import_module(f"{package}.inner")
    assert seen == [1]


def test_the_loader_is_left_as_it_was(package: str) -> None:
    import_hooks.after_import(f"{package}.inner", lambda _: None)
    module = importlib.import_module(f"{package}.inner")
    assert module.__spec__ is not None
    assert "exec_module" not in vars(module.__spec__.loader)
    assert importlib.reload(module) is module


def test_a_failing_hook_does_not_break_the_import(package: str) -> None:
    def fail(_: ModuleType) -> None:
        raise RuntimeError

    import_hooks.after_import(f"{package}.inner", fail)
    assert importlib.import_module(f"{package}.inner").VALUE == 1


def test_failing_import_fails_as_without_stepwhy(package: str) -> None:
    seen: list[str] = []
    import_hooks.after_import(f"{package}.broken", lambda _: seen.append("called"))
    with pytest.raises(ZeroDivisionError):
        importlib.import_module(f"{package}.broken")
    assert seen == []


def test_a_missing_module_is_missing(package: str) -> None:
    import_hooks.after_import(f"{package}.missing", lambda _: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"{package}.missing")


def test_imported_module_is_hooked_at_once(package: str) -> None:
    importlib.import_module(f"{package}.inner")
    seen: list[str] = []
    import_hooks.after_import(f"{package}.inner", lambda module: seen.append(module.__name__))
    assert seen == [f"{package}.inner"]
