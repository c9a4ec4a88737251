"""One record of a Chrome trace, and a batch of them with their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import numpy as np

from stepwhy.read.shared.chrome_json.times import ABSENT, read_times, usable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Health

A = TypeVar("A")

SLICE = ord("X")
"""Phase of a complete slice, with start and duration in one record."""


class Event(msgspec.Struct, Generic[A], gc=False):
    """One record; absent keys are None (or '' for the strings that identify a record).

    `ts` and `dur` are the text of the file: times are read from a batch, never from here.
    """

    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: msgspec.Raw = ABSENT
    dur: msgspec.Raw = ABSENT
    pid: int | str | None = None
    tid: int | str | None = None
    args: A | None = None


class Batch(msgspec.Struct, Generic[A], frozen=True):
    """Consecutive records of a file.

    Args:
        events: The records, in file order.
        phase: Code point of every record's `ph`, 0 if it is not a single character; (events,).
        start_ns: Exact start of every record, shape (events,), ns; 0 where `timed` is False.
        dur_ns: Exact duration, ns; 0 if absent.
        timed: Whether the record has a usable time and, if it is a slice, a duration that is not
            negative; count the others with `count_untimed`.
    """

    events: list[Event[A]]
    phase: NDArray[np.uint32]
    start_ns: NDArray[np.int64]
    dur_ns: NDArray[np.int64]
    timed: NDArray[np.bool_]


def batch_of(events: list[Event[A]]) -> Batch[A]:
    """A batch of records and their times.

    Raises:
        NotNumbersError: A time is neither a number nor null.
    """
    start_ns, no_start = read_times([e.ts for e in events])
    dur_ns, endless = read_times([e.dur for e in events])
    phase = _code_points([e.ph for e in events])
    # A slice without a duration is not one of length zero; anything else has none.
    timed = usable(start_ns, dur_ns) & ~no_start & ~(endless & (phase == SLICE))
    return Batch(events, phase, start_ns * timed, dur_ns * timed, timed)


def phases_of(batch: Batch[Any]) -> dict[int, int]:
    """Number of records of each phase in a batch."""
    phases, counts = np.unique(batch.phase, return_counts=True)
    return dict(zip(phases.tolist(), counts.tolist(), strict=True))


def _code_points(phases: list[str]) -> NDArray[np.uint32]:
    joined = "".join(phases)
    if len(joined) != len(phases) or "" in phases:
        joined = "".join(p if len(p) == 1 else "\0" for p in phases)
    return np.frombuffer(joined.encode("utf-32-le"), dtype=np.uint32)


def looks_like_chrome_json(head: bytes) -> bool:
    """Whether the beginning of a file is a Chrome trace: a list or object with event records."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text[:1] in {b"{", b"["} and b'"ph"' in text


def count_untimed(health: Health, count: int) -> None:
    """Count slices that had to be left out because their time is unusable."""
    health.count(
        "unusable-time",
        "warning",
        "Slices without a time or duration, or with a negative or absurd one, were left out.",
        count=count,
        dropped=True,
    )
