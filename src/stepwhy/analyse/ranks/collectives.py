"""The collectives of one rank: when they ran, in which step and process group.

This is all that other ranks need to know of a rank to tell who waited for whom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stepwhy.trace import NULL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


ALL_RANKS = "default_pg"
"""What PyTorch calls the group of all ranks."""


class Role(NamedTuple):
    """What the same collectives on several ranks have in common.

    Args:
        operation: Such as 'all-reduce', or the name of the slice if that does not tell.
        group: Name of the process group; '' if not recorded.
        members: Numbers of its ranks as recorded; '' if not recorded.
        description: What the group is for, e.g. 'tp'; '' if not recorded.
        size: Number of ranks in the group; NULL if not recorded.
    """

    operation: str
    group: str = ""
    members: str = ""
    description: str = ""
    size: int = NULL


class Collectives(msgspec.Struct, frozen=True):
    """The collectives in the steady steps of a rank, in the order in which it launched them.

    Args:
        roles: What they are.
        role: Row of `roles`; (collectives,).
        step: Number of the step; (collectives,).
        start_ns: Start on the clock of the rank; (collectives,).
        dur_ns: Duration; (collectives,).
        bytes: Size of the message, NULL if not recorded; (collectives,).
        steps: Numbers of all steady steps, ascending; (steps,).
        numbering: Where their numbers come from: 'log' for the place in stepwhy's log of steps,
            'marker' for the numbers of the profiler, 'order' for the place in the record.
    """

    roles: tuple[Role, ...]
    role: Ints
    step: Ints
    start_ns: Ints
    dur_ns: Ints
    bytes: Ints
    steps: Ints
    numbering: str
