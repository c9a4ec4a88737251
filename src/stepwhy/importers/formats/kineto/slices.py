"""From Kineto's complete records to the slices of a trace, a batch at a time.

What a name or a track is gets decided once, at its first sight, in the order of the file; all other
records take a number from a table.
"""

from __future__ import annotations

from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from stepwhy.columns.narrow import narrowed
from stepwhy.importers.formats.kineto.arguments import NO_ARGS, KinetoArgs, args_of, column, sizes
from stepwhy.importers.formats.kineto.codes import Codes, first_of, first_sights, longer
from stepwhy.importers.formats.kineto.names import (
    Meaning,
    accelerator_of,
    category_of,
    meaning_of,
    shorten_path,
    shown_name,
)
from stepwhy.importers.formats.kineto.numbers_of_sweep import OfSweep
from stepwhy.importers.formats.kineto.overruns import cut_overruns
from stepwhy.importers.formats.kineto.places import Places
from stepwhy.importers.formats.kineto.sweep import Records
from stepwhy.importers.formats.kineto.titles import Titles
from stepwhy.importers.formats.kineto.tracks import stream_key
from stepwhy.importers.shared.chrome_json import Event, Growing
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Copy, Kind, Phase
from stepwhy.trace.builder import count_tracks_together
from stepwhy.trace.schema import NARROW_COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.formats.kineto.facts import Facts
    from stepwhy.importers.formats.kineto.sweep import Said, Swept
    from stepwhy.importers.formats.kineto.tracks import Tracks
    from stepwhy.trace import TraceBuilder

# Host records that cannot come from a CPU: collectives of ProcessGroupNCCL, and operations that
# have kernels for accelerators alone. Most names prove nothing: recurrent layers ask
# aten::cudnn_is_acceptable, and loaders aten::is_pinned, on a CPU as well.
# Source: the dispatch of each operation in PyTorch's native_functions.yaml.
_ON_DEVICE_ONLY = regex(
    r"nccl:|aten::(record_stream|_?cudnn_(rnn|ctc_loss|convolution\w*|batch_norm(_backward)?)"
    r"|miopen_(rnn|convolution\w*|depthwise_convolution|batch_norm(_backward)?))$"
)

_TITLE = attrgetter("cat", "name")
_THREAD = attrgetter("pid", "tid")
_CALL_STACK = attrgetter("call_stack")
_TOLD = ("correlation", "sequence", "forward", "size")
# The place of what is no slice: its thread may have none that is.
_NOWHERE = None
# Columns of what a name means.
_KIND, _ON_DEVICE, _COPY, _PAGEABLE, _PHASE, _IS_RANGE = range(6)
_MEANINGS = 6


class Group(msgspec.Struct):
    """Slices of one batch.

    Args:
        events: Their records.
        names: Number of every record's category and name; (slices,).
        places: Number of the thread or stream of every record; (slices,).
        stacks: Number of every record's call stack, NULL without one; (slices,).
        told: What their arguments tell, integers or NULL: correlation, sequence, forward (the
            thread of the forward pass), size (bytes); (slices,) each.
        first: Positions at which something is seen for the first time, ascending.
    """

    events: list[Event[KinetoArgs]] | Records
    names: NDArray[np.signedinteger[Any]]
    places: NDArray[np.int64]
    stacks: NDArray[np.signedinteger[Any]]
    told: dict[str, NDArray[np.int64]]
    first: list[int]


class _Said(NamedTuple):
    """What a record's category and name say."""

    is_range: bool
    category: str
    name: str
    meaning: Meaning


