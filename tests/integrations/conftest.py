"""Stand-ins for the watched block and for the frameworks."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from stepwhy.integrations import observation


class Watch:
    """Stands for `stepwhy.api.watching.Watch`: observes nothing, and records how it ends."""

    made: list
    is_idle = False
    result = None
    messages = ()

    def __init__(self, out, *, quiet):
        self.out, self.quiet, self.ended = out, quiet, []
        self.made.append(self)

    @property
    def run_dir(self):
        return None if self.is_idle else Path("/runs/1")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.ended.append(error)

    def _repr_html_(self):
        return "<iframe>"


@pytest.fixture
def watches(monkeypatch):
    """The watched blocks that were made."""
    Watch.made = []
    monkeypatch.setattr(observation, "Watch", Watch)
    yield Watch.made
    for one in Watch.made:
        one.ended.append("the test is over")


@pytest.fixture
def idle(monkeypatch):
    """The program is observed already."""
    monkeypatch.setattr(Watch, "is_idle", True)


@pytest.fixture
def load(monkeypatch):
    """Import a module of `stepwhy.integrations` with stand-ins for the modules that it needs.

    The value of a stand-in are its members; None for a module that is not installed.
    """
    loaded = []

    def start(name, **stand_ins):
        for path, members in stand_ins.items():
            full = path.replace("__", ".")
            module = None if members is None else ModuleType(full)
            for key, value in (members or {}).items():
                setattr(module, key, value)
            monkeypatch.setitem(sys.modules, full, module)
        loaded.append(f"stepwhy.integrations.{name}")
        sys.modules.pop(loaded[-1], None)
        return import_module(loaded[-1])

    yield start
    for name in loaded:
        sys.modules.pop(name, None)


@pytest.fixture
def pauses(monkeypatch):
    """The pauses of the steps, in order."""
    calls = []
    for name in ("pause", "resume"):
        monkeypatch.setattr(
            f"stepwhy.record.torch.pauses.{name}", lambda name=name: calls.append(name)
        )
    return calls


@pytest.fixture
def trainer():
    """Stands for the trainer of Lightning."""
    return SimpleNamespace(is_global_zero=True, global_step=7, loggers=[])
