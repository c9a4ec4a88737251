import dataclasses
import subprocess
import sys
from pathlib import Path

from stepwhy import findings
from stepwhy.report import schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "reference" / "result-schema.json"


def test_the_published_schema_is_current():
    assert PUBLISHED.read_text(encoding="utf-8") == schema.render(), (
        "renew it: python -m stepwhy.report.schema > docs/reference/result-schema.json"
    )


def test_every_class_and_field_of_a_result_is_in_the_schema():
    definitions = schema.result_schema()["$defs"]
    classes = {
        name: cls
        for name in findings.__all__
        if dataclasses.is_dataclass(cls := getattr(findings, name))
    }
    assert set(definitions) == set(classes)
    for name, cls in classes.items():
        fields = [field.name for field in dataclasses.fields(cls)]
        assert list(definitions[name]["properties"]) == fields


def test_it_pins_the_version():
    result = schema.result_schema()["$defs"]["Result"]
    assert result["properties"]["schema"] == {"const": findings.SCHEMA}


def test_the_module_prints_it():
    command = [sys.executable, "-m", "stepwhy.report.schema"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == schema.render()
