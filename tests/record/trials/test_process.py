"""Fixes that need no framework, and what all fixes have in common."""

from __future__ import annotations

import os
from importlib import import_module

import pytest
from tests.record.trials.programs import run

from stepwhy.measure.fixes import FIXES as ABOUT
from stepwhy.record import trials


def test_every_fix_is_described_and_applied():
    assert {about.name for about in ABOUT} == set(trials.FIXES)
    for parts in trials.FIXES.values():
        for _, target in parts:
            home, _, function = target.partition(":")
            module = import_module(f"stepwhy.record.trials.{home}")
            assert callable(getattr(module, function))


def test_variables_are_those_of_the_child_alone(tmp_path):
    (about,) = [about for about in ABOUT if about.name == "keep-freed-memory"]
    found = run(tmp_path, "print('trained')", variables=about.variables, fix=about.name)
    assert found.lines == ["trained"]
    assert found.changed == [f"{name}={value}" for name, value in about.variables.items()]
    assert not set(about.variables) & set(os.environ)


def test_a_program_without_the_variable_is_as_it_was():
    assert trials.begin("/nowhere") is False


@pytest.mark.parametrize("value", ["", "no JSON", "[]", '{"other":1}'])
def test_a_damaged_variable_is_ignored(monkeypatch, value):
    monkeypatch.setenv("STEPWHY_TRIAL", value)
    assert trials.begin("/nowhere") is False
