"""What a trace and its result promise, whatever the file says."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.analyse.facts import Facts
from stepwhy.engine.assemble import assemble
from stepwhy.result import CATEGORIES, Result
from stepwhy.show.json import render
from stepwhy.trace.integrity import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.trace import Trace

_INT64 = range(-(1 << 63), 1 << 63)


def broken_promises(trace: Trace, path: str, name: str) -> Iterator[str]:
    """What a trace and its result do not keep, as 'promise: details'.

    Args:
        trace: The trace.
        path: Where it came from.
        name: Name of its format.
    """
    health = trace.health
    yield from _integrity(trace)
    if health.events_read != health.events_kept + health.dropped:
        yield f"health: read {health.events_read}, kept {health.events_kept} + {health.dropped}"
    facts = Facts(trace)
    result = assemble(facts, path, name)
    yield from _open_breakdown(facts)
    for finding in result.findings:
        if finding.verdict == "error":
            yield f"diagnosis {finding.id} failed: {finding.reason}"
    yield from of_result(result)
    if msgspec.json.decode(render(result), type=Result).breakdown.wall_ns != facts.wall_ns:
        yield "json: another wall time"


def _integrity(trace: Trace) -> Iterator[str]:
    try:
        check(trace)
    except ValueError as error:
        yield f"integrity: {error}"


def _open_breakdown(facts: Facts) -> Iterator[str]:
    """Steps and breakdowns whose parts do not sum to the whole."""
    durations = facts.steps.durations_ns
    if (durations < 0).any():
        yield f"steps: one of {durations.min()} ns"
    for partition in (facts.partition, *facts.device_partitions):
        per_step = partition.per_step(facts.steps)
        if (per_step < 0).any() or (per_step.sum(axis=1) != durations).any():
            yield f"breakdown of a step: {per_step.sum(axis=1)} of {durations}"
    start, end = facts.span
    covered = sum(s.total_ns for s in facts.partition.sets.values())
    if covered != end - start:
        yield f"partition: {covered} of {end - start}"


def of_result(result: Result) -> Iterator[str]:
    """Which numbers of a result cannot be, or do not fit to each other; as 'promise: details'."""
    yield from _impossible(msgspec.to_builtins(result))
    whole = result.breakdown
    for where, parts in (
        ("breakdown", whole.categories),
        *((f"breakdown of {d.name}", d.breakdown) for d in result.devices if d.breakdown),
    ):
        if set(parts) != set(CATEGORIES) or sum(parts.values()) != whole.wall_ns:
            yield f"breakdown: {where} is {parts} of {whole.wall_ns}"
    for device in result.devices:
        busy = device.busy_ns
        parts_ns = (device.compute_ns, device.communication_ns, device.transfer_ns)
        if busy > whole.wall_ns or max(parts_ns) > busy or not 0 <= device.busy_fraction <= 1:
            yield f"busy: {device} of {whole.wall_ns}"
    for total in result.trace.devices:
        if total.busy_ns > result.trace.span_ns:
            yield f"busy in all: {total} of {result.trace.span_ns}"
    for finding in result.findings:
        saving = finding.saving
        if saving is not None and saving.low_ns > saving.high_ns:
            yield f"saving of {finding.id}: {saving}"


def _impossible(root: Any) -> Iterator[str]:
    """Numbers beyond 64 bits or not finite; times and sizes below zero, by their fields' names."""
    todo = [("result", root)]
    while todo:
        where, value = todo.pop()
        if isinstance(value, dict):
            todo += [(_name(key, inner, where, value), inner) for key, inner in value.items()]
        elif isinstance(value, (list, tuple)):
            todo += [(where, inner) for inner in value]
        elif isinstance(value, float) and not isfinite(value):
            yield f"{where} not finite: {value}"
        elif isinstance(value, int) and value not in _INT64:
            yield f"{where} beyond 64 bits: {value}"
        elif isinstance(value, (int, float)) and where.endswith(("_ns", "bytes")) and value < 0:
            yield f"{where} below zero: {value}"


def _name(key: str, inner: Any, where: str, holder: dict[str, Any]) -> str:
    """What to call a number: its field, with the unit that evidence or a breakdown gives it."""
    if not isinstance(inner, (int, float)):
        return key
    if where in {"categories", "phases", "breakdown"}:
        return f"{where}_ns"
    return f"evidence_{holder['unit']}" if key == "value" else key
