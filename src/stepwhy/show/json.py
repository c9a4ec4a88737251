"""The result as one JSON object; its schema is `docs/reference/result-schema.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.base.text import escape_json, utf8

if TYPE_CHECKING:
    from stepwhy.result import (
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

    Printed = (
        Accuracy
        | Result
        | BenchResult
        | Comparison
        | LabResult
        | GpuGrade
        | Grade
        | PlacementResult
        | ProfileResult
        | Trial
        | WhatIfResult
        | WorldGrade
    )


def render(result: Printed) -> str:
    """One JSON object on one line, with a line break at the end.

    Equal results give equal text: fields are in the order of their class, and keys of mappings
    are sorted. Numbers that are not finite become null, and bytes of a path that are not UTF-8
    become U+FFFD. Control characters are written as JSON escapes.
    """
    try:
        encoded = msgspec.json.encode(result, order="deterministic", enc_hook=_python_number)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(
            _encodable(msgspec.to_builtins(result, order="deterministic", enc_hook=_python_number))
        )
    return escape_json(encoded.decode()) + "\n"


def _python_number(value: Any) -> int | float:
    """The number in a scalar of NumPy, which a type checker takes for one of Python.

    Raises:
        NotImplementedError: It is none.
    """
    if not hasattr(value, "item"):
        raise NotImplementedError(f"{type(value).__name__} has no form in JSON")
    number: int | float = value.item()
    return number


def _encodable(value: Any) -> Any:
    """The value without lone surrogates, which cannot be encoded as UTF-8."""
    match value:
        case str():
            return utf8(value).decode()
        case dict():
            return {_encodable(key): _encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_encodable(item) for item in value]
        case _:
            return value
