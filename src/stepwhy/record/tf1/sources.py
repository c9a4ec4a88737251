"""Find where in the user's program each graph op was made, and its enclosing device scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.core.user_code import UserFiles, source_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def _device(scope: Any) -> str:
    """Argument of a device scope: '' for None; for a function, its name without path."""
    name = str(scope.obj)
    if name == "None":
        return ""
    return name if "<" not in name else name.partition("<")[0] + "()"


def _scopes(operation: Any, files: UserFiles) -> Iterator[dict[str, str]]:
    """The device scopes around an op, outermost first."""
    for scope in reversed(operation._device_assignments):
        name = files.user_name(scope.filename or "<unknown>")
        line = {"line": f"{name}({scope.lineno})"} if name else {}
        yield {"device": _device(scope), **line}


def sources_of(graph: Any) -> dict[str, dict[str, Any]]:
    """For each op of a `tf.Graph`: source, requested device and enclosing device scopes.

    Args:
        graph: The graph as the program built it.

    Returns:
        By op name: `source` ('train.py(41): tower'; missing when no user frame is known),
        `requested` ('' when no device was asked for) and `scopes`, outermost first, each with
        `device` as written in the program and `line` ('train.py(38)'; missing when unknown).
    """
    files = UserFiles()
    answers: dict[str, dict[str, Any]] = {}
    for operation in graph.get_operations():
        answer: dict[str, Any] = {"requested": operation.device}
        source = source_of(operation, files)
        if source:
            answer["source"] = source
        answer["scopes"] = list(_scopes(operation, files))
        answers[operation.name] = answer
    return answers
