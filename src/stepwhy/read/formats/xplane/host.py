"""The host plane: what each thread of the process did.

There are three kinds of threads. Threads that the framework started ('tf_Compute/12') execute ops
on the CPU. Threads of tf.data prepare batches ahead of the step. All others belong to the program,
and only these can drive the training loop, so what blocks them explains idle time. Graph ops on a
thread of the program still count as work of the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.chunks import take
from stepwhy.base.columns.nesting import inherit
from stepwhy.read.formats.xplane.annotations import (
    Classification,
    HostEvent,
    classify,
    classify_worker,
)
from stepwhy.read.formats.xplane.end_marks import marked_ends
from stepwhy.read.formats.xplane.events import CORRELATION, Events
from stepwhy.read.formats.xplane.groups import equal_rows
from stepwhy.read.formats.xplane.kernels.layout import MISSING
from stepwhy.read.formats.xplane.names import (
    BOOKKEEPING,
    EAGER_KERNEL,
    END_MARK,
    PIPELINE_CALL,
    copy_details,
    eager_op,
    graph_op,
    jitted_function,
)
from stepwhy.read.formats.xplane.nesting import enclosing, is_inside, nearest
from stepwhy.read.formats.xplane.table import SliceTemplate
from stepwhy.trace import NULL, DeviceKind, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.base.columns.types import AnyInts, Mask
    from stepwhy.read.formats.xplane.events import Labels
    from stepwhy.read.formats.xplane.planes import Plane, Space
    from stepwhy.read.formats.xplane.table import SliceTable
    from stepwhy.read.formats.xplane.unneeded import Unneeded


_GRAPH_RUN = "ExecutorState::Process"
# Frames and annotations called by framework code of these kinds belong to it by default.
_OWNERS = (Kind.FRAMEWORK, Kind.COMPILE, Kind.INPUT, Kind.SYNC, Kind.STORAGE)
# Ids of lines that the profiler's tools derive, as signed and as unsigned numbers.
# Source: tsl/profiler/utils/trace_utils.h.
_DERIVED = frozenset(n - wrap for n in range(0xDEADBEEF, 0xDEADBEEF + 290) for wrap in (0, 1 << 32))
# Statistics whose presence decides what an event is.
_MARKING = ("step_num", CORRELATION)
_COPYING = {Kind.LAUNCH, Kind.SYNC, Kind.MEMCPY}
# Values that events of the caller inherit from the nearest other event around them.
_OWNER, _NO_OWNER = 1, 2


class HostReader:
    """Reads the threads of one process.

    Args:
        table: Receives the slices.
        plane: The process; each line is a thread.
        space: The file that contains the plane.
        has_accelerator: Whether a device ran anything; if so, ops on the host only schedule.
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
        self._texts = space.texts
        self._programs = space.programs
        self._lines_of_nodes, self._callers = space.lines, space.callers
        self._has_accelerator = has_accelerator
        self._process = process
        self._events, plane.events = plane.events, Events.empty()  # releases dropped events
        self._leave_out_derived()
        self._ends = self._events.labelled(self._named(lambda name: name.startswith(END_MARK)))
        self._leave_out(
            self._named(BOOKKEEPING.match),
            "instant",
            "Marks of the profiler itself and single allocations, which have no duration.",
        )
        _order(self._events)
        self._events.number_labels()

    def _leave_out_derived(self) -> None:
        """Leave out lines that the profiler's tools derived from the others."""
        derived = np.array([line.id in _DERIVED for line in self._lines], dtype=np.bool_)
        self._leave_out(
            derived[self._events.labels.line],
            "derived-row",
            "Rows that repeat, by step, module, op or name scope, what the device rows show.",
        )

    def _leave_out(self, labels: Mask, counter: str, what: str) -> None:
        """Drop and count the events of some labels."""
        before = len(self._events)
        self._events.keep(~labels)
        left = before - len(self._events)
        self._table.builder.health.count(counter, "info", what, count=left, dropped=True)

    def add(self) -> None:
        """Add the slices of all threads."""
        events = self._events
        outer = enclosing(events.line, events.start_ns, events.dur_ns)
        _, (feeds, outer_op) = events.split_labels(*self._surroundings(outer))
        classes = self._classify_labels(feeds, outer_op)
        # Events belong to the framework if their enclosing event does.
        of_caller = take(np.array([c.of_caller for c in classes], dtype=np.bool_), events.label)
        owner = [0 if c.of_caller else _OWNER if c.kind in _OWNERS else _NO_OWNER for c in classes]
        nearest_owner = inherit(outer, take(np.array(owner, dtype=np.int8), events.label))
        owned: Mask = of_caller & (nearest_owner == _OWNER)
        before, (owned,) = events.split_labels(owned)
        del outer
        templates = [
            self._template(label, classes[of], owned=is_owned)
            for label, (of, is_owned) in enumerate(
                zip(before.tolist(), owned.tolist(), strict=True)
            )
        ]
        unneeded = [self._unneeded(label) for label in range(len(templates))]
        self._table.add(events, templates, marked_ends(events, self._ends, self._texts), unneeded)

    def _surroundings(self, outer: AnyInts) -> tuple[Mask, AnyInts]:
        """For every event, whether it runs below the input pipeline, and the enclosing eager op."""
        events, texts = self._events, self._texts
        feeds = is_inside(outer, self._runs_pipeline())
        ops = self._label_values(lambda name: texts.code(eager_op(name)))
        chosen = take(ops > 0, events.label)
        around = nearest(outer, chosen) if chosen.any() else np.full(len(outer), -1, dtype=np.int32)
        is_kernel = self._named(EAGER_KERNEL.fullmatch)
        if not is_kernel.any() or not ops.any():
            return feeds, np.zeros(len(events), dtype=np.int32)
        outer_op = np.where(is_kernel[events.label], ops[events.label[around]], 0)
        outer_op[around < 0] = 0
        return feeds, outer_op

    def _classify_labels(self, feeds: AnyInts, outer_op: AnyInts) -> list[Classification]:
        """The classification of every label."""
        labels = self._events.labels
        deciding: list[AnyInts | Mask] = [labels.line, labels.name, feeds, outer_op]
        deciding += _present(labels.numbers, *_MARKING)
        deciding += _present(labels.texts, "tf_function_call")
        if self._programs:
            deciding += _present(labels.texts, "hlo_op") + _present(labels.numbers, "program_id")
        else:
            deciding += [column > 0 for column in _present(labels.texts, "hlo_op")]
        first, group = equal_rows(*deciding)
        found = [
            self._classify(label, bool(feeds[label]), self._texts[int(outer_op[label])])
            for label in first.tolist()
        ]
        return [found[place] for place in group.tolist()]

    def _classify(self, label: int, feeds: bool, outer_op: str) -> Classification:
        labels, texts = self._events.labels, self._texts
        name = texts[int(labels.name[label])]
        if self._process != NULL:
            return classify_worker(name)
        event = HostEvent(
            name,
            self._lines[int(labels.line[label])].name,
            is_step=_has(labels, "step_num", label),
            is_call=_has(labels, CORRELATION, label),
            feeds=feeds,
            traced=self._text("tf_function_call", label),
            is_instruction=bool(self._text("hlo_op", label)),
            compiled_from=self._programs.op_name(*self._instruction(label)),
            source=self._source(name, label),
            outer_op=outer_op,
        )
        self._programs.note(name, event.source, event.compiled_from)
        return classify(event, has_accelerator=self._has_accelerator)

    def _unneeded(self, label: int) -> Unneeded | None:
        """Why an instruction is not needed."""
        program, instruction = self._instruction(label)
        return self._programs.unneeded(program, instruction) if instruction else None

    def _instruction(self, label: int) -> tuple[int, str]:
        """Program and name of an HLO instruction."""
        program = self._events.labels.numbers.get("program_id")
        key = MISSING if program is None else int(program[label])
        return key, self._text("hlo_op", label)

    def _source(self, name: str, label: int) -> str:
        """Line that an instruction or node comes from, or that calls a function; '' if unknown."""
        node = graph_op(name)
        if node is not None:
            return self._lines_of_nodes.of(node[0])
        if self._text("tf_function_call", label):
            return self._callers.get(name, "")
        jitted = jitted_function(name)
        if jitted:
            return self._programs.calling_line(jitted)
        return self._programs.line(*self._instruction(label))

    def _template(self, label: int, found: Classification, *, owned: bool) -> SliceTemplate:
        labels = self._events.labels
        kind = Kind.FRAMEWORK if owned else found.kind
        ordinals = labels.numbers.get("device_ordinal")
        ordinal = 0 if ordinals is None else max(int(ordinals[label]), 0)
        track = self._track(int(labels.line[label]), found.role, ordinal)
        name = self._texts[int(labels.name[label])]
        template = SliceTemplate(track, kind, found.name or name, found.source, found.phase)
        if kind not in _COPYING:
            return template
        copy, size, pageable = copy_details(name, self._text("memcpy_details", label))
        return template._replace(copy=copy, bytes=size, pageable=pageable)

    def _track(self, place: int, role: Role, ordinal: int) -> int:
        """Track of a thread; a thread that executes for several devices has one track for each."""
        line = self._lines[place]
        device = self._cpu(ordinal) if role is Role.EXECUTOR else NULL
        name = line.name or f"thread {line.id}"
        return self._table.builder.track(
            role, name, process=self._process, thread=line.id or NULL, device=device
        )

    def _cpu(self, ordinal: int) -> int:
        """The CPU device with an ordinal; JAX can divide the CPU into several devices."""
        name = f"CPU:{ordinal}" if ordinal else "CPU"
        return self._table.builder.device(name, DeviceKind.CPU)

    def _runs_pipeline(self) -> Mask:
        """Mask of events that run a graph for the input pipeline; (events,)."""
        events = self._events
        is_call = self._named(PIPELINE_CALL.match)
        if not is_call.any():
            return np.zeros(len(events), dtype=np.bool_)
        ids = events.id("id")
        runs = (events.labels.name == self._texts.code(_GRAPH_RUN))[events.label]
        found: Mask = runs & (ids != MISSING) & np.isin(ids, ids[is_call[events.label]])
        return found

    def _text(self, stat: str, label: int) -> str:
        column = self._events.labels.texts.get(stat)
        return "" if column is None else self._texts[int(column[label])]

    def _named(self, predicate: Callable[[str], object]) -> Mask:
        """Mask of labels whose names satisfy a predicate; (labels,)."""
        return self._label_values(lambda name: int(bool(predicate(name)))) > 0

    def _label_values(self, value: Callable[[str], int]) -> AnyInts:
        """A non-negative value of every label, computed once per name; (labels,)."""
        codes, place = np.unique(self._events.labels.name, return_inverse=True)
        values = [value(self._texts[code]) for code in codes.tolist()]
        found: AnyInts = np.array(values, dtype=np.int32)[place]
        return found


def _order(events: Events) -> None:
    """Sort events by thread, then by start, longest first."""
    line = events.line
    later = _later(line) | (line[1:] == line[:-1]) & (
        _later(events.start_ns)
        | (events.start_ns[1:] == events.start_ns[:-1]) & ~_later(events.dur_ns)
    )
    if not later.all():
        events.reorder(np.lexsort((-events.dur_ns, events.start_ns, line)))


def _later(column: AnyInts) -> Mask:
    """Mask of values larger than the one before; (rows - 1,)."""
    return column[1:] > column[:-1]


def _present(columns: dict[str, AnyInts], *stats: str) -> list[AnyInts]:
    """Columns of the statistics that occur."""
    return [columns[stat] for stat in stats if stat in columns]


def _has(labels: Labels, stat: str, label: int) -> bool:
    column = labels.numbers.get(stat)
    return column is not None and bool(column[label] != MISSING)
