"""Process groups that move the same bytes more slowly than other groups like them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.lateness.ledger import rows_of_role
from stepwhy.analyse.ranks.others import median_of_others
from stepwhy.analyse.ranks.sign_test import CHANCE, sign_test
from stepwhy.read.kernel_names.collectives import bus_bandwidth
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.lateness.ledger import Ledger
    from stepwhy.analyse.ranks.collectives import Role

    Ints = NDArray[np.int64]

# Transfers of the same bytes over equal links differ by less than this factor.
_SLOWER = 1.3
# Groups with as many bytes per step, within this share, move the same ones.
_SAME_BYTES = 0.01


class SlowGroup(msgspec.Struct, frozen=True):
    """A group whose transfers take longer than those of other groups of the same size and bytes.

    Args:
        ranks: Numbers of its ranks.
        role: What its collectives are.
        transfer_ns: Time in which its data moves, in the mean step.
        usual_ns: The same of the other groups, their median.
        cost_ns: How much longer it takes in the mean step.
        bytes: Bytes of its messages in a step.
        slow_steps: Number of steps in which it is slow.
        steps: Number of steps that were compared.
        groups: Number of groups that were compared.
    """

    ranks: tuple[int, ...]
    role: Role
    transfer_ns: int
    usual_ns: int
    cost_ns: int
    bytes: int
    slow_steps: int
    steps: int
    groups: int

    @property
    def bus_bandwidth(self) -> int | None:
        """Bytes per second over each of its links, as nccl-tests define it; None if unknown."""
        return self._rate(self.transfer_ns)

    @property
    def usual_bandwidth(self) -> int | None:
        """The same of the other groups."""
        return self._rate(self.usual_ns)

    def _rate(self, time_ns: int) -> int | None:
        return bus_bandwidth(self.role.operation, self.role.size, self.bytes, time_ns)


def find_slow_groups(ledger: Ledger) -> tuple[SlowGroup, ...]:
    """The groups that are slow in more steps than by chance, the costliest first.

    Args:
        ledger: The ledger of all ranks.
    """
    rows = _measured(ledger)
    found = [
        group for places in comparable_groups(ledger) for group in _compare(ledger, rows, places)
    ]
    return tuple(sorted(found, key=lambda group: -group.cost_ns))


def comparable_groups(ledger: Ledger) -> list[list[int]]:
    """Sets of groups with the same operation, purpose and size, as rows of `Ledger.roles`."""
    alike = defaultdict(list)
    for place in np.unique(ledger.role[_measured(ledger)]).tolist():
        role = ledger.roles[place]
        alike[role.operation, role.description, role.size].append(place)
    return [places for places in alike.values() if len(places) > 1]


def _measured(ledger: Ledger) -> Ints:
    """The first row of each collective whose transfer and bytes are known."""
    known = ledger.split & ledger.complete & (ledger.bytes != NULL)
    return np.flatnonzero(known & np.diff(ledger.collective, prepend=-1).astype(bool))


def _compare(ledger: Ledger, rows: Ints, places: Sequence[int]) -> Iterator[SlowGroup]:
    """The slow ones of some groups of one size and purpose.

    Args:
        ledger: The ledger.
        rows: The first row of each collective whose transfer and bytes are known.
        places: The groups: rows of `Ledger.roles`.
    """
    role = ledger.role[rows]  # ascending
    mine = [rows[rows_of_role(role, place)] for place in places]
    times = np.array([_per_step(ledger, some, ledger.transfer_ns) for some in mine])
    sizes = np.array([_per_step(ledger, some, ledger.bytes) for some in mine])
    usual = np.median(sizes, axis=0)
    is_same = (np.abs(sizes - usual) <= _SAME_BYTES * usual).all(axis=1)
    times, sizes = times[is_same], sizes[is_same]
    if len(times) < 2:
        return
    others = median_of_others(times)
    is_slow = times >= _SLOWER * others
    chances = sign_test(is_slow) * len(times)
    for at, place in enumerate(np.array(places)[is_same].tolist()):
        if chances[at] <= CHANCE:
            ranks = np.unique(ledger.rank[rows_of_role(ledger.role, place)]).tolist()
            yield SlowGroup(
                ranks=tuple(ledger.ranks[rank] for rank in ranks),
                role=ledger.roles[place],
                transfer_ns=round(float(times[at].mean())),
                usual_ns=round(float(others[at].mean())),
                cost_ns=round(float((times[at] - others[at]).mean())),
                bytes=round(float(sizes[at].mean())),
                slow_steps=int(is_slow[at].sum()),
                steps=times.shape[1],
                groups=len(times),
            )


def _per_step(ledger: Ledger, rows: Ints, values: Ints) -> Ints:
    """Sums of a column in each step; (steps,)."""
    step = np.searchsorted(ledger.steps, ledger.step[rows])
    sums = np.zeros(len(ledger.steps), dtype=np.int64)
    np.add.at(sums, step, values[rows])
    return sums
