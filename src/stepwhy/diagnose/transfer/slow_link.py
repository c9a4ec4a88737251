"""Copies take longer than the bandwidth of their link requires.

## What it means
The best large copies between host and device, or between devices, show the bandwidth of the link;
all copies of a step together reach far less. They are many and small, use pageable memory, or
compete with each other.

## Why it costs
Every copy has a latency, a hundred times the transfer time of a small copy. Unused bandwidth is
time in which nothing computes.

## How it is measured
For each device and direction: the bytes of the steady steps divided by the time in which any of
their copies runs, compared with the best copy of at least 1 MiB over the same link in the same
trace, never with a data sheet. It is a finding if small copies could be combined, or pageable ones
pinned. The cost is the exposed copy time that could be saved at that speed. Traces do not name the
connection between devices, but a copy faster than PCIe 5.0 with 16 lanes (63 GB/s) used another.

## Fix
Combine small copies into one, copy from pinned memory as other copies of the run do, and send
related data together.

## Fix risk
None for the result. Pinned memory cannot be swapped out.

## When it abstains
When the trace has no large copy over the link to compare with, and when copies between processes
were measured on a busy machine, because then they waited for a core. Does not apply to runs without
copies.
"""

from __future__ import annotations

from typing import NamedTuple

from stepwhy.analyse.activity.selection import rows_of
from stepwhy.analyse.steps.cores import background_cores
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.sums import total_of
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.units import NS_PER_S
from stepwhy.diagnose.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnose.shared.program import on_gpu, uses_loader
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule
from stepwhy.trace import NULL, Copy, Kind, among

RULE = Rule(
    __name__,
    name="Copies slower than their link",
    found="Use the full bandwidth of the link",
    clear="Copies use the bandwidth of their link, or take little time",
    needs=(("device-activity", "copies"), ("device-time",), ("steps",)),
    refines="exposed-transfer",
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.5,  # of the cost; not all small copies can be combined
    change="copy at the link's speed",
)

LARGE = 1_048_576  # bytes; from here on bandwidth, not latency, decides how long a copy takes
FEWEST_LARGE = 3  # copies; with fewer, something may have slowed down even the best one
FEWEST_SMALL = 8.0  # copies per step; combining fewer saves little more than their latency
ACHIEVED = 0.5  # of the attainable speed; equal large copies differ by a third from one to the next
BUSY = 0.25  # cores kept busy by other programs; copies by the CPU then wait for one
PCIE_5 = 63_000_000_000  # bytes per second of PCIe 5.0 with 16 lanes, the fastest in use


class _Link(NamedTuple):
    """The copies in one direction between a device and the others.

    Args:
        device: Row of `devices`.
        direction: Value of `Copy`.
    """

    device: int
    direction: int


class _Speed(NamedTuple):
    """Bandwidth of a link in bytes per ns, and its copies in the steady steps."""

    link: _Link
    rows: AnyRows
    running: Intervals
    achieved: float
    attainable: float


# Bytes per ns. A thousand times the speed of any link: such a size or time is damaged.
_TOO_FAST = 1e6


def diagnose(facts: Facts) -> Finding:
    """Judge the copies of every link against its best large ones."""
    steady = _copies(facts, facts.slices(Kind.MEMCPY, steady=True))
    if not len(steady):
        return RULE.not_applicable(
            "No copies between devices were timed, or their sizes are unknown."
        )
    speeds = [s for link in _links(facts, steady) if (s := _speed(facts, link, steady))]
    slow = [s for s in speeds if s.achieved < ACHIEVED * s.attainable and _is_fixable(facts, s)]
    cost = _cost(facts, slow)
    if not slow or cost < RULE.least_share * facts.wall_ns:
        return _not_found(facts, speeds)
    worst = max(slow, key=lambda s: _cost(facts, [s]))
    busy = background_cores(facts.trace) or 0.0
    if worst.link.direction in (Copy.PEER, Copy.H2H) and busy > BUSY:
        return RULE.incomplete(
            "quiet-machine",
            f"Other programs kept {busy:.1f} cores busy, and copies between processes wait for a "
            "core: record on a quiet machine.",
        )
    way = {Copy.H2D: "h2d", Copy.D2H: "d2h"}.get(Copy(worst.link.direction), "peer")
    edit = Edit("copies", "bandwidth", way, bytes_per_s=worst.attainable * NS_PER_S)
    return RULE.finding(cost, _evidence(facts, worst), _fix(facts, worst), edit=edit)


def _is_fixable(facts: Facts, speed: _Speed) -> bool:
    """Whether some copies use pinned memory and others do not, or enough are small."""
    sizes = facts.trace.slices.bytes[speed.rows]
    small = int((sizes < LARGE).sum()) / max(facts.steady_count, 1)
    return small >= FEWEST_SMALL or _could_be_pinned(facts, speed)


def _cost(facts: Facts, slow: list[_Speed]) -> int:
    """Exposed time per step that copies would save at the speed of their links."""
    if not slow:
        return 0
    exposed = Intervals.union([s.running for s in slow])
    for activity in facts.leading:
        exposed = exposed - activity.compute
    time = on_scale(facts, mean_within(facts, exposed), "transfer")
    taken = sum(s.running.total_ns for s in slow)
    needed = sum(s.running.total_ns * s.achieved / s.attainable for s in slow)
    return round(min(time, facts.breakdown["transfer"]) * max(0.0, 1 - needed / taken))


