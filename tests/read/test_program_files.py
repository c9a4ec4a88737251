"""Which files of a recorded stack are the program's own."""

from __future__ import annotations

import pytest

from stepwhy.read.shared.program_files import is_program_file
from stepwhy.record.core import recorder
from stepwhy.record.jax import functions


@pytest.mark.parametrize("module", [recorder, functions])
def test_the_observer_is_not_the_program(module):
    """Also where it is not installed among packages, as in a clone of the repository."""
    path = "/clone/src/" + module.__name__.replace(".", "/") + ".py"
    assert module.__file__.endswith(path.removeprefix("/clone/src"))
    assert not is_program_file(path)


def test_records_of_earlier_versions_name_the_observer_as_it_was_called():
    assert not is_program_file("/clone/src/stepwhy/capture/jax/functions.py")


@pytest.mark.parametrize("path", ["/home/me/record/train.py", "train.py", "/w/stepwhy/train.py"])
def test_files_of_the_program(path):
    assert is_program_file(path)
