"""A step by the lines of the program that cause its time."""

from __future__ import annotations

from typing import Literal

import msgspec


class LineOperation(msgspec.Struct, frozen=True):
    """An operation that a line runs, on the host or a device; numbers are per mean steady step.

    Args:
        name: Its name.
        phase: 'forward', 'backward', 'optimizer', ... or 'unknown'.
        count: How often it runs.
        time_ns: Its part of the line's time.
    """

    name: str
    phase: str
    count: float
    time_ns: int


class LineModule(msgspec.Struct, frozen=True):
    """A module of the model, or a name scope of the graph, in a line that runs several of them.

    Args:
        module: Its path, outermost first; with '*' for numbers where a model repeats many alike. ''
            for time in none; beyond 60 modules, also in the shortest.
        time_ns: Its part of the line's time.
        operations: Operations that it runs, longest first, if known; not all of its time.
        categories: Its time by category of the breakdown, without those of 0 ns.
    """

    module: str
    time_ns: int
    operations: tuple[LineOperation, ...] = ()
    categories: dict[str, int] = {}


class LineTime(msgspec.Struct, frozen=True):
    """What one line of the program's own code adds to a step.

    Args:
        line: 'file(line): function'; '' unless `kind` is 'line'.
        kind: 'line'; 'communication': collectives, which no single line causes; 'uncredited': time
            that no line can be credited with.
        time_ns: Its part of the mean steady step.
        categories: That time by category of the breakdown, without those of 0 ns.
        phases: Its compute time by phase: a line that runs a layer forward is credited with the
            backward pass of that layer.
        operations: Operations that it runs, longest first, if known; not all of its time.
        modules: Modules or name scopes that it runs, longest first, which sum to its time; only of
            a line with more than 80 % of the step, where they are recorded.
    """

    line: str
    kind: Literal["line", "communication", "uncredited"]
    time_ns: int
    categories: dict[str, int]
    phases: dict[str, int]
    operations: tuple[LineOperation, ...] = ()
    modules: tuple[LineModule, ...] = ()


class LineBreakdown(msgspec.Struct, frozen=True):
    """The closed partition of a step by line: `lines` sum to `wall_ns` exactly.

    Args:
        wall_ns: Mean wall time of the steady steps, as in the breakdown by category.
        lines: The rows, longest first.
        source: How the lines are known: 'clock': the running line was noted in steps of their own;
            'record': the trace names the line of each operation; 'samples': stack samples tell only
            which line the driving thread is at, so that a backward pass counts for the line that
            starts it.
    """

    wall_ns: int
    lines: tuple[LineTime, ...]
    source: Literal["clock", "record", "samples"]