def _not_found(facts: Facts, speeds: list[_Speed]) -> Finding:
    if not speeds and facts.share("transfer") >= RULE.least_share:
        return RULE.incomplete(
            "bandwidth",
            "The bandwidth of the links is unknown: there are fewer than three copies of 1 MiB.",
        )
    best = max(speeds, key=lambda s: s.achieved, default=None)
    return RULE.nothing(_speed_evidence(facts, best) if best else ())


def _copies(facts: Facts, rows: AnyRows) -> AnyRows:
    """Copies that cross a link, with a plausible size and time."""
    slices = facts.trace.slices
    crosses = among(slices.copy[rows], (Copy.H2D, Copy.D2H, Copy.PEER))
    size, took_ns = slices.bytes[rows], slices.dur_ns[rows]
    usable = (size > 0) & (took_ns > 0) & (size < _TOO_FAST * took_ns)
    chosen: AnyRows = rows[crosses & usable]
    return chosen


def _links(facts: Facts, rows: AnyRows) -> list[_Link]:
    slices = facts.trace.slices
    devices = facts.trace.tracks.device[slices.track[rows]]
    pairs = zip(devices.tolist(), slices.copy[rows].tolist(), strict=True)
    return [_Link(*pair) for pair in sorted(set(pairs))]


def _of_link(facts: Facts, link: _Link, rows: AnyRows) -> AnyRows:
    slices = facts.trace.slices
    is_here = facts.trace.tracks.device[slices.track[rows]] == link.device
    chosen: AnyRows = rows[is_here & (slices.copy[rows] == link.direction)]
    return chosen


def _speed(facts: Facts, link: _Link, steady: AnyRows) -> _Speed | None:
    """Speed of a link; None if it has too few large copies to compare with."""
    slices = facts.trace.slices
    every = _of_link(facts, link, _copies(facts, rows_of(facts.trace, (Kind.MEMCPY,))))
    large = every[slices.bytes[every] >= LARGE]
    if len(large) < FEWEST_LARGE:
        return None
    attainable = float((slices.bytes[large] / slices.dur_ns[large]).max())
    rows = _of_link(facts, link, steady)
    running = time_of(facts, rows)
    achieved = total_of(slices.bytes[rows]) / running.total_ns
    return _Speed(link, rows, running, achieved, attainable)


_WAYS = {
    Copy.H2D: "host to device", Copy.D2H: "device to host", Copy.PEER: "between devices",
}  # fmt: skip


def _speed_evidence(facts: Facts, speed: _Speed) -> tuple[Evidence, ...]:
    way, trace = _WAYS[Copy(speed.link.direction)], facts.trace
    row = speed.link.device
    device = trace.string(int(trace.devices.name[row])) if row != NULL else ""
    return (
        Evidence(f"copied per second {way}", round(speed.achieved * NS_PER_S), "bytes", device),
        Evidence(
            f"the best large copy per second {way}",
            round(speed.attainable * NS_PER_S),
            "bytes",
            device,
        ),
    )


def _evidence(facts: Facts, speed: _Speed) -> tuple[Evidence, ...]:
    slices, rows = facts.trace.slices, speed.rows
    small = rows[slices.bytes[rows] < LARGE]
    share = time_of(facts, small).total_ns / max(time_of(facts, rows).total_ns, 1)
    return (
        *_speed_evidence(facts, speed),
        Evidence("copies per step", round(len(rows) / max(facts.steady_count, 1), 1), "count"),
        Evidence("share of their time in copies of less than 1 MiB", share, "fraction"),
        *_pageable(facts, rows),
        *_connection(facts, speed),
    )


def _pageable(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    known = rows[facts.trace.slices.pageable[rows] != NULL]
    if not len(known):
        return ()
    share = float((facts.trace.slices.pageable[known] == 1).mean())
    return (Evidence("share of the copies that use pageable memory", share, "fraction"),)


def _connection(facts: Facts, speed: _Speed) -> tuple[Evidence, ...]:
    """Kind of connection between the devices, judged by the best copy."""
    if speed.link.direction != Copy.PEER or not facts.has_accelerator:
        return ()
    is_faster = speed.attainable * NS_PER_S > PCIE_5
    kind = "faster than PCIe: NVLink or similar" if is_faster else "no faster than PCIe"
    return (Evidence("connection between the devices, judged by the best copy", kind, ""),)


def _fix(facts: Facts, speed: _Speed) -> Fix:
    if speed.link.direction == Copy.PEER:
        if facts.has_accelerator and speed.attainable * NS_PER_S <= PCIE_5:
            return RULE.fix("pcie")
        return _combine(facts)
    if _could_be_pinned(facts, speed):
        return RULE.fix("pin" if uses_loader(facts) and on_gpu(facts) else "pinned")
    return _combine(facts)


def _could_be_pinned(facts: Facts, speed: _Speed) -> bool:
    """Whether large copies use pageable memory, and others pinned memory."""
    slices, rows = facts.trace.slices, speed.rows
    states = slices.pageable[rows]
    is_mixed = bool((states == 1).any() and (states == 0).any())
    return is_mixed and int(slices.bytes[rows[states == 1]].max()) >= LARGE


def _combine(facts: Facts) -> Fix:
    ways = {"tensorflow": "combine-tf", "pytorch": "combine-torch"}
    return RULE.fix(ways.get(facts.trace.meta.framework, "combine"))
