"""The operation that requested a block of memory, and its phase of the step."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.nesting import innermost_at
from stepwhy.trace import NULL, Kind, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts


class Owners:
    """Finds the operations that requested blocks of memory.

    Args:
        facts: Facts of the run.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._tracks: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def of(self, row: int) -> tuple[str, str]:
        """The operation that requested one block.

        Args:
            row: Row of `allocations`.

        Returns:
            Name of the graph node, or of the operation that the program called, '' if unknown; and
            its phase, which may be 'unknown'.
        """
        trace = self._facts.trace
        owner = int(trace.allocations.owner[row])
        if owner != NULL:
            return trace.string(owner), self._phase_of_node.get(owner, "unknown")
        caller = self._caller(row)
        if caller == NULL:
            return "", "unknown"
        return trace.string(int(trace.slices.name[caller])), self._phase(caller)

    def _phase(self, row: int) -> str:
        return Phase(int(self._facts.phases[row])).name.lower()

    @cached_property
    def _phase_of_node(self) -> dict[int, str]:
        """Phase by the string of a graph node."""
        trace = self._facts.trace
        first = np.full(len(trace.strings) + 1, NULL, dtype=np.int64)  # the last entry is for NULL
        scopes = trace.slices.scope[::-1]
        first[scopes] = np.arange(len(scopes))[::-1]  # the first slice of a node is written last
        nodes = np.flatnonzero(first[:-1] != NULL)
        pairs = zip(nodes.tolist(), first[nodes].tolist(), strict=True)
        return {node: self._phase(row) for node, row in pairs}

    def _caller(self, row: int) -> int:
        """The outermost operation in the innermost group of nested ones around an allocation."""
        innermost = self._innermost(row)
        kinds, parents = self._facts.trace.slices.kind, self._facts.nesting.parent
        caller = NULL
        while innermost != NULL:
            if kinds[innermost] == Kind.OP:
                caller = innermost
            elif caller != NULL:
                return caller
            innermost = int(parents[innermost])
        return caller

    def _innermost(self, row: int) -> int:
        """The innermost slice on the thread of an allocation at its time."""
        table = self._facts.trace.allocations
        track, time_ns = int(table.track[row]), int(table.time_ns[row])
        if track == NULL:
            return NULL
        nesting = self._facts.nesting
        if track not in self._tracks:
            rows = np.flatnonzero(self._facts.trace.slices.track == track)
            self._tracks[track] = rows, self._facts.trace.slices.start_ns[rows]
        rows, starts = self._tracks[track]
        found = innermost_at(nesting, rows, starts, time_ns)
        # If nothing runs at that time, a slice that ends exactly then requested the block.
        return found if found >= 0 else innermost_at(nesting, rows, starts, time_ns - 1)
