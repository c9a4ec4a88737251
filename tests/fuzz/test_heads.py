"""Formats with magic bytes recognise no file without them."""

import pytest
from fuzz.formats import BY_NAME
from fuzz.inputs import make

from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import all_formats, reader_of

INPUTS = 60


def contents(name):
    """Files of a format: the valid ones first, then damaged ones."""
    return [next(iter(make(name, 5, number).values())) for number in range(INPUTS)]


@pytest.mark.parametrize("name", [n for n in BY_NAME if all_formats()[n].magic])
def test_what_an_importer_recognises_holds_its_magic_bytes(name):
    sources = [Source(data, "input") for data in contents(name)]
    recognised = [source for source in sources if reader_of(name).recognise(source)]
    assert recognised
    assert all(all_formats()[name].may_be(source.head) for source in recognised)
