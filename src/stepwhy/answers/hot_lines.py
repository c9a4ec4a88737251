"""The lines of the program in which its threads spend most time, by stack samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stepwhy.findings import HostLine
from stepwhy.passes.sampled_lines import python_lines, role_lines
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

    Time of the driving thread inside the framework is left out, as the breakdown has other
    categories for it. Time of workers and other threads inside a framework is part of their work:
    it counts for the line that called the framework.
    """
    ranked = {
        SampleRole.DRIVER: python_lines(trace),
        SampleRole.WORKER: role_lines(trace, SampleRole.WORKER),
        SampleRole.THREAD: role_lines(trace, SampleRole.THREAD),
    }
    return tuple(
        HostLine(line, round(share, 3), _NAMES[role])
        for role, lines in ranked.items()
        for line, share in lines[:_LINES_PER_ROLE]
        if share >= _RAREST_SHARE
    )
