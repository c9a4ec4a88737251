"""Which operations of a job an edit is about, and which edits the model does not allow."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.predict.operations import Operation, Schedule
    from stepwhy.result.edits import Edit

_LINK = regex(r"(\d+)-(\d+)")
# Exchanges of process groups, by the names that Megatron-LM gives these groups.
_GROUPS: Final = {
    "dp": regex(r"params-all-gather|grads-reduce-scatter|separate-grads-.*"),
    "pp": regex(r"(?:forward|backward)-(?:send|recv)"),
    "embd": regex(r"embedding-.*"),
}
_INSIDE_PASSES = ("tp", "cp", "ep", "sp")


def unpriced(schedule: Schedule, edit: Edit) -> str:
    """Why the model of a job does not allow an edit, a sentence; '' if it may."""
    if edit.what == "ranks":
        return "How long exchanges take among more ranks was not recorded."
    if edit.what == "group" and edit.pattern in _INSIDE_PASSES:
        return f"Exchanges of {edit.pattern} groups are inside the passes, which were timed whole."
    if edit.what == "link" and not rows_of(schedule, edit) and _groups(schedule, edit):
        return (
            f"Ranks {edit.pattern.replace('-', ' and ')} exchange only together with other ranks, "
            "so that their link was not timed alone."
        )
    return ""


def rows_of(schedule: Schedule, edit: Edit) -> list[int]:
    """Operations that an edit is about.

    Args:
        schedule: The operations of all ranks.
        edit: The edit.
    """
    if edit.what == "variance":
        return list(range(len(schedule.operations)))
    if edit.what == "link":
        return [row for group in _groups(schedule, edit) if len(group) == 2 for row in group]
    accepts = _ACCEPTS.get((edit.what, edit.change))
    return [
        row
        for row, operation in enumerate(schedule.operations)
        if accepts is not None and accepts(operation, edit.pattern)
    ]


def _groups(schedule: Schedule, edit: Edit) -> list[list[int]]:
    """The exchanges in which both ranks of a link take part."""
    match = _LINK.fullmatch(edit.pattern)
    ends = {int(match[1]), int(match[2])} if match else set()
    return [
        group
        for group in schedule.groups
        if len(ends) == 2 and ends <= {schedule.operations[row].rank for row in group}
    ]


def _stage_operations(operation: Operation, number: str) -> bool:
    return number in {"", str(operation.stage)}


def _rank_operations(operation: Operation, number: str) -> bool:
    return number in {"", str(operation.rank)}


def _group_operations(operation: Operation, name: str) -> bool:
    expression = _GROUPS.get(name)
    return expression is not None and expression.fullmatch(operation.name) is not None


def _computes(operation: Operation, pattern: str) -> bool:
    return not operation.is_exchange and fnmatchcase(operation.name, pattern or "*")


def _exchanges(operation: Operation, pattern: str) -> bool:
    return operation.is_exchange and fnmatchcase(operation.name, pattern or "*")


_ACCEPTS: Final[dict[tuple[str, str], Callable[[Operation, str], bool]]] = {
    ("stage", "even"): _stage_operations,
    ("rank", "even"): _rank_operations,
    ("group", "even"): _group_operations,
    ("group", "faster"): _group_operations,
    ("group", "gone"): _group_operations,
    ("communication", "balanced"): _computes,
    ("communication", "faster"): _exchanges,
    ("communication", "gone"): _exchanges,
    ("ops", "faster"): _computes,
    ("ops", "gone"): _computes,
}
