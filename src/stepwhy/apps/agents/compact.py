"""Data for language models: without empty fields of findings, and with harmless texts."""

from __future__ import annotations

from typing import Any

from stepwhy.base.text import plain


def compact(data: dict[str, Any]) -> dict[str, Any]:
    """The data with visible control characters, and findings without fields that are empty.

    A model or a client may print what it reads. A missing field of a finding means the same as an
    empty one; the schema requires none of them.

    Args:
        data: A JSON object.
    """
    shown: dict[str, Any] = _visible(data)
    if "findings" in shown:
        shown["findings"] = [_without_empty(finding) for finding in shown["findings"]]
    return shown


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_visible(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): _visible(item) for key, item in value.items()}
    return value


def _without_empty(finding: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in finding.items() if value not in (None, "", [])}


__all__ = ["compact"]
