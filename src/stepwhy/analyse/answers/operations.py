"""The table of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.result import Op

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts

# Most rows of the op table per device; the other operations take too little time to matter.
_OPS_PER_DEVICE = 100


def operations_of(facts: Facts) -> tuple[Op, ...]:
    """The operations that take the most time, each over the mean steady step."""
    return tuple(
        Op(
            name=row.name,
            device=row.device,
            phase=row.phase.name.lower(),
            count=round(row.count / max(facts.steady_count, 1), 2),
            total_ns=facts.mean_ns(row.total_ns),
            self_ns=facts.mean_ns(row.self_ns),
            bytes=None if row.bytes is None else facts.mean_ns(row.bytes),
        )
        for row in facts.ops.largest(_OPS_PER_DEVICE)
    )
