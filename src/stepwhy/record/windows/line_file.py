"""The file that keeps what the line clock has noted: `lines.json.gz`, version 1.

Compressed JSON, one per process::

    {"schema": "stepwhy.lines/1", "strings": ["aten::mm", "train.py(12): step", ...],
     "steps": [{"step": 17, "op": [0, -1, ...], "line": [1, ...], "dur_ns": [...],
                "engine": [0, ...], "module": [2, ...]}, ...]}

The columns of a step are consecutive rows of its driving thread's time, without what the clock
took. `op`, `line` and `module` index the strings, -1 is none; `engine` is 1 where the backward pass
of PyTorch itself runs. `module` is the part of a model that runs; files without it name none.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from stepwhy.record.windows.line_clock import LineClock

    Row = tuple[str | None, int, int, int, int]
    """Operation or None, place of the line, duration in ns, 1 if the engine itself runs it, and the
    number of the module."""

LINES_FILE = "lines.json.gz"
SCHEMA = "stepwhy.lines/1"


def packed(
    steps: Sequence[tuple[int, list[Row]]],
    clock: LineClock,
    names: Mapping[int, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The content of the file.

    Args:
        steps: Number and rows of each step, ascending.
        clock: Has noted them.
        names: Name of each module by its number.
    """
    numbers: dict[str | None, int] = {None: -1}

    def number(text: str | None) -> int:
        return numbers.setdefault(text, len(numbers) - 1)

    lines = {place: number(clock.line(place)) for _, rows in steps for _, place, *_ in rows}
    modules = {inside: number(names.get(inside)) for _, rows in steps for *_, inside in rows}
    content = [
        {
            "step": step,
            "op": [number(op) for op, *_ in rows],
            "line": [lines[place] for _, place, *_ in rows],
            "dur_ns": [dur for _, _, dur, *_ in rows],
            "engine": [engine for _, _, _, engine, _ in rows],
            "module": [modules[inside] for *_, inside in rows],
        }
        for step, rows in steps
    ]
    return {"schema": SCHEMA, "strings": list(numbers)[1:], "steps": content}
