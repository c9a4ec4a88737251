"""Chrome trace JSON as records: shared by every importer whose format is built on it.

Three readers, from fast to forgiving, with the same result: a typed decode of the whole file; an
untyped decode whose records are coerced one by one; and a scan for complete records when the text
is not JSON (truncated, NaN, trailing commas). The JSON itself is parsed by `msgspec`; only the
scan is written here, because no library salvages a torn file.

Source: the "Trace Event Format" document of the Chromium project (JSON array and object formats).
"""

from __future__ import annotations

import gc
import json
import re
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import numpy as np

from stepwhy.errors import CorruptInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.source import Source
    from stepwhy.trace import Health

A = TypeVar("A")
Number = int | float | None

# Below this, a double holds microseconds with an error under half a nanosecond, and trace files
# write at most three decimals: the rounded nanosecond is the written one.
_EXACT_AS_DOUBLE_US = 2.0**43
# Beyond this (146 years) nanoseconds may leave int64 once a file's clock offset is added.
LARGEST_NS = 2**62
_LARGEST_US = LARGEST_NS / 1000
# A torn file is worth a search for its next record, a file of another kind is not.
_RESYNC_LIMIT = 1000


class Event(msgspec.Struct, Generic[A], gc=False):
    """One record; absent keys are None (or '' for the strings that identify a record)."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: Number = None
    dur: Number = None
    pid: int | str | None = None
    tid: int | str | None = None
    args: A | None = None


class _ExactTimes(msgspec.Struct, gc=False):
    """The times of a record as they are written."""

    ts: int | Decimal | None = None
    dur: int | Decimal | None = None


class _Events(msgspec.Struct, Generic[A]):
    traceEvents: list[Event[A]]  # noqa: N815 - the format's own spelling


class _ExactDocument(msgspec.Struct):
    traceEvents: list[_ExactTimes]  # noqa: N815 - the format's own spelling


class Records(msgspec.Struct, Generic[A]):
    """What a Chrome trace file holds.

    Args:
        events: All records that could be read, in file order.
        header: The object's other keys ({} for a top-level list).
        start_ns: Exact start of every record, shape (events,), ns; 0 where `timed` is False.
        dur_ns: Exact duration, ns; 0 where none is written.
        timed: Whether the record has a usable time and, if it is a slice, a duration that is not
            negative; count the others with `count_untimed`.
        complete: False when the file ended early: records after that point are unknown.
    """

    events: list[Event[A]]
    header: dict[str, Any]
    start_ns: Any
    dur_ns: Any
    timed: Any
    complete: bool


def looks_like_chrome_json(head: bytes) -> bool:
    """Whether the beginning of a file is a Chrome trace: a list or object with event records."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text[:1] in {b"{", b"["} and b'"ph"' in text


def read_records(source: Source, args: type[A], health: Health) -> Records[A]:
    """Read every record of a Chrome trace file.

    Sets `health.events_read` to the number of records and counts what was lost or repaired.

    Args:
        source: The file.
        args: msgspec type of the records' `args`.
        health: Counters to fill.

    Raises:
        CorruptInputError: The file holds not a single complete record.
    """
    with _no_collector():
        data = _valid_utf8(source.data.removeprefix(b"\xef\xbb\xbf"), health)
        events, header, complete = _decode(data, args, source, health)
        health.events_read += len(events)
        start_ns, dur_ns, timed = _times(events, data, health)
    return Records(events, header, start_ns, dur_ns, timed, complete)


def count_untimed(health: Health, count: int) -> None:
    """Count slices that had to be left out because their time is unusable."""
    health.count(
        "unusable-time",
        "warning",
        "Slices without a time or duration, or with a negative or absurd one, were left out.",
        count=count,
        dropped=True,
    )


@contextmanager
def _no_collector() -> Iterator[None]:
    """Cyclic garbage collection over a million fresh records costs more than decoding them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _valid_utf8(data: bytes, health: Health) -> bytes:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        health.count(
            "invalid-utf8",
            "warning",
            "The file is not UTF-8 throughout; the offending bytes in names were replaced.",
            dropped=False,
        )
        return data.decode("utf-8", errors="replace").encode()
    return data


def _decode(
    data: bytes, args: type[A], source: Source, health: Health
) -> tuple[list[Event[A]], dict[str, Any], bool]:
    is_list = data.lstrip(b" \t\r\n")[:1] == b"["
    header: dict[str, Any] = {}
    complete = True
    try:
        if is_list:
            events = msgspec.json.decode(data, type=list[Event[args]])  # type: ignore[valid-type]
        else:
            events = msgspec.json.decode(data, type=_Events[args]).traceEvents  # type: ignore[valid-type]
            header = _header(data)
    except (msgspec.DecodeError, RecursionError):
        records, header, complete = _decode_forgiving(data, is_list, source, health)
        events = _convert(records, args, health)
    if not events:
        raise CorruptInputError(
            f"{source.origin} holds no complete trace event",
            "Record the trace again, or check that the copy is complete",
        )
    return events, header, complete


def _header(data: bytes) -> dict[str, Any]:
    """All keys but the events, without decoding the events a second time."""
    fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    return {k: msgspec.json.decode(v) for k, v in fields.items() if k != "traceEvents"}


def _decode_forgiving(
    data: bytes, is_list: bool, source: Source, health: Health
) -> tuple[list[Any], dict[str, Any], bool]:
    """Records as plain objects, from JSON of unexpected types or from text that is not JSON."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _salvage(data.decode("utf-8"), is_list, health)
    if is_list:
        return document, {}, True
    events = document.pop("traceEvents", None) if isinstance(document, dict) else None
    if not isinstance(events, list):
        raise CorruptInputError(
            f"{source.origin} is a JSON object without a list of traceEvents",
            "Give the trace file that the profiler wrote",
        )
    return events, document, True


def _convert(records: list[Any], args: type[A], health: Health) -> list[Event[A]]:
    """Coerce plain objects one by one; what does not fit is counted and left out."""
    events = []
    malformed = 0
    for record in records:
        try:
            events.append(msgspec.convert(record, Event[args], strict=False))  # type: ignore[valid-type]
        except (msgspec.ValidationError, RecursionError):
            malformed += 1
    health.events_read += malformed
    health.count(
        "malformed-record",
        "warning",
        "Records whose fields have the wrong type were left out.",
        count=malformed,
        dropped=True,
    )
    return events


_EVENTS_KEY = re.compile(r'"traceEvents"\s*:\s*\[')
_NEXT_RECORD = re.compile(r",\s*(?=\{)")
_SEPARATOR = re.compile(r"[\s,]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DECODER = json.JSONDecoder(strict=False)


def _salvage(text: str, is_list: bool, health: Health) -> tuple[list[Any], dict[str, Any], bool]:
    """Every complete record of a text that is not JSON as a whole."""
    found = _EVENTS_KEY.search(text)
    if not is_list and found is None:
        return [], {}, False
    position = text.index("[") + 1 if is_list or found is None else found.end()
    clean = _encodable if _SURROGATE.search(text) else _as_it_is
    records: list[Any] = []
    broken = 0
    while True:
        position = _skip(text, position)
        if position >= len(text) or text[position] == "]":
            break
        try:
            record, end = _DECODER.raw_decode(text, position)
            records.append(clean(record))
            position = end
        except (ValueError, RecursionError):
            broken += 1
            position = _resync(text, position) if broken <= _RESYNC_LIMIT else len(text)
    complete = position < len(text)
    _count_damage(health, broken, complete)
    header = _head_of_object(text, found.start()) if found is not None else {}
    return records, header, complete


def _resync(text: str, position: int) -> int:
    """Where the next record begins after a damaged one, the end of the text if there is none.

    Objects in the arguments of the damaged record come before it; they have no `ph`.
    """
    for attempt, found in enumerate(_NEXT_RECORD.finditer(text, position + 1)):
        try:
            candidate, _ = _DECODER.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            candidate = None
        if isinstance(candidate, dict) and "ph" in candidate:
            return found.end()
        if attempt > _RESYNC_LIMIT:
            break
    return len(text)


def _as_it_is(value: Any) -> Any:
    return value


def _encodable(value: Any) -> Any:
    """Text without lone surrogates: JSON can spell them, but no file or terminal takes them."""
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    if isinstance(value, dict):
        return {_encodable(k): _encodable(v) for k, v in value.items()}
    return [_encodable(v) for v in value] if isinstance(value, list) else value


def _skip(text: str, position: int) -> int:
    match = _SEPARATOR.match(text, position)
    return match.end() if match else position


def _count_damage(health: Health, broken: int, complete: bool) -> None:
    health.events_read += broken
    health.count(
        "unreadable-record",
        "error",
        "Damaged records were left out, and whatever they covered is missing.",
        count=broken,
        dropped=True,
    )
    if not complete:
        health.count(
            "json-truncated",
            "error",
            "The file ends before its list of events does: later events are missing. "
            "Totals and steps cover the readable part only. Copy the trace again or let the "
            "profiler finish writing.",
            dropped=False,
        )


def _head_of_object(text: str, events_at: int) -> dict[str, Any]:
    """The keys before the events, where a torn file still has them whole."""
    try:
        header = _encodable(json.loads(text[:events_at].rstrip().rstrip(",") + "}"))
    except (ValueError, RecursionError):
        return {}
    return header if isinstance(header, dict) else {}


def _times(
    events: Sequence[Event[A]], data: bytes, health: Health
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    starts = _as_float([e.ts for e in events])
    durations = _as_float([0 if e.dur is None else e.dur for e in events])
    # A slice without a duration is not one of length zero; anything else has none.
    endless = np.asarray([e.ph == "X" and e.dur is None for e in events], dtype=bool)
    usable = (np.abs(starts) < _LARGEST_US) & ~endless  # False for NaN
    with np.errstate(over="ignore"):
        good = usable & (durations >= 0) & (starts + durations < _LARGEST_US)
    start_ns, dur_ns = _to_ns(starts, good), _to_ns(durations, good)
    large = good & (np.abs(starts) >= _EXACT_AS_DOUBLE_US)
    rounded = _refine(events, data, np.flatnonzero(large), start_ns, dur_ns)
    health.count(
        "rounded-time",
        "info",
        "Fractions of large times were rounded, by under a microsecond, since the file is damaged.",
        count=rounded,
        dropped=False,
    )
    return start_ns, dur_ns, good


def _as_float(values: list[Number]) -> NDArray[np.float64]:
    try:
        return np.asarray([np.nan if v is None else v for v in values], dtype=np.float64)
    except OverflowError:  # an integer of over 300 digits is as unusable as none at all
        return np.asarray([np.nan if v is None or abs(v) > _LARGEST_US else v for v in values])


def _to_ns(us: NDArray[np.float64], good: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Whole and fractional part apart: the product of a large double would round."""
    us = np.where(good, us, 0.0)
    whole = np.floor(us)
    return whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64)


def _refine(
    events: Sequence[Event[A]],
    data: bytes,
    rows: NDArray[np.int64],
    start_ns: NDArray[np.int64],
    dur_ns: NDArray[np.int64],
) -> int:
    """Exact times for records whose time is too large for a double; how many are not exact."""
    integers = np.asarray([isinstance(events[r].ts, int) for r in rows], dtype=bool)
    for row in rows[integers]:
        start_ns[row] = int(events[row].ts or 0) * 1000
    if integers.all():
        return 0
    exact = _exact_times(data)
    if exact is None or len(exact) != len(events):
        return int((~integers).sum())  # damaged text: the nearest double is the best there is
    for row in rows[~integers]:
        start_ns[row] = _decimal_ns(exact[row].ts, int(start_ns[row]))
        dur_ns[row] = _decimal_ns(exact[row].dur, int(dur_ns[row]))
    return 0


def _exact_times(data: bytes) -> list[_ExactTimes] | None:
    try:
        if data.lstrip(b" \t\r\n")[:1] == b"[":
            return msgspec.json.decode(data, type=list[_ExactTimes])
        return msgspec.json.decode(data, type=_ExactDocument).traceEvents
    except msgspec.DecodeError:
        return None


def _decimal_ns(value: int | Decimal | None, fallback: int) -> int:
    if value is None:
        return fallback
    try:
        return int((Decimal(value) * 1000).to_integral_value())
    except InvalidOperation:
        return fallback
