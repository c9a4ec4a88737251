"""The file that keeps what the line clock has noted: `lines.json.gz`, version 1.

Compressed JSON, one per process::

    {"schema": "stepwhy.lines/1", "strings": ["aten::mm", "train.py(12): step", ...],
     "steps": [{"step": 17, "op": [0, -1, ...], "line": [1, ...], "dur_ns": [...],
                "engine": [0, ...]}, ...]}

The columns of a step are consecutive rows of its driving thread's time, without what the clock
took. `op` and `line` index the strings, -1 is none; `engine` is 1 where the backward pass of
PyTorch itself runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stepwhy.record.windows.line_clock import LineClock

    Row = tuple[str | None, int, int, int]
    """Operation or None, place of the line, duration in ns, and 1 if the engine itself runs it."""

LINES_FILE = "lines.json.gz"
SCHEMA = "stepwhy.lines/1"


def packed(steps: Sequence[tuple[int, list[Row]]], clock: LineClock) -> dict[str, Any]:
    """The content of the file.

    Args:
        steps: Number and rows of each step, ascending.
        clock: Has noted them.
    """
    numbers: dict[str | None, int] = {None: -1}

    def number(text: str | None) -> int:
        return numbers.setdefault(text, len(numbers) - 1)

    lines = {place: number(clock.line(place)) for _, rows in steps for _, place, _, _ in rows}
    content = [
        {
            "step": step,
            "op": [number(op) for op, _, _, _ in rows],
            "line": [lines[place] for _, place, _, _ in rows],
            "dur_ns": [dur for _, _, dur, _ in rows],
            "engine": [engine for _, _, _, engine in rows],
        }
        for step, rows in steps
    ]
    return {"schema": SCHEMA, "strings": list(numbers)[1:], "steps": content}
