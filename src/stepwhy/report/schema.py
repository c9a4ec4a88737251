"""The JSON Schema of a result, generated from the classes in `findings`.

``python -m stepwhy.report.schema > docs/reference/result-schema.json`` renews the published one.
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import msgspec

from stepwhy.findings import SCHEMA, Result


def result_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of what `report.json.render` returns."""
    schema = msgspec.json.schema(Result)
    for definition in schema["$defs"].values():
        # Python 3.13 strips the indentation of docstrings, earlier ones keep it.
        definition["description"] = inspect.cleandoc(definition["description"])
    schema["$defs"]["Result"]["properties"]["schema"] = {"const": SCHEMA}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        **schema,
    }


def render() -> str:
    """The schema as indented text, which ends with a line break."""
    return json.dumps(result_schema(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
