"""What stands in the place of a function of the program looks like that function."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import types

import pytest

from stepwhy.record.core.process import lifetime
from stepwhy.record.core.wrappers import Builtin, wraps
from stepwhy.record.watchers import child_waits, disk_syncs

NAMES = ("fsync", "fdatasync", "waitpid", "_exit")


@pytest.fixture
def observed(tmp_path, monkeypatch):
    """The functions of `os` that observers replace."""
    for name in ("fsync", "fdatasync", "_exit", "wait", "wait3", "wait4", "waitid", "waitpid"):
        monkeypatch.setattr(os, name, getattr(os, name))
    originals = {name: getattr(os, name) for name in NAMES}
    disk_syncs.observe_syncs.__wrapped__(str(tmp_path))
    child_waits.observe_waits.__wrapped__(str(tmp_path))
    lifetime._flush_before_exit()
    return {name: (original, getattr(os, name)) for name, original in originals.items()}


@pytest.mark.parametrize("name", NAMES)
def test_functions_in_c_look_like_the_originals(observed, name):
    original, replaced = observed[name]
    assert type(replaced) is Builtin
    assert isinstance(replaced, types.BuiltinFunctionType)
    assert inspect.isbuiltin(replaced)
    assert repr(replaced) == repr(original)
    assert inspect.signature(replaced) == inspect.signature(original)
    assert inspect.getfullargspec(replaced) == inspect.getfullargspec(original)
    assert pickle.loads(pickle.dumps(replaced)) is replaced  # noqa: S301 - pickled here
    assert copy.deepcopy(replaced) is replaced


@pytest.mark.usefixtures("observed")
def test_functions_in_c_become_no_methods(tmp_path):
    class File:
        sync = os.fsync

    with (tmp_path / "state").open("w") as file:
        assert File().sync(file.fileno()) is None


def test_arguments_are_those_of_the_original():
    def original(path, *, depth=1):
        return path, depth

    @wraps(original)
    def observed(*args, **kwargs):
        return original(*args, **kwargs)

    assert inspect.getfullargspec(observed) == inspect.getfullargspec(original)
    assert inspect.signature(observed) == inspect.signature(original)
