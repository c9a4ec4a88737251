"""Slices as columns: what the readers of host and device planes append to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.trace import NULL, Copy, Kind, Phase

if TYPE_CHECKING:
    from stepwhy.importers.xplane.planes import Event
    from stepwhy.trace import TraceBuilder

_COLUMNS = (
    "start_ns",
    "dur_ns",
    "track",
    "kind",
    "name",
    "source",
    "phase",
    "correlation",
    "copy",
    "pageable",
    "bytes",
)


class SliceTable:
    """Collects slices and hands them to the builder.

    Args:
        builder: Takes devices, tracks and slices.
        base_ns: Start of the profiling session on the epoch clock, 0 where it is not recorded.
    """

    def __init__(self, builder: TraceBuilder, base_ns: int) -> None:
        self.builder = builder
        self.kinds: set[Kind] = set()
        self._base_ns = base_ns
        self._columns: dict[str, list[int]] = {name: [] for name in _COLUMNS}

    def add(
        self,
        event: Event,
        track: int,
        kind: Kind,
        name: str = "",
        *,
        source: str = "",
        phase: Phase = Phase.UNKNOWN,
        copy: Copy = Copy.NONE,
        pageable: int = NULL,
        size: int = NULL,
        end_ns: int = NULL,
    ) -> int:
        """Append one slice; returns its row.

        Args:
            event: Gives its times, its correlation id and, by default, its name.
            track: Where it lies.
            kind: What it is.
            name: Its name, when it is not the event's.
            source: Its source line, '' for none.
            phase: Its phase where it is known.
            copy: Direction of a copy.
            pageable: See the column.
            size: Bytes moved.
            end_ns: When it ended, if that is after the event's own end.
        """
        intern = self.builder.intern
        self.kinds.add(kind)
        row = (
            self._base_ns + event.start_ns,
            max(end_ns - event.start_ns, event.dur_ns),
            track,
            int(kind),
            intern(name or event.name),
            intern(source) if source else NULL,
            int(phase),
            _correlation(event),
            int(copy),
            pageable,
            size,
        )
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)
        return len(self._columns["start_ns"]) - 1

    def sizes_from_calls(self) -> None:
        """Copies that lack a direction or size take those of the call that made them (ROCm)."""
        columns = self._columns
        calls: dict[int, int] = {}
        copies = []
        for row, kind in enumerate(columns["kind"]):
            if kind == Kind.MEMCPY:
                copies.append(row)
            elif kind < Kind.KERNEL and columns["copy"][row] != Copy.NONE:
                calls[columns["correlation"][row]] = row
        calls.pop(NULL, None)
        for row in copies:
            call = calls.get(columns["correlation"][row])
            for name, null in (("copy", int(Copy.NONE)), ("bytes", NULL), ("pageable", NULL)):
                if call is not None and columns[name][row] == null:
                    columns[name][row] = columns[name][call]

    def finish(self) -> None:
        """Hand the slices over; a call that copies is a launch, not a copy."""
        for row, kind in enumerate(self._columns["kind"]):
            if kind < Kind.KERNEL:
                for name, null in (("copy", int(Copy.NONE)), ("bytes", NULL), ("pageable", NULL)):
                    self._columns[name][row] = null
        self.builder.slices_from(self._columns)
        self.builder.health.events_kept += len(self._columns["start_ns"])

    @property
    def copies_with_bytes(self) -> bool:
        """Whether any copy carries its size."""
        columns = self._columns
        rows = zip(columns["kind"], columns["bytes"], strict=True)
        return any(kind == Kind.MEMCPY and size != NULL for kind, size in rows)


def _correlation(event: Event) -> int:
    """The correlation id; 0 stands for none, and ids are 32 bits wide."""
    number = event.number("correlation_id")
    return number if number is not None and 0 < number < 1 << 62 else NULL
