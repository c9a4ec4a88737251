"""Collectives that ranks wait in, and calls of collectives that do not match."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec


class Group(NamedTuple):
    """A process group.

    Args:
        name: Its name, the same on all ranks.
        members: Numbers of its ranks as JSON; '' if not recorded.
    """

    name: str
    members: str = ""


class Call(NamedTuple):
    """What a rank called.

    Args:
        operation: As the library calls it, e.g. 'all_reduce'.
        elements: Number of elements that the rank gives; None if unknown.
        shapes: Their shapes, e.g. '[[3, 4]]'; '' if unknown.
        types: Their types; '' if unknown.
        line: The program's line, 'file(line): function'; '' if unknown.
    """

    operation: str
    elements: int | None = None
    shapes: str = ""
    types: str = ""
    line: str = ""


class At(NamedTuple):
    """Where a rank stands, as far as it is known.

    Args:
        rank: The rank; None if unknown.
        line: A line of the program, 'file(line): function'; '' if unknown.
        is_now: Whether the rank is at that line; otherwise it was there last.
        inside: The collective that it waits in; '' for none.
    """

    rank: int | None
    line: str = ""
    is_now: bool = False
    inside: str = ""


class Hang(msgspec.Struct, frozen=True):
    """A collective in which ranks wait, or a function of the framework where those are unknown.

    Args:
        group: Its process group.
        description: What the program calls the group; '' if unknown.
        sequence: Its number in the group; None for a function.
        call: What was called.
        waiting: The ranks that have entered it, and have not left it.
        missing: The ranks that have not entered it; () if all that are recorded have. Of a
            function, those that stand elsewhere.
        unrecorded: Ranks of the group of which nothing is recorded.
        waited_ns: How long the step of a rank that waits had lasted when it was noted; None if
            that is not recorded.
    """

    group: Group
    description: str
    sequence: int | None
    call: Call
    waiting: tuple[int | None, ...]
    missing: tuple[At, ...] = ()
    unrecorded: tuple[int, ...] = ()
    waited_ns: int | None = None


class Standing(NamedTuple):
    """Where the ranks of a running job that have stopped stand, as far as they have noted it.

    Args:
        lines: By rank, the innermost line of the program, 'file(line): function'.
        hang: The collective that they wait in; None if none is known.
        read: Number of ranks whose collectives were read.
        noted: Number of ranks that have noted them.
        alike: Number of ranks, of those whose collectives were not read, that stand at the same
            line as ranks that wait.
    """

    lines: dict[int | None, str]
    hang: Hang | None = None
    read: int = 0
    noted: int = 0
    alike: int = 0


class Variant(NamedTuple):
    """What some ranks called."""

    call: Call
    ranks: tuple[int | None, ...]


class Mismatch(msgspec.Struct, frozen=True):
    """Ranks that called different things under the same number.

    Args:
        group: Their process group.
        description: What the program calls the group; '' if unknown.
        sequence: The number.
        what: In what the calls differ.
        variants: What was called; by the fewest ranks first, and by the most last.
    """

    group: Group
    description: str
    sequence: int
    what: Literal["operation", "elements", "types"]
    variants: tuple[Variant, ...]
