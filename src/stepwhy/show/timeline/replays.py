"""Rows for the device work of replayed steps, one per stream and fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.answers.drawn_categories import categories_of
from stepwhy.base.columns.groups import by_code
from stepwhy.show.timeline.rows import lanes_of, row_of
from stepwhy.show.timeline.slices import Drawn, drawn, thinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.result.timeline import TimelineRow

    Ints = NDArray[np.int64]


class Replayed(Protocol):
    """The device work of a step after a fix."""

    @property
    def fix(self) -> str:
        """Id of the finding."""

    @property
    def rows(self) -> Ints:
        """Slices of the trace; (slices,)."""

    @property
    def start_ns(self) -> Ints:
        """Start of each slice after the fix; (slices,)."""

    @property
    def end_ns(self) -> Ints:
        """End of each slice after the fix; (slices,)."""


def replay_rows(
    facts: Facts, replays: Sequence[Replayed], label: Ints, first: int, most: int
) -> tuple[list[TimelineRow], list[Drawn]]:
    """The rows of replayed steps, and their slices.

    Args:
        facts: Facts of the trace.
        replays: The steps.
        label: Label of each slice of the trace; (slices,).
        first: Number of the first strip.
        most: Number of slices to keep; neighbouring short ones are merged beyond it.
    """
    category = categories_of(facts) if replays else np.empty(0, dtype=np.int64)
    rows: list[TimelineRow] = []
    slices: list[Drawn] = []
    for one in replays:
        parts = []
        order, begins = by_code(facts.trace.slices.track[one.rows])
        for some in np.split(order, begins[1:]) if len(order) else []:
            lane, placed = _in_lanes(one, some)
            counts = np.bincount(lane).tolist()
            recorded = one.rows[placed]
            parts.append(
                drawn(
                    lane + first, one.start_ns[placed], one.end_ns[placed],
                    category[recorded], label=label[recorded],
                )
            )  # fmt: skip
            row = row_of(facts.trace, int(facts.trace.slices.track[recorded[0]]), counts)
            rows.append(replace(row, role="replay", fix=one.fix))
            first += len(counts)
        slices += [thinned(part, most // (len(replays) * len(parts)))[0] for part in parts]
    return rows, slices


def _in_lanes(one: Replayed, some: Ints) -> tuple[Ints, Ints]:
    """Lanes in which slices of a stream do not overlap; and the slices by lane, then start."""
    some = some[np.argsort(one.start_ns[some], kind="stable")]
    lane = lanes_of(one.start_ns[some], (one.end_ns - one.start_ns)[some])
    order = np.argsort(lane, kind="stable")
    return lane[order], some[order]
