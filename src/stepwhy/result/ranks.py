"""Work and waits of each rank of a run, and the collectives of its process groups."""

from __future__ import annotations

import msgspec


class RankUse(msgspec.Struct, frozen=True):
    """Mean step of one rank, ns.

    Times of collectives are means over the steps that all ranks recorded. All times are scaled to
    unprofiled steps, as `step_ns` is.

    Args:
        rank: Number of the rank.
        step_ns: Wall time of the step.
        work_ns: Time of the step without exposed communication.
        wait_ns: Time in collectives before the last rank arrives, overlapped or not; None if
            unknown.
        transfer_ns: Time in the same collectives after the last rank has arrived; None if unknown.
        unsplit_ns: Time in other collectives, such as broadcasts, which cannot be split into wait
            and transfer; None if the collectives of the ranks are not compared.
        late_ns: Median wait of the other ranks less that of this one; None if the collectives are
            not compared.
        caused_wait_ns: Total wait of all other ranks in collectives that this rank enters last. It
            may itself have waited in another process group. None if not compared.
        last: Number of collectives, over all steps, that this rank enters last; None if not
            compared.
        late_steps: Number of steps in which the rank is late; None if they are no more than
            expected by chance.
        longer: Breakdown category in which the rank spends more time than the others; '' if it is
            not late.
        longer_ns: Difference in that category; None if the rank is not late.
        operation: Operation that takes longer than on the others; '' if unknown.
        phase: Phase of that operation; '' if unknown.
        line: Line of the program that takes longer than on the others; '' if unknown.
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
    """Work and wait of one rank, or the medians of several, in each step.

    Args:
        ranks: Numbers of the ranks.
        work_ns: Recorded time without exposed communication; (columns,).
        wait_ns: Time in collectives before the last rank arrives; (columns,).
    """

    ranks: tuple[int, ...]
    work_ns: tuple[int, ...]
    wait_ns: tuple[int, ...]


class RankSteps(msgspec.Struct, frozen=True):
    """Work and wait of the ranks in each step that all of them recorded.

    Args:
        steps: Number of the first step of each column; (columns,).
        per_column: Steps per column; the times of a column are means over its steps.
        rows: The ranks by number. Of many ranks, one row for each of those that have the longest
            work relative to the others, then a single row for the rest.
    """

    steps: tuple[int, ...]
    per_column: int
    rows: tuple[RankStepsRow, ...]


class GroupUse(msgspec.Struct, frozen=True):
    """Collectives of one kind in one process group, per mean step.

    Args:
        operation: Kind of the collective, such as 'all-reduce'.
        group: Name of the process group; '' if not recorded.
        description: Purpose of the group, e.g. 'tp'; '' if not recorded.
        ranks: Numbers of the recorded ranks of the group.
        size: Number of all ranks of the group; None if unknown.
        count: Collectives per step.
        bytes: Message bytes per step; None if not recorded.
        time_ns: Time in the collectives, mean over the ranks.
        wait_ns: Part of it before the last rank arrives, mean over the ranks; None if unknown, as
            for broadcasts and point-to-point exchanges.
        transfer_ns: Part of it after the last rank has arrived; None if unknown.
        bus_bandwidth: Bus bandwidth during transfers as defined by nccl-tests, bytes per second;
            None if unknown.
        split: How exact the division into wait and transfer is. 'exact'; 'bound': `wait_ns` is an
            upper bound (all-to-all: each rank moves bytes of its own) or a lower bound (some ranks
            are not recorded); 'no': not divided.
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
