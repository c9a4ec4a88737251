"""The host plane: which thread did what.

Three kinds of threads are told apart. A thread that the framework started ('tf_Compute/12') is a
lane of the CPU as an op executor; threads of tf.data prepare batches ahead; all others belong to
the program. Only these can drive the loop, and what holds them explains idle time. Graph ops that
run on a thread of the program are work of the CPU all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.importers.xplane.annotations import Guess, Seen, guess, guess_of_worker
from stepwhy.importers.xplane.events import MISSING, alike, distinct
from stepwhy.importers.xplane.names import BOOKKEEPING, EAGER_KERNEL, copy_details, eager_op
from stepwhy.importers.xplane.nesting import enclosing, nearest
from stepwhy.importers.xplane.table import Look
from stepwhy.patterns import regex
from stepwhy.trace import NULL, DeviceKind, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepwhy.importers.xplane.events import Events
    from stepwhy.importers.xplane.planes import Plane, Space
    from stepwhy.importers.xplane.table import SliceTable

    Ints = NDArray[np.signedinteger[Any]]
    Bools = NDArray[np.bool_]

# Calls of tf.data into functions of the user's pipeline; their ids mark the ops that run for them.
_PIPELINE_CALL = regex(r"InstantiatedCapturedFunction::")
_GRAPH_RUN = "ExecutorState::Process"
_END_MARK = "end: "
# Frames and annotations below the framework's own code are its own, if nothing says otherwise.
_OWNERS = (Kind.FRAMEWORK, Kind.COMPILE, Kind.INPUT, Kind.SYNC, Kind.STORAGE)
# Ids of lines that the profiler's tools derive; written as signed or as unsigned numbers.
# Source: tsl/profiler/utils/trace_utils.h.
_DERIVED = frozenset(n - wrap for n in range(0xDEADBEEF, 0xDEADBEEF + 290) for wrap in (0, 1 << 32))
# Statistics of which it matters whether an event has them.
_MARKING = ("step_num", "correlation_id")
_COPYING = {Kind.LAUNCH, Kind.SYNC}


class HostReader:
    """Reads the threads of one process.

    Args:
        table: Takes the slices.
        plane: The threads, each a line.
        space: The file that they are part of.
        has_accelerator: Whether a device ran anything: then ops on the host only schedule.
        process: Id of a process that feeds the training; `NULL` for the training itself.
    """

    def __init__(
        self,
        table: SliceTable,
        plane: Plane,
        space: Space,
        *,
        has_accelerator: bool,
        process: int = NULL,
    ) -> None:
        self._table = table
        self._lines = plane.lines
        self._marks = _recorded(table, plane)
        self._texts = space.texts
        self._programs = space.programs
        self._has_accelerator = has_accelerator
        self._process = process
        self._codes = distinct(self._marks.name)
        self._events = _in_order(self._marks.take(~self._named(self._marks, BOOKKEEPING.match)))

    def add(self) -> None:
        """Add the slices of all threads."""
        events = self._events
        self._table.builder.health.count(
            "instant",
            "info",
            "Marks of the profiler itself and single allocations: they carry no time.",
            count=len(self._marks) - len(events),
            dropped=True,
        )
        outer = enclosing(events.line, events.start_ns, events.dur_ns)
        first, group = self._alike(outer)
        guesses = [self._guess(*row) for row in first]
        owned = _owned(guesses, group, outer)
        rows, final = alike(group, owned, *self._details())
        looks = [
            self._look(row, guesses[group[row]], owned=bool(owned[row])) for row in rows.tolist()
        ]
        self._table.add(events, looks, final, self._ends())

    def _alike(self, outer: Ints) -> tuple[list[tuple[int, bool, str]], Ints]:
        """Events of which all that decides is the same.

        Returns:
            For each group its first row, whether it feeds the training, and its outer operation;
            the group of every event.
        """
        events, texts = self._events, self._texts
        deciding: list[Ints | Bools] = [events.line, events.name]
        feeds = self._around(outer, self._runs_pipeline()) >= 0
        op = self._by_name(events, lambda name: texts.code(eager_op(name)))
        around = self._around(outer, op > 0)
        is_kernel = self._named(events, EAGER_KERNEL.fullmatch)
        outer_op = np.where(is_kernel & (around >= 0), op[around], 0)
        deciding += [column for column in (feeds, outer_op) if column.any()]
        deciding += [events.numbers[n] != MISSING for n in _MARKING if n in events.numbers]
        deciding += _present(events.texts, "tf_function_call")
        if self._programs:
            deciding += _present(events.texts, "hlo_op") + _present(events.numbers, "program_id")
        else:
            deciding += [column > 0 for column in _present(events.texts, "hlo_op")]
        first, group = alike(*deciding)
        found = zip(first.tolist(), feeds[first].tolist(), outer_op[first].tolist(), strict=True)
        return [(row, fed, texts[code]) for row, fed, code in found], group

    def _details(self) -> list[Ints]:
        """What tells apart how two events look that are of the same kind."""
        events = self._events
        ordinals = _present(events.numbers, "device_ordinal")
        return ordinals + _present(events.texts, "memcpy_details")

    def _around(self, outer: Ints, holds: Bools) -> Ints:
        """As `nearest`, at no cost where it holds for none."""
        return nearest(outer, holds) if holds.any() else np.full(len(outer), -1, dtype=np.int32)

    def _guess(self, row: int, feeds: bool, outer_op: str) -> Guess:
        events, texts = self._events, self._texts
        name = texts[int(events.name[row])]
        if self._process != NULL:
            return guess_of_worker(name)
        seen = Seen(
            name,
            self._lines[int(events.line[row])].name,
            is_step=_has(events, "step_num", row),
            is_call=_has(events, "correlation_id", row),
            feeds=feeds,
            traced=self._text("tf_function_call", row),
            is_instruction=bool(self._text("hlo_op", row)),
            compiled_from=self._compiled_from(row),
            outer_op=outer_op,
        )
        return guess(seen, has_accelerator=self._has_accelerator)

    def _compiled_from(self, row: int) -> str:
        program = self._events.numbers.get("program_id")
        key = MISSING if program is None else int(program[row])
        return self._programs.op_name(key, self._text("hlo_op", row))

    def _look(self, row: int, found: Guess, *, owned: bool) -> Look:
        kind = Kind.FRAMEWORK if owned else found.kind
        ordinals = self._events.numbers.get("device_ordinal")
        ordinal = 0 if ordinals is None else max(int(ordinals[row]), 0)
        track = self._track(int(self._events.line[row]), found.role, ordinal)
        name = self._texts[int(self._events.name[row])]
        look = Look(track, kind, found.name or name, found.source, found.phase)
        if kind not in _COPYING:
            return look
        copy, size, pageable = copy_details(name, self._text("memcpy_details", row))
        return look._replace(copy=copy, bytes=size, pageable=pageable)

    def _track(self, place: int, role: Role, ordinal: int) -> int:
        """The track of a thread; one that executes for several devices has one for each."""
        line = self._lines[place]
        device = self._cpu(ordinal) if role is Role.EXECUTOR else NULL
        name = line.name or f"thread {line.id}"
        return self._table.builder.track(
            role, name, process=self._process, thread=line.id or NULL, device=device
        )

    def _cpu(self, ordinal: int) -> int:
        """JAX can divide the CPU into several devices."""
        name = f"CPU:{ordinal}" if ordinal else "CPU"
        return self._table.builder.device(name, DeviceKind.CPU)

    def _runs_pipeline(self) -> Bools:
        """Which events run a graph for the input pipeline."""
        calls = self._named(self._marks, _PIPELINE_CALL.match)
        if not calls.any():
            return np.zeros(len(self._events), dtype=np.bool_)
        of_calls = self._marks.number("id")[calls]
        ids = self._events.number("id")
        runs = self._events.name == self._texts.code(_GRAPH_RUN)
        found: Bools = runs & (ids != MISSING) & np.isin(ids, of_calls)
        return found

    def _ends(self) -> Ints | None:
        """Where instructions end that run asynchronously, as their marks say; None without any."""
        are_marks = self._named(self._marks, lambda n: n.startswith(_END_MARK))
        if not are_marks.any():
            return None
        marks = self._marks.take(are_marks)
        texts = self._texts
        ended = self._by_name(marks, lambda n: texts.code(n.removeprefix(_END_MARK)))
        ids = np.concatenate([marks.number("_c"), self._events.number("_p")])
        pair = alike(np.concatenate([ended, self._events.name]), ids)[1]
        ends = np.full(int(pair.max()) + 1, NULL)
        ends[pair[: len(marks)]] = marks.start_ns
        return ends[pair[len(marks) :]]

    def _text(self, stat: str, row: int) -> str:
        column = self._events.texts.get(stat)
        return "" if column is None else self._texts[int(column[row])]

    def _named(self, events: Events, holds: Callable[[str], object]) -> Bools:
        """For which events something holds of their names."""
        return self._by_name(events, lambda name: int(bool(holds(name)))) > 0

    def _by_name(self, events: Events, value: Callable[[str], int]) -> Ints:
        """For every event a value that its name tells, none negative."""
        values = [value(self._texts[code]) for code in self._codes.tolist()]
        if not any(values):
            return np.zeros(len(events), dtype=np.int32)
        table = np.zeros(int(self._codes.max()) + 1, dtype=np.int32)
        table[self._codes] = values
        found: Ints = table[events.name]
        return found


def _recorded(table: SliceTable, plane: Plane) -> Events:
    """The events of threads, without lines that the profiler's tools derived from them."""
    derived = np.array([line.id in _DERIVED for line in plane.lines], dtype=np.bool_)
    events = plane.events.take(~derived[plane.events.line]) if derived.any() else plane.events
    table.builder.health.count(
        "derived-row",
        "info",
        "Rows that repeat, by step, module, op or name scope, what the device rows show.",
        count=len(plane.events) - len(events),
        dropped=True,
    )
    return events


