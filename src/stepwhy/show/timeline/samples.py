"""Samples of one row of a timeline, each of which holds until the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.result.timeline import TimelineRow, TimelineSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

UNKNOWN: Final = int(np.iinfo(np.int64).min)
"""Value from the time on at which a sampler paused."""
# A sampler that is late by this many usual intervals has paused.
_LONGEST_SAMPLE = 20
# A sampler's only sample says nothing of the time around it.
_ALONE_NS = 1_000_000
# The script computes with floating point numbers; larger ones are sentinels, not measurements.
_LARGEST = 1 << 52


class Sampled(msgspec.Struct, frozen=True):
    """A row of samples; each value holds until the next.

    Args:
        title, group, unit, scale, capacity: As in `TimelineRow` and `TimelineSeries`.
        times_ns: Time of each value, ascending; (values,).
        values: The values, or `UNKNOWN`; (values,).
        samples: Number of samples that they stand for.
    """

    title: str
    group: str
    times_ns: Ints
    values: Ints
    unit: str = ""
    scale: float = 1.0
    capacity: int | None = None
    samples: int = 0

    def row(self) -> TimelineRow:
        """The row, with the range of its values."""
        known = self.values[self.values != UNKNOWN]
        series = TimelineSeries(
            unit=self.unit,
            scale=self.scale,
            values=len(self.values),
            samples=self.samples,
            least=int(known.min(initial=_LARGEST)),
            most=int(known.max(initial=-_LARGEST)),
            capacity=self.capacity,
        )
        return TimelineRow(self.title, self.group, "series", (), series)


def at_distinct_times(times_ns: Ints, values: Ints) -> tuple[Ints, Ints]:
    """The last value at each time."""
    last = np.flatnonzero(np.diff(times_ns, append=UNKNOWN) != 0)
    found = values[last].astype(np.int64)
    found[np.abs(found) > _LARGEST] = UNKNOWN
    return times_ns[last].astype(np.int64), found


def with_pauses(times_ns: Ints, values: Ints) -> tuple[Ints, Ints]:
    """The samples, with `UNKNOWN` one usual interval after the last one before each pause."""
    passed = np.diff(times_ns)
    usual = int(np.median(passed)) if len(passed) else _ALONE_NS
    paused = np.flatnonzero(passed > _LONGEST_SAMPLE * usual)
    paused = np.append(paused, len(times_ns) - 1) if len(times_ns) else paused
    return (
        np.insert(times_ns, paused + 1, times_ns[paused] + usual),
        np.insert(values, paused + 1, UNKNOWN),
    )


def cropped(one: Sampled, begin_ns: int, end_ns: int) -> Sampled | None:
    """The part of a row within a time, with the value that holds at its beginning.

    Args:
        one: The row.
        begin_ns: Begin of the time.
        end_ns: End of the time.

    Returns:
        The part; None if nothing was sampled in it.
    """
    first = max(int(np.searchsorted(one.times_ns, begin_ns, "right")) - 1, 0)
    end = int(np.searchsorted(one.times_ns, end_ns, "right"))
    times_ns, values = np.maximum(one.times_ns[first:end], begin_ns), one.values[first:end]
    samples = int((values != UNKNOWN).sum())
    if not samples:
        return None
    return replace(one, times_ns=times_ns, values=values, samples=samples)


def thinned_samples(one: Sampled, most: int) -> Sampled:
    """Keep about `most` values: the lowest and the highest of neighbours, and all pauses."""
    most = max(most, 4)
    count = len(one.values)
    if count <= most:
        return one
    begins = np.arange(0, count, -(-2 * count // most))
    known = one.values != UNKNOWN
    low = np.where(known, one.values, _LARGEST)
    kept = ~known
    kept[1:] |= ~known[:-1]
    kept[[0, -1]] = True
    size = begins[1] - begins[0] if len(begins) > 1 else count
    for extreme in (low, np.where(known, -one.values, _LARGEST)):
        padded = np.append(extreme, np.full(-count % size, _LARGEST)).reshape(-1, size)
        kept[np.minimum(begins + padded.argmin(axis=1), count - 1)] = True
    rows = np.flatnonzero(kept)
    return replace(one, times_ns=one.times_ns[rows], values=one.values[rows])
