"""JSON schemas of arguments and answers, in the form that the protocol asks for.

The protocol wants an object at the top, not a reference. Descriptions of fields are left out of the
schemas of answers: clients may put all schemas before each question to their model. The published
schemas (docs/reference) have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.apps.agents.answers import LeftOut
from stepwhy.show.schema import contract_schema

if TYPE_CHECKING:
    from stepwhy.apps.agents.arguments import Arguments

_DEFINITIONS = "$defs"
_REFERENCE = "$ref"
_LEFT_OUT = "left_out"


def arguments_schema(arguments: type[Arguments]) -> dict[str, Any]:
    """JSON schema of the arguments of a tool."""
    schema = _with_object_on_top(msgspec.json.schema(arguments))
    schema.pop("title", None)
    schema.pop("description", None)
    return schema


def answer_schema(answer: str | type[msgspec.Struct]) -> dict[str, Any]:
    """JSON schema of the data that a tool answers with.

    Args:
        answer: Name of a contract in `stepwhy.show.schema`, or a class of `answers`.
    """
    full = contract_schema(answer) if isinstance(answer, str) else msgspec.json.schema(answer)
    schema: dict[str, Any] = _without_prose(_with_object_on_top(full))
    rows = _without_prose(_with_object_on_top(msgspec.json.schema(LeftOut)))
    schema["properties"][_LEFT_OUT] = {"type": "array", "items": rows}
    schema["required"] = [*schema["required"], _LEFT_OUT]
    return schema


def _with_object_on_top(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the definition that it refers to at the top."""
    definitions = dict(schema[_DEFINITIONS])
    top = definitions.pop(schema[_REFERENCE].rpartition("/")[2])
    return {**top, _DEFINITIONS: definitions} if definitions else dict(top)


def _without_prose(schema: Any, *, names_fields: bool = False) -> Any:
    """The schema without titles, descriptions and defaults.

    Args:
        schema: A schema, or a part of one.
        names_fields: Whether its keys are names of fields, which may be 'title', too.
    """
    if isinstance(schema, list):
        return [_without_prose(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = (key for key in schema if names_fields or key not in ("title", "description", "default"))
    return {
        key: _without_prose(schema[key], names_fields=key in ("properties", _DEFINITIONS))
        for key in kept
    }


__all__ = ["answer_schema", "arguments_schema"]
