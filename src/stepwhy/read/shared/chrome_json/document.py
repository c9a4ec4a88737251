"""A Chrome trace file, read in chunks."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Generic

from stepwhy.read.inputs.foreign.empty import empty_trace
from stepwhy.read.inputs.source import let_go
from stepwhy.read.shared.chrome_json.chunks import ChunkReader
from stepwhy.read.shared.chrome_json.cuts import (
    Cut,
    before_events,
    cuts,
    farther_cuts,
    find_tail,
    first_record,
    is_list,
    next_list,
    no_events,
    unclosed_end,
)
from stepwhy.read.shared.chrome_json.ends import (
    Keys,
    count_damage,
    count_rest,
    keys_after,
    keys_before,
)
from stepwhy.read.shared.chrome_json.events import A, Batch, Event
from stepwhy.read.shared.chrome_json.text import valid_text
from stepwhy.read.shared.chrome_json.times import LARGEST_NS
from stepwhy.read.shared.chrome_json.torn import End, Salvage

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.chrome_json.torn import Scan
    from stepwhy.trace import Health


# Below this, a double holds microseconds with an error under half a nanosecond.
_EXACT_AS_DOUBLE_US = 2.0**43
# Bytes of a mapped file that stay in memory after they were read.
_HELD = 1 << 24
# Each further list costs reading a chunk twice.
_MAX_LISTS = 16
_REPEATED = (
    "The file has the key traceEvents more than once. The events of all these lists were read, "
    "although JSON parsers keep only the last."
)
_LEFT_OUT = (
    f"The file has the key traceEvents more than {_MAX_LISTS} times: the events of later lists "
    "are missing. Merge the lists."
)


class Document(Generic[A]):
    """The records of a Chrome trace file, in batches; iterate over it once.

    Iterating adds the number of records to `health.events_read`, and counts what was lost or
    repaired. It raises an InputError at the end if there was no record at all.

    Args:
        source: The file.
        args: msgspec type of the records' `args`.
        health: Counters to fill.
        event: Type of the records.
        may_be_unclosed: Whether a list without its closing bracket is complete if it ends between
            two records, as with writers that append.
        raw: Keys of the header whose values stay raw JSON.

    Raises:
        CorruptInputError: The file has no list of events.
    """

    def __init__(
        self,
        source: Source,
        args: type[A],
        health: Health,
        *,
        event: Any = Event,
        may_be_unclosed: bool = False,
        raw: Container[str] = (),
    ) -> None:
        self._source, self._health = source, health
        self._data = valid_text(source.mapped, health)
        self._chunks = ChunkReader(args, health, event)
        self._first = first_record(self._data, source)
        self._unclosed: int | None = None
        if may_be_unclosed and not source.truncated:
            self._look_for_bracket()
        self._tail = find_tail(self._data, self._first, self._unclosed, raw)
        self._salvage: Salvage | None = None
        self._held_from = 0
        self._lists = 1
        self.complete = True
        """False when the file ended early: records after that point are unknown."""
        self.header = self._tail.header if self._tail else self._head().values
        """The object's other keys ({} for a top-level list).

        Of a damaged file, those after the events are there once all records were read.
        """

    def _look_for_bracket(self) -> None:
        self._unclosed = unclosed_end(self._data)
        self._health.count(
            "unclosed-list",
            "info",
            "The list of events has no closing bracket, as with writers that append to it.",
            count=int(self._unclosed is not None),
            dropped=False,
        )

    def __iter__(self) -> Iterator[Batch[A]]:
        """The records in file order."""
        count = 0
        for batch in self._batches():
            count += len(batch.events)
            self._health.events_read += len(batch.events)
            yield batch
        if self._salvage is not None:
            self._salvage.count(self._health, self.complete)
        if not count:
            broken = self._salvage.broken if self._salvage else 0
            damaged = broken > 0 or not self.complete
            raise no_events(self._source) if damaged else empty_trace(self._source)

    def _batches(self) -> Iterator[Batch[A]]:
        position, tail = self._first, self._tail
        while tail is None or position != tail.cut.begin:
            if tail is None or position > tail.cut.begin:
                tail = None  # the cut was inside a record
                self._close()
            if position >= len(
                self._data
            ):  # the last record is complete, but the bracket is missing
                self._ended(position, complete=False)
                return
            last = Cut(len(self._data), len(self._data)) if tail is None else tail.cut
            guesses = list(cuts(self._data, position, last.begin)) or [last]
            batch, end = self._valid_chunk(position, guesses, last)
            if batch is not None:
                yield batch
                position = end
                self._let_go(position)
                continue
            scan = self._walker().walk(position, guesses[-1].begin)
            yield self._converted(scan.records)
            position = scan.position
            self._let_go(position)
            if scan.end is not End.GOAL:
                following = self._next_list(scan)
                if following is None:
                    self._ended(position, complete=scan.end is End.LIST)
                    return
                position = following
        batch = self._chunks.read(tail.events)
        if batch is not None:
            yield batch

    def _next_list(self, scan: Scan) -> int | None:
        """Begin of the next list of events after the end of one, None if there is none."""
        if scan.end is not End.LIST or is_list(self._data):
            return None
        following = next_list(self._data, scan.position)
        if following is None:
            return None
        self._lists += 1
        is_read = self._lists <= _MAX_LISTS
        self._health.count(
            "repeated-key" if is_read else "repeated-key-left-out",
            "warning" if is_read else "error",
            _REPEATED if is_read else _LEFT_OUT,
            dropped=False,
        )
        return following if is_read else None

    def _close(self) -> None:
        """Add the missing bracket to a list, for the readers of damaged text."""
        if self._unclosed is not None:
            self._data = self._data[: self._unclosed] + b"]"
            self._unclosed = None

    def _walker(self) -> Salvage:
        if self._salvage is None:
            self._close()
            self._salvage = Salvage(self._data)
        return self._salvage

    def _let_go(self, position: int) -> None:
        """Release the memory of what was read up to a position."""
        if position - self._held_from >= _HELD:
            let_go(self._data, self._held_from, position)
            self._held_from = position

    def _valid_chunk(
        self, position: int, guesses: list[Cut], last: Cut
    ) -> tuple[Batch[A] | None, int]:
        """The next chunk that decodes, and where it ends; (None, position) if there is none."""
        for cut in chain(guesses, farther_cuts(self._data, position, last)):
            text = b"".join((b"[", memoryview(self._data)[position : cut.end], b"]"))
            batch = self._chunks.read(text)
            if batch is not None:
                return batch, cut.begin
            if not self._chunks.ended_early:  # more text would not repair it
                break
        return None, position

    def _converted(self, records: list[Any]) -> Batch[A]:
        self._health.count(
            "rounded-time",
            "info",
            "Fractions of large times were rounded, by under a microsecond, since the file is "
            "damaged.",
            count=sum(_is_rounded(r) for r in records),
            dropped=False,
        )
        return self._chunks.convert(records)

    def _ended(self, position: int, *, complete: bool) -> None:
        """Handle a list that ended where the scan did instead of where the tail was found.

        Args:
            position: Where the list ended.
            complete: Whether its closing bracket is there.
        """
        self.complete = complete
        self._walker()
        head = self._head()
        self.header = head.values
        count_damage(self._health, head)
        if not complete:
            return
        is_closed = self._data[position : position + 1] == b"]"
        keys = Keys({}, position + is_closed, closed=True)
        if not is_list(self._data):
            keys = keys_after(self._data, position + 1)
            self.header |= keys.values
        count_damage(self._health, keys)
        if keys.closed:
            count_rest(self._health, self._data, keys.end)

    def _head(self) -> Keys:
        is_object = not is_list(self._data)
        return keys_before(before_events(self._data)) if is_object else Keys({}, 0, closed=True)


def _is_rounded(record: Any) -> bool:
    """Whether the time of a record is too large for a double with three decimals."""
    time = record.get("ts") if isinstance(record, dict) else None
    return isinstance(time, float) and _EXACT_AS_DOUBLE_US <= abs(time) < LARGEST_NS / 1000
