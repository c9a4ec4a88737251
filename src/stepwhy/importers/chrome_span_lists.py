"""Ranges of a Chrome trace that two records tell: a begin and an end, on a thread or by an id.

Shared by the importers of formats that are built of such pairs.

Source: the "Trace Event Format" document of the Chromium project: duration events ('B', 'E', 'X'),
nestable async events ('b', 'e', 'n') and the older 'S', 'F'; a list need not be closed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from stepwhy.importers.chrome_json import count_untimed
from stepwhy.importers.source import Source

if TYPE_CHECKING:
    from collections.abc import Hashable

    from stepwhy.importers.chrome_json import Records
    from stepwhy.trace import Health

_ENDS_BETWEEN_RECORDS = re.compile(rb"\}[\s,]*\Z")
_BEGINS = frozenset("BbS")
_ON_THREAD = frozenset("BE")
_ASYNC = frozenset("beSF")
# Ranges of one thread that overlap without nesting are few; beyond this many the names are noise.
_DEEPEST_SEARCH = 64

Ids: TypeAlias = "list[Hashable] | None"


class Span(NamedTuple):
    """A range.

    Args:
        first: The record that begins it, or is all of it.
        last: The record that ends it.
        start_ns: Its start.
        dur_ns: Its duration, not negative.
    """

    first: int
    last: int
    start_ns: int
    dur_ns: int

    @property
    def end_ns(self) -> int:
        """Its end."""
        return self.start_ns + self.dur_ns


class _Identity(msgspec.Struct, gc=False):
    id: Any = None
    id2: Any = None


class _Identities(msgspec.Struct):
    traceEvents: list[_Identity]  # noqa: N815 - the format's own spelling


def close_list(source: Source, health: Health) -> Source:
    """A file whose list of records was never closed, closed; any other as it is.

    Writers that append leave out the bracket, so that nothing is lost where the text ends between
    two records. A text that ends inside of one was cut off and stays so.
    """
    data = source.data.removeprefix(b"\xef\xbb\xbf").strip()
    if source.truncated or not data.startswith(b"[") or not _ENDS_BETWEEN_RECORDS.search(data):
        return source
    health.count(
        "unclosed-list",
        "info",
        "The list of events is never closed, as writers leave it that append to it.",
        dropped=False,
    )
    closed = data.rstrip(b", \t\r\n") + b"]"
    return Source(closed, source.origin, source.path)


def read_ids(source: Source, count: int) -> Ids:
    """What tells the ranges of async records apart, one per record; None in a damaged file.

    Args:
        source: The file.
        count: How many records it has.
    """
    try:
        if source.data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
            found = msgspec.json.decode(source.data, type=list[_Identity])
        else:
            found = msgspec.json.decode(source.data, type=_Identities).traceEvents
    except (msgspec.DecodeError, RecursionError):
        return None
    return [_id_of(f) for f in found] if len(found) == count else None


def _id_of(identity: _Identity) -> Hashable:
    """An id with its namespace: {'local': x} is one of its process."""
    if isinstance(identity.id2, dict) and identity.id2:
        return tuple(sorted((str(k), str(v)) for k, v in identity.id2.items()))
    return None if identity.id is None else str(identity.id)


def spans_of(records: Records[Any], health: Health) -> list[Span]:
    """The ranges on threads, in the order in which they end; records are kept or counted.

    An end closes the innermost open range of its thread that has its name; without a name, or
    without such a range, the innermost one.

    Args:
        records: The file's records.
        health: Takes what is no range.
    """
    events, is_timed = records.events, records.timed.tolist()
    starts, durations = records.start_ns.tolist(), records.dur_ns.tolist()
    complete = [i for i, e in enumerate(events) if e.ph == "X"]
    spans = [Span(i, i, starts[i], durations[i]) for i in complete if is_timed[i]]
    count_untimed(health, len(complete) - len(spans))
    health.events_kept += len(spans)
    rows = [i for i, e in enumerate(events) if e.ph in _ON_THREAD]
    keys = {i: (_hashable(events[i].pid), _hashable(events[i].tid)) for i in rows}
    return spans + _pair(records, rows, keys, health)


def async_spans_of(records: Records[Any], ids: Ids, health: Health) -> list[Span]:
    """The ranges that an id, not a thread, holds together; records are kept or counted.

    Args:
        records: The file's records.
        ids: As `read_ids` gives them.
        health: Takes what is no range.
    """
    events = records.events
    rows = [i for i, e in enumerate(events) if e.ph in _ASYNC]
    known = [i for i in rows if ids is not None and ids[i] is not None]
    health.count(
        "async-without-id",
        "warning",
        "Beginnings and ends that no id joins were left out.",
        count=len(rows) - len(known),
        dropped=True,
    )
    # An id in a namespace of its own (a tuple) may be local to the process.
    keys: dict[int, Hashable] = {}
    for i in known:
        one = ids[i] if ids is not None else None
        process = _hashable(events[i].pid) if isinstance(one, tuple) else None
        keys[i] = (process, events[i].cat, one)
    return _pair(records, known, keys, health)


def _hashable(value: Any) -> Hashable:
    return value if isinstance(value, int | str) else None


def _pair(
    records: Records[Any], rows: list[int], keys: dict[int, Any], health: Health
) -> list[Span]:
    """Begins and ends as ranges, by their key."""
    is_timed, starts = records.timed.tolist(), records.start_ns.tolist()
    timed = [i for i in rows if is_timed[i]]
    count_untimed(health, len(rows) - len(timed))
    opened: dict[Hashable, list[int]] = defaultdict(list)
    spans, homeless = [], 0
    # At one time the order of the file counts.
    for i in sorted(timed, key=starts.__getitem__):
        stack = opened[keys[i]]
        if records.events[i].ph in _BEGINS:
            stack.append(i)
        elif stack:
            begin = stack.pop(_begun_by(records, stack, records.events[i].name))
            spans.append(Span(begin, i, starts[begin], starts[i] - starts[begin]))
        else:
            homeless += 1
    health.events_kept += 2 * len(spans)
    _count_unmatched(health, sum(map(len, opened.values())), homeless)
    return spans


def _begun_by(records: Records[Any], stack: list[int], name: str) -> int:
    """Which of the open ranges an end closes: an index from the end of the stack."""
    for depth, begin in enumerate(islice(reversed(stack), _DEEPEST_SEARCH), start=1):
        if not name or records.events[begin].name == name:
            return -depth
    return -1


def _count_unmatched(health: Health, begins: int, ends: int) -> None:
    health.count(
        "begin-without-end",
        "warning",
        "Ranges that the file does not end were left out: it stops before they do, or the end is "
        "missing.",
        count=begins,
        dropped=True,
    )
    health.count(
        "end-without-begin",
        "warning",
        "Ends of ranges that began before the record does, or whose begin is missing, were left "
        "out.",
        count=ends,
        dropped=True,
    )


__all__ = ["Ids", "Span", "async_spans_of", "close_list", "read_ids", "spans_of"]
