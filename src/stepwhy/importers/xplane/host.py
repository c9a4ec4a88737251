"""The host plane: which thread did what.

Three kinds of threads are told apart. A thread that the framework started ('tf_Compute/12') is a
lane of the CPU as an op executor; threads of tf.data prepare batches ahead; all others belong to
the program. Only these can drive the loop, and what holds them explains idle time. Graph ops that
run on a thread of the program are work of the CPU all the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.importers.tensorflow.ops import executor_kind, normalise_op, phase_of
from stepwhy.importers.xplane.frames import read_frame
from stepwhy.importers.xplane.names import (
    BOOKKEEPING,
    CONTROL_FLOW,
    EAGER_KERNEL,
    api_kind,
    copy_details,
    eager_op,
    graph_op,
    hlo_kind,
    host_kind,
    is_api_call,
)
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Phase, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.importers.xplane.planes import Event, Line, Plane
    from stepwhy.importers.xplane.table import SliceTable

_LOADER = re.compile(r"tf_data_(?!\w*get_next)")
# Calls of tf.data into functions of the user's pipeline; their ids mark the ops that run for them.
_PIPELINE_CALL = re.compile(r"InstantiatedCapturedFunction::")
_GRAPH_RUN = "ExecutorState::Process"
# Frames and annotations below the framework's own code are its own, if nothing says otherwise.
_OWNERS = frozenset({Kind.FRAMEWORK, Kind.COMPILE, Kind.INPUT, Kind.SYNC, Kind.STORAGE})


class Look(NamedTuple):
    """What an event becomes.

    Args:
        kind: Its kind.
        role: Role of the track that it lies on.
        name: Its name, '' for the event's.
        phase: Its phase where it is known.
        source: Its source line, '' for none.
    """

    kind: Kind
    role: Role = Role.HOST_THREAD
    name: str = ""
    phase: Phase = Phase.UNKNOWN
    source: str = ""


class _Open(NamedTuple):
    """An event that encloses the next ones."""

    end_ns: int
    kind: Kind
    op: str
    feeds: bool


_NOTHING = _Open(0, Kind.OTHER, "", False)


class HostReader:
    """Reads host planes.

    Args:
        table: Takes the slices.
        planes: The host planes.
        has_accelerator: Whether a device ran anything: then ops on the host only schedule.
    """

    def __init__(
        self, table: SliceTable, planes: Iterable[Plane], *, has_accelerator: bool
    ) -> None:
        self._table = table
        self._lines = [line for plane in planes for line in plane.lines]
        self._has_accelerator = has_accelerator
        events = [e for line in self._lines for e in line.events]
        self._pipeline_runs = {e.number("id") for e in events if _PIPELINE_CALL.match(e.name)} - {
            None
        }
        self._ends = {
            (e.name.removeprefix("end: "), e.number("_c")): e.start_ns
            for e in events
            if e.name.startswith("end: ")
        }

    def add(self) -> None:
        """Add the slices of all threads."""
        for line in self._lines:
            self._add_line(line)

    def _add_line(self, line: Line) -> None:
        """One sweep over a thread, with the events that enclose the current one."""
        left_out = 0
        stack: list[_Open] = []
        for event in sorted(line.events, key=lambda e: (e.start_ns, -e.dur_ns)):
            if BOOKKEEPING.match(event.name):
                left_out += 1
                continue
            while stack and stack[-1].end_ns <= event.start_ns:
                stack.pop()
            outer = stack[-1] if stack else _NOTHING
            look = self._look(line, event, outer)
            self._emit(line, event, look)
            feeds = outer.feeds or self._feeds(event)
            op = eager_op(event.name) or outer.op
            stack.append(_Open(event.end_ns, look.kind, op, feeds))
        self._table.builder.health.count(
            "instant",
            "info",
            "Marks of the profiler itself and single allocations: they carry no time.",
            count=left_out,
            dropped=True,
        )

    def _feeds(self, event: Event) -> bool:
        return event.name == _GRAPH_RUN and event.number("id") in self._pipeline_runs

    def _look(self, line: Line, event: Event, outer: _Open) -> Look:
        if event.name.startswith("$"):
            return _frame(event.name, outer)
        if event.number("step_num") is not None:
            return Look(Kind.STEP)
        if event.number("correlation_id") is not None or is_api_call(event.name):
            return Look(api_kind(event.name))
        if outer.feeds or _LOADER.match(line.name):
            return _loading(event)
        look = self._op(event, outer) or _annotation(event, outer)
        pooled = "/" in line.name and look.role is Role.HOST_THREAD
        return look._replace(role=Role.EXECUTOR) if pooled else look

    def _op(self, event: Event, outer: _Open) -> Look | None:
        """An operation of the framework, None for other events."""
        if event.text("hlo_op"):
            return self._instruction(event)
        node, op = graph_op(event.name) or ("", "")
        if not op and EAGER_KERNEL.fullmatch(event.name):
            op = outer.op
        if not op:
            name = eager_op(event.name)
            is_op = name and host_kind(event.name) is Kind.FRAMEWORK
            return Look(Kind.OP, name=name) if is_op else None
        if CONTROL_FLOW.fullmatch(op):
            return Look(Kind.FRAMEWORK)
        return self._kernel(normalise_op(op), node)

    def _kernel(self, op: str, node: str) -> Look:
        kind = executor_kind(op, node)
        phase = phase_of(op, node, kind) if node else Phase.UNKNOWN
        if self._has_accelerator and kind in {Kind.KERNEL, Kind.COLLECTIVE}:
            kind = Kind.OP
        return Look(kind, Role.EXECUTOR, op, phase)

    def _instruction(self, event: Event) -> Look:
        if self._has_accelerator:
            return Look(Kind.FRAMEWORK)
        kind = hlo_kind(event.name)
        if kind in {Kind.DEVICE_ANNOTATION, Kind.DEVICE_WAIT}:
            return Look(Kind.FRAMEWORK, Role.EXECUTOR)
        return Look(kind, Role.EXECUTOR)

    def _emit(self, line: Line, event: Event, look: Look) -> None:
        copy, size, pageable = Copy.NONE, NULL, NULL
        if look.kind in {Kind.LAUNCH, Kind.SYNC}:
            copy, size, pageable = copy_details(event.name, event.text("memcpy_details"))
        self._table.add(
            event,
            self._track(line, look.role, event.number("device_ordinal") or 0),
            look.kind,
            look.name,
            source=look.source,
            phase=look.phase,
            copy=copy,
            size=size,
            pageable=pageable,
            # An instruction that runs asynchronously ends where its mark says.
            end_ns=self._ends.get((event.name, event.number("_p")), NULL),
        )

    def _track(self, line: Line, role: Role, ordinal: int) -> int:
        """The track of a thread; one that executes for several devices has one for each."""
        device = self._cpu(ordinal) if role is Role.EXECUTOR else NULL
        name = line.name or f"thread {line.id}"
        return self._table.builder.track(role, name, thread=line.id, device=device)

    def _cpu(self, ordinal: int) -> int:
        """JAX can divide the CPU into several devices."""
        name = f"CPU:{ordinal}" if ordinal else "CPU"
        return self._table.builder.device(name, DeviceKind.CPU)


def _frame(name: str, outer: _Open) -> Look:
    frame = read_frame(name)
    kind = frame.kind
    if frame.of_caller and outer.kind in _OWNERS:
        kind = Kind.FRAMEWORK
    return Look(kind, name=frame.source or name.removeprefix("$"), source=frame.source)


def _loading(event: Event) -> Look:
    """Work ahead of the step, on a thread that feeds it."""
    op = graph_op(event.name)
    if op is not None:
        return Look(Kind.OP, Role.WORKER, normalise_op(op[1]), Phase.INPUT)
    return Look(Kind.FRAMEWORK, Role.WORKER, phase=Phase.INPUT)


def _annotation(event: Event, outer: _Open) -> Look:
    """A range that the framework or the user named."""
    traced = event.text("tf_function_call")
    if traced:
        return Look(Kind.COMPILE if traced.startswith("traced") else Kind.FRAMEWORK)
    kind = host_kind(event.name)
    if kind is None:
        kind = Kind.FRAMEWORK if outer.kind in _OWNERS else Kind.ANNOTATION
    return Look(kind, phase=Phase.INPUT if kind is Kind.INPUT else Phase.UNKNOWN)
