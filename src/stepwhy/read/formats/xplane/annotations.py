"""Classify events of host threads: Python frames, steps, device API calls, operations, ranges."""

from __future__ import annotations

from typing import NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.read.formats.xplane.frames import read_frame
from stepwhy.read.formats.xplane.names import (
    ARRAY_READ,
    CALLBACK_HLO,
    CONTROL_FLOW,
    EAGER_KERNEL,
    HOST_COPY,
    api_kind,
    eager_op,
    graph_op,
    hlo_kind,
    host_kind,
    is_api_call,
)
from stepwhy.read.formats.xplane.programs import phase_of_primitive
from stepwhy.read.shared.tensorflow.ops import executor_kind, normalise_op, phase_of
from stepwhy.trace import Kind, Phase, Role

_LOADER = regex(r"tf_data_(?!\w*get_next)")


class HostEvent(NamedTuple):
    """Properties of an event that decide its classification.

    Args:
        name: Name of the event.
        thread: Name of its thread.
        is_step: Whether it has a step number.
        is_call: Whether it has a correlation id.
        feeds: Whether it runs below a call of the input pipeline.
        traced: Tracing state of a `tf.function` call ('traced-nonXla', ...), '' for other events.
        is_instruction: Whether it is an HLO instruction.
        compiled_from: Operation that the instruction was compiled from, '' if unknown.
        source: Line that the instruction or node comes from, or that calls the function; ''
            if unknown.
        outer_op: Enclosing eager operation, '' for none.
    """

    name: str
    thread: str
    is_step: bool = False
    is_call: bool = False
    feeds: bool = False
    traced: str = ""
    is_instruction: bool = False
    compiled_from: str = ""
    source: str = ""
    outer_op: str = ""


class Classification(NamedTuple):
    """The slice that an event becomes.

    Args:
        kind: Kind of the slice.
        role: Role of its track.
        name: Name to show, '' for the event's name.
        phase: Phase, if it is known.
        source: Source line, '' for none.
        of_caller: Whether it counts as framework code if framework code encloses it.
    """

    kind: Kind
    role: Role = Role.HOST_THREAD
    name: str = ""
    phase: Phase = Phase.UNKNOWN
    source: str = ""
    of_caller: bool = False


def classify(event: HostEvent, *, has_accelerator: bool) -> Classification:
    """Classify an event of the training process.

    Args:
        event: The event.
        has_accelerator: Whether a device ran anything; if so, ops on the host only schedule work.
    """
    if event.name.startswith("$"):
        return _frame(event.name)
    if event.is_step:
        return Classification(Kind.STEP)
    if event.is_call or is_api_call(event.name):
        return Classification(api_kind(event.name))
    if event.feeds or _LOADER.match(event.thread):
        return _loading(event.name, event.source)
    if has_accelerator and CALLBACK_HLO.fullmatch(event.name):
        return Classification(Kind.PYTHON, Role.EXECUTOR)
    if has_accelerator and ARRAY_READ.fullmatch(event.name):
        return Classification(Kind.SYNC)
    found = _operation(event, has_accelerator=has_accelerator) or _annotation(event)
    if "/" not in event.thread or found.role is not Role.HOST_THREAD:
        return found
    if HOST_COPY.fullmatch(event.name) and not has_accelerator:
        return Classification(Kind.MEMCPY, Role.EXECUTOR)
    return found._replace(role=Role.EXECUTOR)


def classify_worker(name: str) -> Classification:
    """Classify an event of another process that feeds the training."""
    found = _frame(name) if name.startswith("$") else _loading(name)
    return found._replace(role=Role.WORKER)


def _frame(name: str) -> Classification:
    frame = read_frame(name)
    shown = frame.source or name.removeprefix("$")
    return Classification(frame.kind, name=shown, source=frame.source, of_caller=frame.of_caller)


def _loading(name: str, source: str = "") -> Classification:
    """Work of the input pipeline, ahead of the step."""
    op = graph_op(name)
    if op is not None:
        return Classification(Kind.OP, Role.WORKER, normalise_op(op[1]), Phase.INPUT, source)
    return Classification(Kind.FRAMEWORK, Role.WORKER, phase=Phase.INPUT)


def _operation(event: HostEvent, *, has_accelerator: bool) -> Classification | None:
    """An operation of the framework, None for other events."""
    if event.is_instruction:
        return _instruction(event, has_accelerator=has_accelerator)
    node, op = graph_op(event.name) or ("", "")
    if not op and EAGER_KERNEL.fullmatch(event.name):
        op = event.outer_op
    if not op:
        name = eager_op(event.name)
        is_op = name and host_kind(event.name) is Kind.FRAMEWORK
        return Classification(Kind.OP, name=name) if is_op else None
    if CONTROL_FLOW.fullmatch(op):
        return Classification(Kind.FRAMEWORK)
    found = _kernel(normalise_op(op), node, has_accelerator=has_accelerator)
    return found._replace(source=event.source)


def _kernel(op: str, node: str, *, has_accelerator: bool) -> Classification:
    kind = executor_kind(op, node)
    phase = phase_of(op, node, kind) if node else Phase.UNKNOWN
    if has_accelerator and kind in {Kind.KERNEL, Kind.COLLECTIVE}:
        kind = Kind.OP
    return Classification(kind, Role.EXECUTOR, op, phase)


def _instruction(event: HostEvent, *, has_accelerator: bool) -> Classification:
    if has_accelerator:
        return Classification(Kind.FRAMEWORK)
    if CALLBACK_HLO.fullmatch(event.name):
        return Classification(Kind.PYTHON, Role.EXECUTOR, source=event.source)
    kind = hlo_kind(event.name)
    if kind in {Kind.DEVICE_ANNOTATION, Kind.DEVICE_WAIT}:
        return Classification(Kind.FRAMEWORK, Role.EXECUTOR)
    is_kernel = kind is Kind.KERNEL
    phase = phase_of_primitive(event.compiled_from) if is_kernel else Phase.UNKNOWN
    return Classification(kind, Role.EXECUTOR, phase=phase, source=event.source)


def _annotation(event: HostEvent) -> Classification:
    """A named range of the framework or the user."""
    if event.traced:
        kind = Kind.COMPILE if event.traced.startswith("traced") else Kind.FRAMEWORK
        return Classification(kind, source=event.source)
    named = host_kind(event.name)
    if named is None:
        return Classification(Kind.ANNOTATION, of_caller=True)
    phase = Phase.INPUT if named is Kind.INPUT else Phase.UNKNOWN
    return Classification(named, phase=phase, source=event.source)
