"""Bytes and rate of collectives whose arguments the trace records."""

from __future__ import annotations

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.units import NS_PER_S
from stepwhy.diagnose.shared.ddp import all_reduces
from stepwhy.diagnose.shared.measure import time_of
from stepwhy.result import Evidence

SLOW = 4e9
"""Bytes per second; any link between GPUs in one machine carries more. PCIe 3.0 x16 has 16e9."""

_LARGE = 1_048_576  # bytes; in smaller ones, latency decides how long they take


class Buckets(msgspec.Struct, frozen=True):
    """The large all-reduces of a step.

    Args:
        count: Mean number per step.
        total_bytes: Mean bytes per step.
        largest_bytes: Bytes of the largest.
    """

    count: float
    total_bytes: float
    largest_bytes: int


def find_buckets(facts: Facts) -> Buckets | None:
    """The large all-reduces of a step; None if there are none, or their sizes are not recorded."""
    sizes = facts.trace.slices.bytes[all_reduces(facts)]
    large = sizes[sizes >= _LARGE]
    if not len(large):
        return None
    steps = max(facts.steady_count, 1)
    return Buckets(len(large) / steps, float(large.sum()) / steps, int(large.max()))


def bytes_per_s(facts: Facts) -> float | None:
    """Rate of the large collectives of the steady steps; None if no size is recorded.

    It is the size of the message by the time until it is exchanged, waiting for others included.
    """
    rows = _large(facts)
    dur_ns = time_of(facts, rows).total_ns
    if not dur_ns:
        return None
    return float(facts.trace.slices.bytes[rows].sum()) * NS_PER_S / dur_ns


def rate_evidence(facts: Facts) -> tuple[Evidence, ...]:
    """The rate, and the sizes that it is judged by."""
    rate = bytes_per_s(facts)
    if rate is None:
        return ()
    sizes = facts.trace.slices.bytes[_large(facts)]
    found = [Evidence("exchanged per second in large collectives", round(rate), "bytes")]
    found.extend(
        Evidence("size of a large collective", int(size), "bytes")
        for size in sorted(distinct(sizes).tolist(), reverse=True)[:2]
    )
    return tuple(found)


def _large(facts: Facts) -> AnyRows:
    """Collectives whose library recorded their size, ascending."""
    recorded = np.sort(facts.trace.collectives.slice)
    rows = facts.in_steady(recorded)
    chosen: AnyRows = rows[facts.trace.slices.bytes[rows] >= _LARGE]
    return chosen
