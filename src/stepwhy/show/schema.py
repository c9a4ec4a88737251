"""The JSON Schemas of results and measurements, generated from the classes in `result`.

``python -m stepwhy.show.schema > docs/reference/result-schema.json`` updates the published one.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from stepwhy.base import output
from stepwhy.result import (
    ACCURACY_SCHEMA,
    BENCH_SCHEMA,
    COMPARE_SCHEMA,
    GPU_GRADE_SCHEMA,
    GRADE_SCHEMA,
    LAB_SCHEMA,
    OPS_SCHEMA,
    PLACEMENT_SCHEMA,
    SCHEMA,
    TRIAL_SCHEMA,
    WHATIF_SCHEMA,
    WORLD_GRADE_SCHEMA,
    Accuracy,
    BenchResult,
    Comparison,
    GpuGrade,
    Grade,
    LabResult,
    PlacementResult,
    ProfileResult,
    Result,
    Trial,
    WhatIfResult,
    WorldGrade,
)

CONTRACTS: dict[str, tuple[type, str]] = {
    "result": (Result, SCHEMA),
    "bench": (BenchResult, BENCH_SCHEMA),
    "compare": (Comparison, COMPARE_SCHEMA),
    "lab": (LabResult, LAB_SCHEMA),
    "gpu-grade": (GpuGrade, GPU_GRADE_SCHEMA),
    "grade": (Grade, GRADE_SCHEMA),
    "world-grade": (WorldGrade, WORLD_GRADE_SCHEMA),
    "accuracy": (Accuracy, ACCURACY_SCHEMA),
    "placement": (PlacementResult, PLACEMENT_SCHEMA),
    "ops": (ProfileResult, OPS_SCHEMA),
    "whatif": (WhatIfResult, WHATIF_SCHEMA),
    "trial": (Trial, TRIAL_SCHEMA),
}
"""Class and version of each JSON document that stepwhy prints, by a short name."""


def contract_schema(name: str) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the output of `show.json.render` for a contract.

    Args:
        name: 'result', 'bench', 'compare', 'lab', 'grade', 'world-grade', 'accuracy', 'placement',
            'ops', 'whatif' or 'trial'.
    """
    contract, version = CONTRACTS[name]
    schema = msgspec.json.schema(contract)
    for definition in schema["$defs"].values():
        # Python 3.13 strips the indentation of docstrings, earlier versions keep it.
        definition["description"] = inspect.cleandoc(definition["description"])
    schema["$defs"][contract.__name__]["properties"]["schema"] = {"const": version}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": version,
        **schema,
    }


def render(name: str = "result") -> str:
    """A contract's schema as indented text, with a line break at the end.

    Args:
        name: As in `contract_schema`.
    """
    return json.dumps(contract_schema(name), indent=2) + "\n"


if __name__ == "__main__":
    output.document(render())
