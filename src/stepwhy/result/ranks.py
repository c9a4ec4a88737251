"""What each rank of a run does, and how its process groups communicate."""

from __future__ import annotations

import msgspec


class RankUse(msgspec.Struct, frozen=True):
    """One rank in the mean step; times of collectives are of the steps that all ranks recorded.

    All times are on the scale of `step_ns`: what the profiler added to recorded steps is left out.

    Args:
        rank: Its number.
        step_ns: Wall time of its step.
        work_ns: The part of it that is not spent communicating only.
        wait_ns: Time in collectives until the last rank has arrived, overlapped or not; None if
            that cannot be told.
        transfer_ns: Time in the same collectives from then on; None likewise.
        unsplit_ns: Time in other collectives, such as broadcasts, in which waits and transfers
            cannot be told apart; None if the ranks' collectives are not compared.
        late_ns: How much longer the median of the others waits in the mean step; None likewise.
        caused_wait_ns: Sum of what all other ranks wait in collectives in which this one arrives
            last, perhaps only because it waited in another process group; None likewise.
        last: Number of such collectives in all steps; None likewise.
        late_steps: In how many steps it is late, if in more than by chance; None otherwise.
        longer: Category of the breakdown in which it spends more than the others; '' if it is not
            late.
        longer_ns: How much more; None if it is not late.
        operation: The operation that takes it longer; '' if none is known.
        phase: Phase of that operation; ''.
        line: The line of the program that takes it longer; ''.
    """

    rank: int
    step_ns: int
    work_ns: int
    wait_ns: int | None = None
    transfer_ns: int | None = None
    unsplit_ns: int | None = None
    late_ns: int | None = None
    caused_wait_ns: int | None = None
    last: int | None = None
    late_steps: int | None = None
    longer: str = ""
    longer_ns: int | None = None
    operation: str = ""
    phase: str = ""
    line: str = ""


class RankStepsRow(msgspec.Struct, frozen=True):
    """One rank, or several that are alike, in each step.

    Args:
        ranks: Its number; of several ranks, their numbers, and the times are medians of them.
        work_ns: Time that is not spent communicating only, as recorded; (columns,).
        wait_ns: Time in collectives until the last rank has arrived; (columns,).
    """

    ranks: tuple[int, ...]
    work_ns: tuple[int, ...]
    wait_ns: tuple[int, ...]


class RankSteps(msgspec.Struct, frozen=True):
    """How long ranks work and wait in each step that all of them recorded.

    Args:
        steps: Number of the first step of each column; (columns,).
        per_column: Number of steps in a column; if several, times are their means.
        rows: The ranks by number. Of many, first those that work longest for a step, compared with
            the others, one by one, and then the others together.
    """

    steps: tuple[int, ...]
    per_column: int
    rows: tuple[RankStepsRow, ...]


class GroupUse(msgspec.Struct, frozen=True):
    """The collectives of one kind in one process group, in the mean step.

    Args:
        operation: Such as 'all-reduce'.
        group: Name of the group; '' if not recorded.
        description: What it is for, e.g. 'tp'; ''.
        ranks: Numbers of its ranks that are recorded.
        size: Number of all its ranks; None if unknown.
        count: Number of collectives per step.
        bytes: Size of their messages per step; None if not recorded.
        time_ns: Time in them, mean of the ranks.
        wait_ns: The part until the last rank has arrived, mean of the ranks; None if it cannot be
            told, as for broadcasts, and for sending and receiving.
        transfer_ns: The part from then on; None likewise.
        bus_bandwidth: Bytes per second over each link while data moves, as nccl-tests define it;
            None if unknown.
        split: How the time is divided: 'exact'; 'bound': waits are at most as long, since each rank
            has its own bytes to move (all-to-all), or at least, since ranks are not recorded; 'no'.
    """

    operation: str
    group: str
    description: str
    ranks: tuple[int, ...]
    size: int | None
    count: float
    bytes: int | None
    time_ns: int
    wait_ns: int | None
    transfer_ns: int | None
    bus_bandwidth: int | None
    split: str


__all__ = ["GroupUse", "RankSteps", "RankStepsRow", "RankUse"]