class Slices:
    """Collects slices as columns.

    Args:
        builder: Takes the slices and their names.
        facts: Learns what kinds there are.
        tracks: Adds threads and streams.
    """

    def __init__(self, builder: TraceBuilder, facts: Facts, tracks: Tracks) -> None:
        self._builder, self._facts, self._tracks = builder, facts, tracks
        self._titles, self._places, self._stacks = Titles(), Places(_NOWHERE), Codes()
        # What is known of each number of a name, and what those say that were not met.
        self._meanings = Growing(np.int8)
        self._said: dict[int, _Said] = {}
        # Strings of name and source line per number of a name, track per number of a place, string
        # of the source line per number of a call stack.
        self._shown = np.empty((0, 2), dtype=np.int32)
        self._rows = np.full(1, NULL, dtype=np.int32)
        self._sites = np.empty(0, dtype=np.int32)
        self._of_sweep = OfSweep()
        self._blocks: list[dict[str, NDArray[Any]]] = []

    def group(self, events: list[Event[KinetoArgs]]) -> Group:
        """Number names and tracks of records; `meet` those at its `first` before `add`."""
        args = [event.args or NO_ARGS for event in events]
        names = self._titles.of(map(_TITLE, events), len(events))
        self._learn_names()
        places = self._number_places(events, args, self._meanings_of(names))
        stacks = self._number_stacks(list(map(_CALL_STACK, args)))
        told = {
            "correlation": column(args, "correlation"),
            "sequence": column(args, "sequence"),
            "forward": column(args, "forward_thread"),
            "size": sizes(args),
        }
        first = self._first_of(names, places, stacks)
        return Group(events, names, places, stacks, told, first)

    def group_swept(self, swept: Swept, rows: NDArray[np.int64]) -> Group:
        """As `group`, for those slices of a sweep that have times; the others are not met."""
        said = swept.said
        columns = {name: _taken(values, rows) for name, values in swept.slices.items()}
        names = self._of_sweep.numbers(
            said, "title", columns["title"], self._titles.of, said.titles_of
        )
        self._learn_names()
        places = self._swept_places(columns, self._meanings_of(names), said)
        stacks = self._of_sweep.numbers(
            said, "stack", columns["stack"], self._stacks.of, said.texts_of
        )
        first = self._first_of(names, places, stacks)
        events = Records(swept.data, columns["offset"], columns["length"], Event[KinetoArgs])
        # Copies: the sweep writes to its columns again.
        told = {name: columns[name].copy() for name in _TOLD}
        return Group(events, names, places, stacks, told, first)

    def _learn_names(self) -> None:
        known = len(self._meanings) // _MEANINGS
        new = {n: _said(*title) for n, title in enumerate(self._titles.new(), known)}
        if new:
            rows = [_numbers(said) for said in new.values()]
            self._meanings.append(np.asarray(rows, dtype=np.int8).ravel())
            self._said |= new

    def _meanings_of(self, names: NDArray[np.signedinteger[Any]]) -> NDArray[np.int8]:
        """What names mean, by their numbers; (names, `_MEANINGS`)."""
        known = self._meanings.values().reshape(-1, _MEANINGS)
        meanings: NDArray[np.int8] = known[names]
        return meanings

    def _first_of(
        self,
        names: NDArray[np.signedinteger[Any]],
        places: NDArray[np.int64],
        stacks: NDArray[np.signedinteger[Any]],
    ) -> list[int]:
        """Where something stands that is not known yet; the tables become long enough for it."""
        first = {
            *first_of(names, len(self._shown)),
            *first_of(places, len(self._rows)),
            *first_of(stacks, len(self._sites)),
        }
        self._shown = longer(self._shown, len(self._titles))
        self._rows = longer(self._rows, len(self._places))
        self._sites = longer(self._sites, len(self._stacks))
        return sorted(first)

    def _number_places(
        self, events: list[Event[KinetoArgs]], args: list[KinetoArgs], meanings: NDArray[np.int8]
    ) -> NDArray[np.int64]:
        places = np.zeros(len(events), dtype=np.int64)
        on_device, is_slice = meanings[:, _ON_DEVICE] > 0, meanings[:, _KIND] != NULL
        hosts, streams = np.flatnonzero(~on_device & is_slice), np.flatnonzero(on_device)
        threads = compress(events, (~on_device & is_slice).tolist())
        places[hosts] = self._places.of(map(_THREAD, threads), len(hosts))
        chosen = [(events[i], args[i]) for i in streams.tolist()]
        try:
            keys = [(e.pid, e.tid, a.device, a.stream) for e, a in chosen]
            places[streams] = self._places.of(keys, len(streams))
        except TypeError:  # a list or an object stands where a number should
            places[streams] = self._places.of((stream_key(e) for e, _ in chosen), len(streams))
        return places

    def _swept_places(
        self, columns: dict[str, NDArray[Any]], meanings: NDArray[np.int8], said: Said
    ) -> NDArray[np.int64]:
        on_device, is_slice = meanings[:, _ON_DEVICE] > 0, meanings[:, _KIND] != NULL
        places = np.zeros(len(meanings), dtype=np.int64)
        threads, streams = ~on_device & is_slice, on_device
        for role, chosen, keys in (
            ("thread", threads, said.threads_of),
            ("stream", streams, said.streams_of),
        ):
            numbers = columns[role][chosen]
            places[chosen] = self._of_sweep.numbers(said, role, numbers, self._places.of, keys)
        return places

    def _number_stacks(self, values: list[Any]) -> NDArray[np.int64]:
        numbers = np.full(len(values), NULL, dtype=np.int64)
        if any(values):
            told = [i for i, value in enumerate(values) if value]
            numbers[told] = self._stacks.of((str(values[i]) for i in told), len(told))
        return numbers

    def meet_all(self, group: Group) -> None:
        """Decide what the records at all `first` positions are; few are more than a new name."""
        first = np.asarray(group.first, dtype=np.int64)
        is_plain = self._is_plain(group, first)
        cuts = np.flatnonzero(is_plain[1:] != is_plain[:-1]) + 1
        for some in np.split(first, cuts) if len(first) else ():
            if is_plain[np.searchsorted(first, some[0])]:
                self._show(group.names[some])
            else:
                for position in some.tolist():
                    self.meet(group, position)

    def _is_plain(self, group: Group, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether nothing but the name of records may be new; (positions,)."""
        kinds = self._meanings_of(group.names[positions])[:, _KIND]
        placed = (self._rows[group.places[positions]] != NULL) | (kinds == NULL)
        sites = np.append(self._sites, 0)[group.stacks[positions]]  # the last one where none is
        plain: NDArray[np.bool_] = placed & (sites != NULL)
        return plain

    def meet(self, group: Group, position: int) -> None:
        """Decide what the record at a position is, where that is not known."""
        name, place = int(group.names[position]), int(group.places[position])
        if self._shown[name, 0] == NULL:
            said = self._said.pop(name)
            string = self._builder.intern(self._learn(said))
            self._shown[name] = string, string if said.meaning.source else NULL
        if self._rows[place] == NULL:
            self._meet_place(place, self._meanings_of(group.names[[position]])[0], group, position)
        stack = group.stacks[position]
        if stack != NULL and self._sites[stack] == NULL:
            self._sites[stack] = self._call_site(str(args_of(group.events[position]).call_stack))

    def _meet_place(
        self, place: int, meaning: NDArray[np.int8], group: Group, position: int
    ) -> None:
        if meaning[_KIND] == NULL:
            return
        event, shared = group.events[position], self._places.shared.get(place)
        if shared is not None:
            self._rows[place] = self._tracks.shared(shared, event)
        else:
            row_of = self._tracks.stream if meaning[_ON_DEVICE] else self._tracks.thread
            self._rows[place] = row_of(event)

    def _show(self, names: NDArray[np.signedinteger[Any]]) -> None:
        """Give many names their strings: of what is shown, and of the source line."""
        new = names[self._shown[names, 0] == NULL]
        said = [self._said.pop(name) for name in new.tolist()]
        strings = self._builder.intern_all([self._learn(one) for one in said])
        is_line = np.asarray([one.meaning.source for one in said], dtype=bool)
        self._shown[new, 0] = strings
        self._shown[new, 1] = np.where(is_line, strings, NULL)

    def _learn(self, said: _Said) -> str:
        """Learn what a name tells of the run; what is shown of it."""
        _, category, name, meaning = said
        if meaning.kind is not None:
            self._facts.kinds.add(meaning.kind)
        if category in {"cpu_op", "user_annotation"} and _ON_DEVICE_ONLY.match(name):
            self._facts.device_hints = True
        self._facts.accelerator = accelerator_of(category) or self._facts.accelerator
        return shorten_path(name) if meaning.source else name

    def _call_site(self, stack: str) -> int:
        """The innermost frame of a call stack that is not the framework's."""
        frames = stack.split(";")
        own = next((f for f in frames if f and "site-packages" not in f and "torch/" not in f), "")
        return self._builder.intern(shorten_path(own)) if own else NULL

    def add(self, group: Group, start_ns: NDArray[np.int64], dur_ns: NDArray[np.int64]) -> None:
        """Add slices, or count why some are none.

        Args:
            group: The slices.
            start_ns: Their starts; (slices,).
            dur_ns: Their durations; (slices,).
        """
        meanings = self._meanings_of(group.names)
        size = group.told["size"]
        block = {
            "start_ns": start_ns,
            "dur_ns": dur_ns,
            "track": self._rows[group.places],
            "kind": meanings[:, _KIND].astype(np.int8),
            "name": self._shown[group.names, 0],
            "source": self._sources(group),
            "phase": _phases(group.told["forward"], meanings[:, _PHASE]),
            "correlation": group.told["correlation"],
            "sequence": group.told["sequence"],
            "copy": meanings[:, _COPY].astype(np.int8),
            "pageable": meanings[:, _PAGEABLE].astype(np.int8),
            "bytes": np.maximum(size, NULL),
        }
        kept = block["kind"] != NULL
        if not kept.all():
            self._leave_out(meanings[~kept])
            block = {name: values[kept] for name, values in block.items()}
        copies = (meanings[:, _COPY] != Copy.NONE) & (size != NULL)
        self._facts.copies_with_bytes |= bool(copies.any())
        self._blocks.append({name: _lean(name, values) for name, values in block.items()})

    def _sources(self, group: Group) -> NDArray[np.int32]:
        """Strings of the source lines: of the call stack where there is one, else of the name."""
        named: NDArray[np.int32] = self._shown[group.names, 1]
        told = np.flatnonzero(group.stacks != NULL)
        named[told] = self._sites[group.stacks[told]]
        return named

    def _leave_out(self, meanings: NDArray[np.int8]) -> None:
        ranges = int(meanings[:, _IS_RANGE].sum())
        self._facts.profiler_ranges += ranges
        self._builder.health.count(
            "profiler-span",
            "info",
            "Spans of the profiler itself, and event records.",
            count=len(meanings) - ranges,
            dropped=True,
        )

    def finish(self) -> None:
        """Hand the slices over; copies that lack a size take that of the call that made them."""
        self._facts.copies_with_bytes |= sizes_from_calls(self._blocks)
        count_tracks_together(self._builder.health, self._places.count_beyond())
        self._builder.health.count(
            "late-end",
            "warning",
            "Device work that would have run at the same time as much that came after it on its "
            "stream was taken to end where that begins.",
            count=cut_overruns(self._blocks),
            dropped=False,
        )
        for block in self._blocks:
            self._builder.slices_from(block)
            self._builder.health.events_kept += len(block["start_ns"])


def _lean(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """A column as it is held until the end: one value repeated without memory, codes narrowed."""
    if not len(values):
        return values
    ends = values[[0, len(values) // 2, -1]]
    if (ends == ends[0]).all() and (values == ends[0]).all():
        return np.broadcast_to(ends[0], len(values))
    return narrowed(values) if name in NARROW_COLUMNS else values


def _said(raw_category: str, raw_name: str) -> _Said:
    category = category_of(raw_category)
    name = shown_name(category, raw_name)
    is_range = raw_category == "cuda_profiler_range"
    return _Said(is_range, category, name, meaning_of(category, name))


def _numbers(said: _Said) -> tuple[int, ...]:
    """What a category and a name say, in the order of the columns."""
    meaning = said.meaning
    return (
        NULL if meaning.kind is None else int(meaning.kind),
        meaning.on_device,
        int(meaning.copy),
        meaning.pageable,
        int(meaning.phase),
        said.is_range,
    )


def _phases(forward: NDArray[np.int64], named: NDArray[np.int8]) -> NDArray[np.int8]:
    """What knows its forward pass is of the backward one; all else is what its name says."""
    phases: NDArray[np.int8] = np.where(forward > 0, Phase.BACKWARD, named).astype(np.int8)
    return phases


def _taken(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    return values if len(rows) == len(values) else values[rows]


def sizes_from_calls(blocks: list[dict[str, NDArray[Any]]]) -> bool:
    """Give copies without a size that of the call that made them; whether any took one.

    ROCm writes the size beside the runtime call only.
    """
    calls = [_sized_calls(block) for block in blocks]
    ids, size = (np.concatenate([c[i] for c in calls] or [np.empty(0)]) for i in range(2))
    if not len(ids):
        return False
    # Of calls with one id the last one counts.
    last = first_sights(ids[::-1])
    ids, size, taken = ids[::-1][last], size[::-1][last], False
    for block in blocks:
        rows = np.flatnonzero((block["kind"] == Kind.MEMCPY) & (block["bytes"] == NULL))
        place = np.minimum(np.searchsorted(ids, block["correlation"][rows]), len(ids) - 1)
        hit = ids[place] == block["correlation"][rows]
        if hit.any():
            block["bytes"] = block["bytes"].copy()  # it may be one value, repeated
            block["bytes"][rows[hit]] = size[place[hit]]
            taken = True
    return taken


def _sized_calls(block: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Correlation ids and sizes of the host's calls that tell both."""
    told = (block["kind"] < Kind.KERNEL) & (block["bytes"] > 0) & (block["correlation"] > 0)
    return block["correlation"][told], block["bytes"][told]
