"""Slices of a trace from Kineto's complete records ('ph': 'X'), one batch at a time.

Titles, threads, streams and call stacks are numbered. Each code is resolved once, at its first
occurrence in the file: its strings are interned and its track is added. All other records look
their code up in a table.
"""

from __future__ import annotations

from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.columns.narrow import narrowed
from stepwhy.read.formats.kineto.arguments import NO_ARGS, KinetoArgs, args_of, column, sizes
from stepwhy.read.formats.kineto.codes import Codes, extended, first_new
from stepwhy.read.formats.kineto.collectives import add_collectives
from stepwhy.read.formats.kineto.copy_sizes import fill_copy_sizes
from stepwhy.read.formats.kineto.name_table import (
    COPY,
    IS_PROFILER_RANGE,
    KIND,
    ON_DEVICE,
    PAGEABLE,
    PHASE,
    NameTable,
)
from stepwhy.read.formats.kineto.names import shorten_path
from stepwhy.read.formats.kineto.operands import Operands, tensor_bytes
from stepwhy.read.formats.kineto.overruns import cut_overruns
from stepwhy.read.formats.kineto.sweep import Records
from stepwhy.read.formats.kineto.sweep_codes import SweepCodes
from stepwhy.read.formats.kineto.track_codes import TrackCodes
from stepwhy.read.formats.kineto.tracks import stream_key
from stepwhy.read.formats.kineto.waits import StreamWaits
from stepwhy.read.shared.chrome_json import Event
from stepwhy.trace import NULL, Copy, Kind, Phase
from stepwhy.trace.builder import count_tracks_together
from stepwhy.trace.schema import NARROW_COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.formats.kineto.facts import Facts
    from stepwhy.read.formats.kineto.sweep import StringTable, SweptRecords
    from stepwhy.read.formats.kineto.tracks import Tracks
    from stepwhy.trace import TraceBuilder

_TITLE = attrgetter("cat", "name")
_THREAD = attrgetter("pid", "tid")
_CALL_STACK = attrgetter("call_stack")
_ARGUMENTS = ("correlation", "sequence", "forward", "size")
# Records that are not slices: their thread may have none, and then gets no track.
_NO_TRACK = None


class SliceBatch(msgspec.Struct):
    """Numbered records of one batch.

    Args:
        events: The records.
        titles: Code of every record's category and name; (slices,).
        tracks: Code of every record's thread or stream; (slices,).
        stacks: Code of every record's call stack, NULL without one; (slices,).
        arguments: correlation, sequence, forward (thread of the forward pass) and size (bytes) as
            integers, NULL where absent; (slices,) each.
        unresolved: Positions at which a code occurs for the first time in the file, ascending.
    """

    events: list[Event[KinetoArgs]] | Records
    titles: NDArray[np.signedinteger[Any]]
    tracks: NDArray[np.int64]
    stacks: NDArray[np.signedinteger[Any]]
    arguments: dict[str, NDArray[np.int64]]
    unresolved: list[int]


