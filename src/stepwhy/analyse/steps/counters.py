"""Series of sampled values: of one counter, of the machine or of one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.trace import NULL, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace


class Series(msgspec.Struct, frozen=True):
    """Samples of one counter, in order of time.

    Args:
        times_ns: Time of each sample; (samples,).
        values: Value of each sample; (samples,).
    """

    times_ns: NDArray[np.int64]
    values: NDArray[np.int64]

    @property
    def last(self) -> int | None:
        """The last sample; None if there is none."""
        return int(self.values[-1]) if len(self.values) else None

    @property
    def largest(self) -> int | None:
        """The largest sample; None if there is none."""
        return int(self.values.max()) if len(self.values) else None

    @property
    def growth(self) -> int | None:
        """Growth of a running total from its first to its last sample; None with fewer than two."""
        return int(self.values[-1] - self.values[0]) if len(self.values) > 1 else None

    @property
    def share_of_time(self) -> float | None:
        """Growth of a total of nanoseconds as a share of the time that passed, 0..1."""
        growth = self.growth
        if growth is None or self.times_ns[-1] <= self.times_ns[0]:
            return None
        return min(max(growth / int(self.times_ns[-1] - self.times_ns[0]), 0.0), 1.0)

    @property
    def per_second(self) -> float | None:
        """Growth of a running total per second; None without two samples at different times."""
        growth = self.growth
        if growth is None or self.times_ns[-1] <= self.times_ns[0]:
            return None
        return growth * 1e9 / int(self.times_ns[-1] - self.times_ns[0])

    def between(self, first_ns: int, last_ns: int) -> Series:
        """The samples from one time to another, both included."""
        inside = (self.times_ns >= first_ns) & (self.times_ns <= last_ns)
        return Series(self.times_ns[inside], self.values[inside])

    @property
    def mean(self) -> float | None:
        """Mean weighted by time, because sampling intervals grow in a long run; None if empty."""
        if not len(self.values):
            return None
        if len(self.values) == 1 or self.times_ns[-1] <= self.times_ns[0]:
            return float(self.values.mean())
        span_ns = int(self.times_ns[-1] - self.times_ns[0])
        levels = (self.values[1:] + self.values[:-1]) / 2
        return float((levels * np.diff(self.times_ns)).sum()) / span_ns

    def where(self, mask: int) -> Series:
        """A series that is 1 if a sample has any of these bits, else 0."""
        return Series(self.times_ns, ((self.values & mask) != 0).astype(np.int64))


def series(trace: Trace, name: str, device: int = NULL) -> Series:
    """The samples of a counter, in order of time.

    Args:
        trace: The trace.
        name: The counter.
        device: Row of `devices`; NULL for a counter of no device.
    """
    counters, names = trace.counters, trace.strings_where([name]).tolist()
    ours = among(counters.name, names) & (counters.device == device)
    return Series(counters.time_ns[ours], counters.value[ours])
