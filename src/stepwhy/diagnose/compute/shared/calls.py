"""Kernels of an eager program in the order of its operations."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.groups import distinct, numbered
from stepwhy.base.columns.sums import total_of
from stepwhy.base.columns.types import AnyRows, Mask
from stepwhy.diagnose.shared.measure import mean_within, nearest, time_of
from stepwhy.result import Evidence
from stepwhy.trace import NULL, Kind

NOT_ATTRIBUTED = "For most kernels, the trace does not record which operation launched them."
_FEWEST_KNOWN = 0.5  # of the kernels' time; replayed graphs record no operations


def attributed(facts: Facts) -> float:
    """Share of the kernel time whose launching operation is known, 0..1; 1 on a CPU."""
    slices, launches = facts.trace.slices, facts.launches
    if not facts.has_accelerator:
        return 1.0
    work, calls = launches.joined
    is_named = np.zeros(len(slices), dtype=bool)
    is_named[work[nearest(facts, Kind.OP)[calls] != NULL]] = True
    rows = facts.slices(Kind.KERNEL, steady=True)
    named, whole = total_of(slices.dur_ns[rows[is_named[rows]]]), total_of(slices.dur_ns[rows])
    return named / max(whole, 1) if len(rows) else 1.0


def attributes_calls(facts: Facts) -> bool:
    """Whether most kernels are known to be of an operation."""
    return attributed(facts) >= _FEWEST_KNOWN


class Calls(msgspec.Struct, frozen=True):
    """Kernels of the steady steps by thread, in the order in which they were launched.

    Args:
        rows: The kernels; (calls,).
        ops: The operation that launched each; (calls,).
        tracks: The thread that called it; (calls,).
    """

    rows: AnyRows
    ops: AnyRows
    tracks: AnyRows

    def on_busiest_device(self, facts: Facts) -> tuple[Calls, str]:
        """The calls of the device whose kernels take longest, and its name; '' for the only one.

        Devices work at the same time, so that the longest one decides how long the step is.
        """
        trace = facts.trace
        devices = trace.tracks.device[trace.slices.track[self.rows]]
        known, place = numbered(devices)
        if len(known) < 2:
            return self, ""
        busiest = int(np.argmax(np.bincount(place, weights=trace.slices.dur_ns[self.rows])))
        chosen = place == busiest
        calls = Calls(self.rows[chosen], self.ops[chosen], self.tracks[chosen])
        return calls, trace.string(int(trace.devices.name[known[busiest]]))

    def host_ns(self, facts: Facts, chosen: Mask) -> int:
        """Time per step in which the host runs the operations of some calls, launches included, ns.

        Args:
            facts: Facts of the run.
            chosen: Mask of calls; (calls,).
        """
        return mean_within(facts, time_of(facts, distinct(self.ops[chosen])))

    def matching(self, facts: Facts, patterns: Sequence[re.Pattern[str]]) -> NDArray[np.int8]:
        """Index of the first pattern that the whole name of each operation matches, or -1.

        Args:
            facts: Facts of the run.
            patterns: Patterns of operations; (any,).
        """
        names, place = numbered(facts.trace.slices.name[self.ops])
        texts = [facts.trace.string(int(name)) for name in names]
        first = [next((i for i, p in enumerate(patterns) if p.fullmatch(t)), -1) for t in texts]
        return np.array(first, np.int8)[place]


def on_device(evidence: tuple[Evidence, ...], device: str) -> tuple[Evidence, ...]:
    """Evidence that begins with the device that it is about; unchanged if it is the only one."""
    if not device:
        return evidence
    return (*evidence[:1], Evidence("of several devices, the busiest", device, ""), *evidence[1:])


def calls_in_order(facts: Facts) -> Calls:
    """Kernels of the steady steps whose operation is known, in the order of their launches."""
    slices = facts.trace.slices
    rows, calls = facts.launches.joined
    ops = nearest(facts, Kind.OP)[calls]
    chosen = (ops != NULL) & facts.is_steady[rows] & (slices.kind[rows] == Kind.KERNEL)
    rows, calls, ops = rows[chosen], calls[chosen], ops[chosen]
    order = np.lexsort((slices.start_ns[calls], slices.track[calls]))
    return Calls(rows[order], ops[order], slices.track[calls][order])


def operations_in_order(facts: Facts) -> Calls:
    """Operations of the steady steps by thread, as calls: what a CPU runs, whatever calls it."""
    rows = facts.slices(Kind.OP, steady=True)
    slices = facts.trace.slices
    rows = rows[np.lexsort((slices.start_ns[rows], slices.track[rows]))]
    return Calls(rows, rows, slices.track[rows])


def converting(facts: Facts, calls: Calls) -> AnyRows:
    """The operation inside which each call converts a type, as autocast does; (calls,).

    NULL for other calls, and for conversions that the program wrote.
    """
    names, around = facts.trace.slices.name, nearest(facts, Kind.OP)
    causes = calls.ops.copy()
    for name in ("aten::copy_", "aten::_to_copy", "aten::to"):
        known = causes != NULL
        known[known] = np.isin(names[causes[known]], facts.trace.strings_where([name]))
        above = np.where(known, facts.nesting.parent[causes], NULL)
        causes = np.where(above == NULL, NULL, around[above])
    return causes
