"""The page of what was measured on a GPU, from the result that was kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepwhy.result.gpu import GpuGrade
from stepwhy.show.gpu import (
    BOUND_HEAD,
    OVERHEAD_HEAD,
    PAIR_HEAD,
    POINT_HEAD,
    bound_rows,
    overhead_rows,
    pair_row,
    point_rows,
    summary,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RESULT = Path(__file__).resolve().parent.parent / "lab" / "gpu-grade.json"

INTRODUCTION = """\
What [the GPU lab](../how-to/run-the-gpu-lab.md) showed when it last ran on a GPU. *Predicted* is
the saving per step that the finding predicts; *measured* is the difference of the steps of both
programs by their own clocks, with its 95 % interval.
"""
NOTHING = """\
Nothing has been measured on a GPU yet: the programs, the sizes and the harness were only tried in
their smallest size on a CPU, which shows that they work. How well stepwhy finds faults on a live
GPU, what it costs there, and how well its predictions fit is not known until somebody runs
[the GPU lab](../how-to/run-the-gpu-lab.md).
"""


def parts(table: Callable[..., str]) -> list[str]:
    """The page below its title.

    Args:
        table: Formats a table, from its head and its rows.
    """
    if not RESULT.is_file():
        return [NOTHING]
    grade = msgspec.json.decode(RESULT.read_bytes(), type=GpuGrade)
    return [
        INTRODUCTION,
        "\n".join(f"- {sentence}" for sentence in summary(grade)) + "\n",
        table(BOUND_HEAD, bound_rows(grade)),
        "## Pairs\n",
        table(PAIR_HEAD, map(pair_row, grade.pairs)),
        "## Live points\n",
        table(POINT_HEAD, point_rows(grade)),
        "## Overhead\n",
        table(OVERHEAD_HEAD, overhead_rows(grade)),
    ]
