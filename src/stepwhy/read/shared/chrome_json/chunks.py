"""Records of one chunk of the list of events, decoded from valid JSON."""

from __future__ import annotations

import gc
import json
from contextlib import contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json.events import A, Batch, Event, batch_of
from stepwhy.read.shared.chrome_json.times import ABSENT, NotNumbersError, is_time, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepwhy.trace import Health

NOT_JSON = (msgspec.DecodeError, RecursionError)
_CUT_OFF = "truncated"  # in msgspec's message when the text ends too early
_TIMES = ("ts", "dur")
# Another list of records, after one that was never closed.
_FURTHER_LIST = regex(rb"\[\s*\{")


class _Times(msgspec.Struct, gc=False):
    """The times of a record as raw JSON."""

    ts: msgspec.Raw = ABSENT
    dur: msgspec.Raw = ABSENT


class ChunkReader(Generic[A]):
    """Decodes chunks of a list of records.

    A chunk is decoded at once where every record fits the type, else record by record. Only records
    that do not fit are converted from plain objects, so that a damaged record changes no other.

    Args:
        args: msgspec type of the records' `args`.
        health: Counts malformed records.
        event: Type of the records.
    """

    def __init__(self, args: type[A], health: Health, event: Any = Event) -> None:
        self._health = health
        self._event: Any = event[args]
        self._typed: Any = msgspec.json.Decoder(list[self._event])  # type: ignore[name-defined]
        self._single: Any = msgspec.json.Decoder(self._event)
        self._raw_arguments = _raw_fields(args)
        self._raw = msgspec.json.Decoder(list[msgspec.Raw])
        self.ended_early = False
        """Whether the last text that failed to decode ended too early, as after a wrong cut."""

    def read(self, text: bytes | msgspec.Raw) -> Batch[A] | None:
        """The records of a JSON list, None if the text is not one."""
        with _no_collector():
            try:
                return batch_of(self._typed.decode(text))
            except (*NOT_JSON, NotNumbersError):
                pass
            return self.read_singly(text)

    def read_singly(self, text: bytes | msgspec.Raw) -> Batch[A] | None:
        """As `read`, record by record."""
        try:
            raws = self._raw.decode(text)
        except NOT_JSON as error:
            self.ended_early = _CUT_OFF in str(error)
            return None
        if any(map(_FURTHER_LIST.match, raws)):
            self.ended_early = False
            return None
        return self.convert(raws)

    def convert(self, records: Iterable[Any]) -> Batch[A]:
        """Decode records one by one; malformed ones are counted and left out.

        Args:
            records: Records as raw JSON, or as plain objects where they are not valid JSON.
        """
        events = []
        malformed = 0
        for record in records:
            try:
                events.append(self._event_of(record))
            except (msgspec.ValidationError, RecursionError):
                malformed += 1
        self._health.events_read += malformed
        self._health.count(
            "malformed-record",
            "warning",
            "Records whose fields have the wrong type were left out.",
            count=malformed,
            dropped=True,
        )
        return batch_of(events)

    def _event_of(self, record: Any) -> Event[A]:
        if not isinstance(record, msgspec.Raw):
            return self._coerce(record)
        with suppress(*NOT_JSON):
            event: Event[A] = self._single.decode(record)
            if is_time(event.ts) and is_time(event.dur):
                return event
        return self._coerce(_object(record))

    def _coerce(self, record: Any) -> Event[A]:
        if not isinstance(record, dict):
            raise msgspec.ValidationError("no object")
        # A null is no value, also where null is not of the field's type.
        rest = {k: v for k, v in record.items() if k not in _TIMES and v is not None}
        args = rest.get("args")
        if self._raw_arguments and isinstance(args, dict):
            rest["args"] = args | {
                key: msgspec.Raw(json.dumps(args[key]).encode())
                for key in self._raw_arguments & args.keys()
            }
        event: Event[A] = msgspec.convert(rest, self._event, strict=False)
        event.ts, event.dur = (_text(record.get(key)) for key in _TIMES)
        return event


def _raw_fields(args: Any) -> frozenset[str]:
    """Keys of a struct whose values stay raw JSON."""
    if not isinstance(args, type(msgspec.Struct)):
        return frozenset()
    fields = msgspec.structs.fields(args)
    return frozenset(field.encode_name for field in fields if field.type is msgspec.Raw)


def _text(value: Any) -> msgspec.Raw:
    return value if isinstance(value, msgspec.Raw) else text_of(value)


def _object(raw: msgspec.Raw) -> Any:
    """A record as a plain object, with numeric times as raw JSON."""
    try:
        record = msgspec.json.decode(raw)
    except NOT_JSON:  # a number beyond the range of doubles
        record = json.loads(bytes(raw), parse_int=_integer)
    if isinstance(record, dict):
        times = msgspec.json.decode(raw, type=_Times)
        written = {key: getattr(times, key) for key in _TIMES}
        record |= {key: text for key, text in written.items() if _is_number(record.get(key))}
    return record


def _integer(digits: str) -> int | float:
    """An integer; infinite where it has more digits than Python converts."""
    try:
        return int(digits)
    except ValueError:
        return inf


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Pause cyclic garbage collection, which costs more than decoding thousands of records."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