def _in_order(events: Events) -> Events:
    """By thread, then by start, then the longest first."""
    later = _later(events.line) | (events.line[1:] == events.line[:-1]) & (
        _later(events.start_ns)
        | (events.start_ns[1:] == events.start_ns[:-1]) & ~_later(events.dur_ns)
    )
    if later.all():
        return events
    return events.take(np.lexsort((-events.dur_ns, events.start_ns, events.line)))


def _later(column: Ints) -> Bools:
    """Where a value is larger than the one before it."""
    return column[1:] > column[:-1]


def _present(columns: dict[str, Ints], *stats: str) -> list[Ints]:
    """The columns of statistics, of those that any event has."""
    return [columns[stat] for stat in stats if stat in columns]


def _has(events: Events, stat: str, row: int) -> bool:
    column = events.numbers.get(stat)
    return column is not None and bool(column[row] != MISSING)


def _owned(guesses: list[Guess], group: Ints, outer: Ints) -> Bools:
    """Which events belong to the framework, as what encloses them does."""
    of_caller = np.array([g.of_caller for g in guesses], dtype=np.bool_)[group]
    owners = np.array([g.kind in _OWNERS for g in guesses], dtype=np.bool_)[group]
    around = nearest(outer, ~of_caller)
    owned: Bools = of_caller & (around >= 0) & owners[around]
    return owned
