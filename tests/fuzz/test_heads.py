"""Importers that are loaded only for files whose beginning holds some bytes recognise no others."""

from importlib import import_module

import pytest
from fuzz.formats import BY_NAME
from fuzz.inputs import make

from stepwhy.importers.registry import _HEADS_HOLD
from stepwhy.inputs.source import HEAD_BYTES, Source

INPUTS = 60


def contents(name):
    """Files of a format: the valid ones first, then damaged ones."""
    return [next(iter(make(name, 5, number).values())) for number in range(INPUTS)]


@pytest.mark.parametrize("importer", _HEADS_HOLD)
def test_what_an_importer_recognises_holds_its_bytes(importer):
    recognise = import_module(importer).recognise
    recognised = [
        data for data in contents(importer.split(".")[-2]) if recognise(Source(data, "input"))
    ]
    assert recognised
    assert all(_HEADS_HOLD[importer] in data[:HEAD_BYTES] for data in recognised)


def test_they_are_importers():
    assert {importer.split(".")[-2] for importer in _HEADS_HOLD} <= set(BY_NAME)
