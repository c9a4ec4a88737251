"""From the wire to rows: the planes, lines and events of an XSpace in plain Python.

The rest of the importer sees these rows only, so that another way to scan the wire needs to
replace nothing but this file.

Source: tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from stepwhy.errors import CorruptInputError
from stepwhy.importers.tensorflow.graphs import text
from stepwhy.importers.tensorflow.messages import parse_message
from stepwhy.importers.tensorflow.wire import close_torn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepwhy.importers.source import Source
    from stepwhy.trace import Health

Stats: TypeAlias = "dict[str, int | str]"

# What any part of the importer asks for; the many other statistics are not decoded. Names and
# paths of machines, commands and options are not among them.
_WANTED = frozenset(
    {
        "_c",
        "_p",
        "allocator_name",
        "correlation_id",
        "device_ordinal",
        "device_type_string",
        "gpu_device_name",
        "hlo_category",
        "hlo_op",
        "id",
        "jax_version",
        "memcpy_details",
        "memset_details",
        "name",
        "process_id",
        "profile_start_time",
        "step_num",
        "tf_function_call",
        "tf_op",
    }
)
_NO_STATS: Stats = {}
# Times beyond this would leave int64 when added up.
_LARGEST_NS = 1 << 62


class Event(NamedTuple):
    """One event; times in ns on the clock of the profiling session."""

    name: str
    start_ns: int
    dur_ns: int
    stats: Stats

    @property
    def end_ns(self) -> int:
        """Its end."""
        return self.start_ns + self.dur_ns

    def text(self, stat: str) -> str:
        """A statistic as text, '' where it is not recorded."""
        return str(self.stats.get(stat, ""))

    def number(self, stat: str) -> int | None:
        """A statistic as a number, None where it is not recorded."""
        value = self.stats.get(stat)
        return value if isinstance(value, int) else None


class Line(NamedTuple):
    """A thread or stream; its events in the order of the file."""

    id: int
    name: str
    events: list[Event]


class Plane(NamedTuple):
    """A device, the host, or facts about the session."""

    name: str
    stats: Stats
    lines: list[Line]


def read_planes(source: Source, health: Health) -> list[Plane]:
    """All planes of a file; of a torn one those before the tear.

    Args:
        source: A file that was recognised.
        health: Takes what could not be read.

    Raises:
        CorruptInputError: Nothing of the message can be read.
    """
    space = parse_message("XSpace", source.data)
    if space is None:
        space = parse_message("XSpace", close_torn(source.data, {1: {}}))
        health.count(
            "protobuf-truncated",
            "error",
            "The file ends before its message does: later events are missing. Totals cover the "
            "readable part only. Copy the file again.",
            dropped=False,
        )
    if space is None:
        raise CorruptInputError(
            f"{source.origin} is a damaged XPlane profile", "Record the profile again"
        )
    health.count(
        "profiler-error",
        "warning",
        "The profiler reported errors of its own: part of the run may be missing.",
        count=len(space.errors),
        dropped=False,
    )
    return [_plane(plane, health) for plane in space.planes]


def _plane(plane: Any, health: Health) -> Plane:
    decoder = _Decoder(plane, health)
    return Plane(
        text(plane.name),
        decoder.stats(plane.stats),
        [
            Line(line.id, text(line.display_name or line.name), list(decoder.events(line)))
            for line in plane.lines
        ],
    )


class _Decoder:
    """Resolves what events refer to by number within one plane."""

    def __init__(self, plane: Any, health: Health) -> None:
        self._health = health
        self._stat_names = {e.key: text(e.value.name) for e in plane.stat_metadata}
        self._wanted = {key: n for key, n in self._stat_names.items() if n in _WANTED}
        self._events = {
            e.key: (_shown(e.value), self.stats(e.value.stats)) for e in plane.event_metadata
        }

    def stats(self, stats: Iterable[Any]) -> Stats:
        """The wanted statistics."""
        found = {}
        for stat in stats:
            name = self._wanted.get(stat.metadata_id)
            if name is not None:
                found[name] = self._value(stat)
        return found or _NO_STATS

    def _value(self, stat: Any) -> int | str:
        if stat.str_value:
            return text(stat.str_value)
        if stat.ref_value:
            return self._stat_names.get(stat.ref_value, "")
        number: int = stat.int64_value or stat.uint64_value
        return number

    def events(self, line: Any) -> Iterator[Event]:
        """Events with a name and a usable time; the others are counted.

        Start and end are rounded down alike, so that what encloses an event still does.
        """
        health, base_ns = self._health, line.timestamp_ns
        health.events_read += len(line.events)
        nameless = untimed = 0
        for event in line.events:
            name, shared = self._events.get(event.metadata_id, ("", _NO_STATS))
            start_ns = base_ns + event.offset_ps // 1000
            end_ns = base_ns + (event.offset_ps + event.duration_ps) // 1000
            if not name:
                nameless += 1
            elif event.num_occurrences or not 0 <= start_ns <= end_ns < _LARGEST_NS:
                untimed += 1
            else:
                own = self.stats(event.stats) if len(event.stats) else _NO_STATS
                yield Event(name, start_ns, end_ns - start_ns, shared | own if shared else own)
        self._count(nameless, untimed)

    def _count(self, nameless: int, untimed: int) -> None:
        self._health.count(
            "event-without-name",
            "error",
            "The names of these events are missing from the file.",
            count=nameless,
            dropped=True,
        )
        self._health.count(
            "event-without-time",
            "warning",
            "These events have no usable start or duration, or are sums over many.",
            count=untimed,
            dropped=True,
        )


def _shown(metadata: Any) -> str:
    """The name of an event; compilers write a whole instruction there, and a short one beside."""
    name = text(metadata.name)
    return text(metadata.display_name) or name if name.startswith("%") else name
