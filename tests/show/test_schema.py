import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct, structs

from stepwhy import result
from stepwhy.show import schema

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", schema.CONTRACTS)
def test_the_published_schemas_are_current(name):
    published = (REFERENCE / f"{name}-schema.json").read_text(encoding="utf-8")
    assert published == schema.render(name), "update it: python docs/generate.py"


def test_every_class_and_field_is_in_a_schema():
    definitions = {}
    for name in schema.CONTRACTS:
        definitions |= schema.contract_schema(name)["$defs"]
    classes = {
        name: cls
        for name in result.__all__
        if isinstance(cls := getattr(result, name), type) and issubclass(cls, Struct)
    }
    assert set(definitions) == set(classes)
    for name, cls in classes.items():
        fields = [field.name for field in structs.fields(cls)]
        assert list(definitions[name]["properties"]) == fields


@pytest.mark.parametrize("name", schema.CONTRACTS)
def test_schemas_pin_the_version(name):
    contract, version = schema.CONTRACTS[name]
    found = schema.contract_schema(name)["$defs"][contract.__name__]
    assert found["properties"]["schema"] == {"const": version}


def test_module_prints_the_schema():
    command = [sys.executable, "-m", "stepwhy.show.schema"]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=240
    ).stdout
    assert printed == schema.render()