class Slices:
    """Collects slices as columns.

    Args:
        builder: Receives the slices and their names.
        facts: Collects what slices reveal about the run.
        tracks: Adds threads and streams.
    """

    def __init__(self, builder: TraceBuilder, facts: Facts, tracks: Tracks) -> None:
        self._builder, self._facts, self._tracks = builder, facts, tracks
        self._names = NameTable(builder, facts)
        self._track_codes, self._stacks = TrackCodes(_NO_TRACK), Codes()
        # Row of every track code; string of the innermost own frame of every call stack.
        self._track_rows = np.full(1, NULL, dtype=np.int32)
        self._frames = np.empty(0, dtype=np.int32)
        self._sweep_codes = SweepCodes()
        self._waits = StreamWaits(tracks)
        self._operands = Operands()
        self._blocks: list[dict[str, NDArray[Any]]] = []
        self._count = 0

    def number(self, events: list[Event[KinetoArgs]]) -> SliceBatch:
        """Number records; `resolve` those at `unresolved` before `add`."""
        args = [event.args or NO_ARGS for event in events]
        titles = self._names.titles.of(map(_TITLE, events), len(events))
        self._names.update()
        tracks = self._number_tracks(events, args, self._names.meanings_of(titles))
        values = list(map(_CALL_STACK, args))
        stacks = np.full(len(values), NULL, dtype=np.int64)
        if any(values):
            present = [i for i, value in enumerate(values) if value]
            stacks[present] = self._stacks.of((str(values[i]) for i in present), len(present))
        arguments = {
            "correlation": column(args, "correlation"),
            "sequence": column(args, "sequence"),
            "forward": column(args, "forward_thread"),
            "size": sizes(args),
        }
        unresolved = self._unresolved(titles, tracks, stacks)
        return SliceBatch(events, titles, tracks, stacks, arguments, unresolved)

    def number_swept(self, swept: SweptRecords, rows: NDArray[np.int64]) -> SliceBatch:
        """Number some slices of a sweep, as `number` does.

        Args:
            swept: The sweep.
            rows: The slices with usable times.
        """
        strings = swept.strings
        columns = {
            name: values if len(rows) == len(values) else values[rows]
            for name, values in swept.slices.items()
        }
        translate, numbering = self._sweep_codes.translate, self._names.titles.of
        titles = translate(strings, "title", columns["title"], numbering, strings.titles_of)
        self._names.update()
        tracks = self._number_swept_tracks(columns, self._names.meanings_of(titles), strings)
        stacks = translate(strings, "stack", columns["stack"], self._stacks.of, strings.texts_of)
        unresolved = self._unresolved(titles, tracks, stacks)
        events = Records(swept.data, columns["offset"], columns["length"], Event[KinetoArgs])
        # Copies, because the sweep reuses its columns.
        arguments = {name: columns[name].copy() for name in _ARGUMENTS}
        return SliceBatch(events, titles, tracks, stacks, arguments, unresolved)

    def _unresolved(
        self,
        titles: NDArray[np.signedinteger[Any]],
        tracks: NDArray[np.int64],
        stacks: NDArray[np.signedinteger[Any]],
    ) -> list[int]:
        """Positions with codes beyond the tables' ends; extends the tables to hold them."""
        first = {
            *first_new(titles, self._names.resolved),
            *first_new(tracks, len(self._track_rows)),
            *first_new(stacks, len(self._frames)),
        }
        self._names.extend()
        self._track_rows = extended(self._track_rows, len(self._track_codes))
        self._frames = extended(self._frames, len(self._stacks))
        return sorted(first)

    def _number_tracks(
        self, events: list[Event[KinetoArgs]], args: list[KinetoArgs], meanings: NDArray[np.int8]
    ) -> NDArray[np.int64]:
        tracks = np.zeros(len(events), dtype=np.int64)
        on_device, is_slice = meanings[:, ON_DEVICE] > 0, meanings[:, KIND] != NULL
        hosts, streams = np.flatnonzero(~on_device & is_slice), np.flatnonzero(on_device)
        threads = compress(events, (~on_device & is_slice).tolist())
        tracks[hosts] = self._track_codes.of(map(_THREAD, threads), len(hosts))
        chosen = [(events[i], args[i]) for i in streams.tolist()]
        try:
            keys = [(e.pid, e.tid, a.device, a.stream) for e, a in chosen]
            tracks[streams] = self._track_codes.of(keys, len(streams))
        except TypeError:  # an argument that should be a number is a list or an object
            tracks[streams] = self._track_codes.of((stream_key(e) for e, _ in chosen), len(streams))
        return tracks

    def _number_swept_tracks(
        self, columns: dict[str, NDArray[Any]], meanings: NDArray[np.int8], strings: StringTable
    ) -> NDArray[np.int64]:
        on_device, is_slice = meanings[:, ON_DEVICE] > 0, meanings[:, KIND] != NULL
        tracks = np.zeros(len(meanings), dtype=np.int64)
        for role, rows, keys_of in (
            ("thread", ~on_device & is_slice, strings.threads_of),
            ("stream", on_device, strings.streams_of),
        ):
            tracks[rows] = self._sweep_codes.translate(
                strings, role, columns[role][rows], self._track_codes.of, keys_of
            )
        return tracks

    def resolve_all(self, batch: SliceBatch) -> None:
        """Resolve all `unresolved` positions; most of them are new only in their name."""
        first = np.asarray(batch.unresolved, dtype=np.int64)
        # The name alone is new if track and call stack are resolved already.
        kinds = self._names.meanings_of(batch.titles[first])[:, KIND]
        has_track = (self._track_rows[batch.tracks[first]] != NULL) | (kinds == NULL)
        # Records without a stack look up the appended element.
        frames = np.append(self._frames, 0)[batch.stacks[first]]
        only_name: NDArray[np.bool_] = has_track & (frames != NULL)
        cuts = np.flatnonzero(only_name[1:] != only_name[:-1]) + 1
        for run in np.split(first, cuts) if len(first) else ():
            if only_name[np.searchsorted(first, run[0])]:
                self._names.resolve(batch.titles[run])
            else:
                for position in run.tolist():
                    self.resolve(batch, position)

    def resolve(self, batch: SliceBatch, position: int) -> None:
        """Resolve the title, the track and the call stack of one record."""
        self._names.resolve(batch.titles[[position]])
        track, stack = int(batch.tracks[position]), batch.stacks[position]
        if self._track_rows[track] == NULL:
            self._resolve_track(track, batch, position)
        if stack != NULL and self._frames[stack] == NULL:
            # String of the innermost frame of a call stack that is not the framework's.
            frames = str(args_of(batch.events[position]).call_stack).split(";")
            own = next(
                (f for f in frames if f and "site-packages" not in f and "torch/" not in f), ""
            )
            self._frames[stack] = self._builder.intern(shorten_path(own)) if own else NULL

    def _resolve_track(self, track: int, batch: SliceBatch, position: int) -> None:
        meaning = self._names.meanings_of(batch.titles[[position]])[0]
        if meaning[KIND] == NULL:
            return
        event, shared = batch.events[position], self._track_codes.shared.get(track)
        if shared is not None:
            self._track_rows[track] = self._tracks.shared(shared, event)
        else:
            row_of = self._tracks.stream if meaning[ON_DEVICE] else self._tracks.thread
            self._track_rows[track] = row_of(event)

    def add(
        self, batch: SliceBatch, start_ns: NDArray[np.int64], dur_ns: NDArray[np.int64]
    ) -> None:
        """Add slices, and count the records that are none.

        Args:
            batch: The numbered records.
            start_ns: Their starts; (slices,).
            dur_ns: Their durations; (slices,).
        """
        meanings = self._names.meanings_of(batch.titles)
        size = batch.arguments["size"]
        # Strings of source lines: of the call stack where there is one, else of the name.
        sources = self._names.sources_of(batch.titles)
        rows = np.flatnonzero(batch.stacks != NULL)
        sources[rows] = self._frames[batch.stacks[rows]]
        # Operations that record a thread of the forward pass are of the backward pass.
        phases: NDArray[np.int8] = np.where(
            batch.arguments["forward"] > 0, Phase.BACKWARD, meanings[:, PHASE]
        ).astype(np.int8)
        block: dict[str, NDArray[Any]] = {
            "start_ns": start_ns,
            "dur_ns": dur_ns,
            "track": self._track_rows[batch.tracks],
            "kind": meanings[:, KIND].astype(np.int8),
            "name": self._names.names_of(batch.titles),
            "source": sources,
            "phase": phases,
            "correlation": batch.arguments["correlation"],
            "sequence": batch.arguments["sequence"],
            "copy": meanings[:, COPY].astype(np.int8),
            "pageable": meanings[:, PAGEABLE].astype(np.int8),
            "bytes": np.maximum(size, NULL),
        }
        is_slice = block["kind"] != NULL
        self._add_details(batch, block, meanings)
        if not is_slice.all():
            self._count_dropped(meanings[~is_slice])
            block = {name: values[is_slice] for name, values in block.items()}
        copies = (meanings[:, COPY] != Copy.NONE) & (size != NULL)
        self._facts.copies_with_bytes |= bool(copies.any())
        self._blocks.append({name: _compact(name, values) for name, values in block.items()})

    def _add_details(
        self, batch: SliceBatch, block: dict[str, NDArray[Any]], meanings: NDArray[np.int8]
    ) -> None:
        """Read the arguments that only waits, collectives and some operations have.

        Args:
            batch: The records.
            block: Their columns; the bytes of collectives are filled in.
            meanings: Their meanings; (records, columns).
        """
        kind, rows = block["kind"], self._count - 1 + np.cumsum(block["kind"] != NULL)
        self._count = int(rows[-1]) + 1 if len(rows) else self._count
        waits = np.flatnonzero(kind == Kind.DEVICE_WAIT)
        collectives = np.flatnonzero((kind == Kind.COLLECTIVE) & (meanings[:, ON_DEVICE] > 0))
        operations = np.flatnonzero(kind == Kind.OP)
        self._operands.add(batch.events, operations, rows[operations])
        if len(waits):
            events = [batch.events[i] for i in waits.tolist()]
            self._waits.add(events, rows[waits], block["start_ns"][waits], block["track"][waits])
        if len(collectives):
            events = [batch.events[i] for i in collectives.tolist()]
            size = add_collectives(self._builder, events, rows[collectives])
            block["bytes"][collectives] = np.maximum(size, block["bytes"][collectives])
        # Those of Gloo are recorded as operations of the host.
        on_host = (kind == Kind.COLLECTIVE) & (meanings[:, ON_DEVICE] <= 0)
        for row in np.flatnonzero(on_host).tolist():
            block["bytes"][row] = tensor_bytes(batch.events[row])

    def _count_dropped(self, meanings: NDArray[np.int8]) -> None:
        ranges = int(meanings[:, IS_PROFILER_RANGE].sum())
        self._facts.profiler_ranges += ranges
        self._builder.health.count(
            "profiler-span",
            "info",
            "Spans of the profiler itself, and event records.",
            count=len(meanings) - ranges,
            dropped=True,
        )

    def finish(self) -> None:
        """Repair sizes and late ends, and pass all slices to the builder."""
        self._facts.copies_with_bytes |= fill_copy_sizes(self._blocks)
        count_tracks_together(self._builder.health, self._track_codes.count_beyond())
        self._builder.health.count(
            "late-end",
            "warning",
            "Device work whose recorded end lies after that of many later operations on its "
            "stream was cut where the next one begins.",
            count=cut_overruns(self._blocks),
            dropped=False,
        )
        for block in self._blocks:
            self._builder.slices_from(block)
            self._builder.health.events_kept += len(block["start_ns"])
        self._waits.add_to(self._builder, self._blocks)
        self._operands.finish(self._builder)


def _compact(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """A column with less memory: a repeated value is stored once, codes in a narrow type."""
    if not len(values):
        return values
    ends = values[[0, len(values) // 2, -1]]
    if (ends == ends[0]).all() and (values == ends[0]).all():
        return np.broadcast_to(ends[0], len(values))
    return narrowed(values) if name in NARROW_COLUMNS else values
