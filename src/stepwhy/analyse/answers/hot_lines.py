"""The lines of the program in which its threads spend most time, by stack samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stepwhy.analyse.steps.sampled_lines import role_lines
from stepwhy.result import HostLine
from stepwhy.trace import SampleRole

if TYPE_CHECKING:
    from stepwhy.trace import Trace

# Further lines, and rarer ones, do not stand out.
_LINES_PER_ROLE = 5
_RAREST_SHARE = 0.02
_NAMES: dict[SampleRole, Literal["driver", "worker", "thread"]] = {
    SampleRole.DRIVER: "driver",
    SampleRole.WORKER: "worker",
    SampleRole.THREAD: "thread",
}


def hot_lines(trace: Trace) -> tuple[HostLine, ...]:
    """The lines in which the threads of each role spend most time, at most five per role.

    Time inside a framework counts for the line that called it: samples do not show whether a line
    runs Python or waits for an operation that it has called.
    """
    ranked = {role: role_lines(trace, role) for role in _NAMES}
    return tuple(
        HostLine(line, round(share, 3), _NAMES[role])
        for role, lines in ranked.items()
        for line, share in lines[:_LINES_PER_ROLE]
        if share >= _RAREST_SHARE
    )
