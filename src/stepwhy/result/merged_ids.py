"""Ids of diagnoses that became part of another one: results and commands may still name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stepwhy.result.result import Finding, Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MERGED: Mapping[str, str] = {"missing-prefetch": "serial-input"}
"""Former ids, each with the id of the diagnosis that covers it."""


def current_id(id_: str) -> str:
    """The id of the diagnosis that an id, today's or a former one, stands for."""
    return MERGED.get(id_, id_)


def stored_result(data: bytes) -> Result:
    """A result from JSON, with its findings under today's ids.

    Raises:
        msgspec.DecodeError: It is damaged.
    """
    result = msgspec.json.decode(data, type=Result)
    return replace(result, findings=_merged(result.findings))


def _merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Of several that are now one, the first: what was found comes before what was not."""
    found: dict[str, Finding] = {}
    for one in findings:
        id_, by = current_id(one.id), current_id(one.explained_by)
        found.setdefault(id_, replace(one, id=id_, explained_by="" if by == id_ else by))
    return tuple(found.values())
