"""What an event of a host thread is: a frame, a step, a call of the device API, an operation ..."""

from __future__ import annotations

from typing import NamedTuple

from stepwhy.importers.formats.xplane.frames import read_frame
from stepwhy.importers.formats.xplane.names import (
    CONTROL_FLOW,
    EAGER_KERNEL,
    api_kind,
    eager_op,
    graph_op,
    hlo_kind,
    host_kind,
    is_api_call,
)
from stepwhy.importers.formats.xplane.programs import phase_of_primitive
from stepwhy.importers.shared.tensorflow.ops import executor_kind, normalise_op, phase_of
from stepwhy.patterns import regex
from stepwhy.trace import Kind, Phase, Role

_LOADER = regex(r"tf_data_(?!\w*get_next)")


class Seen(NamedTuple):
    """What decides about an event.

    Args:
        name: Its name.
        thread: Name of its thread.
        is_step: It has a step number.
        is_call: It has a correlation id.
        feeds: It runs below a call of the input pipeline.
        traced: What a call of a `tf.function` says of its tracing, '' for other events.
        is_instruction: It is an HLO instruction.
        compiled_from: The operation that an instruction was compiled from, '' where not known.
        outer_op: The eager operation that it runs below, '' for none.
    """

    name: str
    thread: str
    is_step: bool = False
    is_call: bool = False
    feeds: bool = False
    traced: str = ""
    is_instruction: bool = False
    compiled_from: str = ""
    outer_op: str = ""


class Guess(NamedTuple):
    """What an event becomes.

    Args:
        kind: Its kind.
        role: Role of the track that it lies on.
        name: Its name, '' for the event's.
        phase: Its phase where it is known.
        source: Its source line, '' for none.
        of_caller: Below the framework's own code it is that code; else `kind` holds.
    """

    kind: Kind
    role: Role = Role.HOST_THREAD
    name: str = ""
    phase: Phase = Phase.UNKNOWN
    source: str = ""
    of_caller: bool = False


def guess(seen: Seen, *, has_accelerator: bool) -> Guess:
    """What an event of the training process becomes.

    Args:
        seen: The event.
        has_accelerator: Whether a device ran anything: then ops on the host only schedule.
    """
    if seen.name.startswith("$"):
        return _frame(seen.name)
    if seen.is_step:
        return Guess(Kind.STEP)
    if seen.is_call or is_api_call(seen.name):
        return Guess(api_kind(seen.name))
    if seen.feeds or _LOADER.match(seen.thread):
        return _loading(seen.name)
    found = _operation(seen, has_accelerator=has_accelerator) or _annotation(seen)
    pooled = "/" in seen.thread and found.role is Role.HOST_THREAD
    return found._replace(role=Role.EXECUTOR) if pooled else found


def guess_of_worker(name: str) -> Guess:
    """What an event becomes of another process that feeds the training."""
    found = _frame(name) if name.startswith("$") else _loading(name)
    return found._replace(role=Role.WORKER)


def _frame(name: str) -> Guess:
    frame = read_frame(name)
    shown = frame.source or name.removeprefix("$")
    return Guess(frame.kind, name=shown, source=frame.source, of_caller=frame.of_caller)


def _loading(name: str) -> Guess:
    """Work ahead of the step, on a thread that feeds it."""
    op = graph_op(name)
    if op is not None:
        return Guess(Kind.OP, Role.WORKER, normalise_op(op[1]), Phase.INPUT)
    return Guess(Kind.FRAMEWORK, Role.WORKER, phase=Phase.INPUT)


def _operation(seen: Seen, *, has_accelerator: bool) -> Guess | None:
    """An operation of the framework, None for other events."""
    if seen.is_instruction:
        return _instruction(seen, has_accelerator=has_accelerator)
    node, op = graph_op(seen.name) or ("", "")
    if not op and EAGER_KERNEL.fullmatch(seen.name):
        op = seen.outer_op
    if not op:
        name = eager_op(seen.name)
        is_op = name and host_kind(seen.name) is Kind.FRAMEWORK
        return Guess(Kind.OP, name=name) if is_op else None
    if CONTROL_FLOW.fullmatch(op):
        return Guess(Kind.FRAMEWORK)
    return _kernel(normalise_op(op), node, has_accelerator=has_accelerator)


def _kernel(op: str, node: str, *, has_accelerator: bool) -> Guess:
    kind = executor_kind(op, node)
    phase = phase_of(op, node, kind) if node else Phase.UNKNOWN
    if has_accelerator and kind in {Kind.KERNEL, Kind.COLLECTIVE}:
        kind = Kind.OP
    return Guess(kind, Role.EXECUTOR, op, phase)


def _instruction(seen: Seen, *, has_accelerator: bool) -> Guess:
    if has_accelerator:
        return Guess(Kind.FRAMEWORK)
    kind = hlo_kind(seen.name)
    if kind in {Kind.DEVICE_ANNOTATION, Kind.DEVICE_WAIT}:
        return Guess(Kind.FRAMEWORK, Role.EXECUTOR)
    is_kernel = kind is Kind.KERNEL
    phase = phase_of_primitive(seen.compiled_from) if is_kernel else Phase.UNKNOWN
    return Guess(kind, Role.EXECUTOR, phase=phase)


def _annotation(seen: Seen) -> Guess:
    """A range that the framework or the user named."""
    if seen.traced:
        return Guess(Kind.COMPILE if seen.traced.startswith("traced") else Kind.FRAMEWORK)
    kind = host_kind(seen.name)
    if kind is None:
        return Guess(Kind.ANNOTATION, of_caller=True)
    return Guess(kind, phase=Phase.INPUT if kind is Kind.INPUT else Phase.UNKNOWN)
