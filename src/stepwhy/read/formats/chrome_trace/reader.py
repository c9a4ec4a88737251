"""Chrome traces of any tool, for files that no stricter importer recognises.

VizTracer, the tracers that people write themselves, `torch.autograd.profiler` until 1.8, the trace
viewer files of JAX and XProf, IBM's AIU, Ascend. Most of them record how long a
range lasted, but not its kind. Only rows that the file calls a device are devices. Without any, the
trace has a limit (`Meta.limit`), and its ranges are listed in place of operations.

Times are microseconds, whatever `displayTimeUnit` is: that is for viewers.

Source: the "Trace Event Format" document of the Chromium project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.columns.memory import give_back
from stepwhy.base.patterns import regex
from stepwhy.read.formats.chrome_trace.counters import add_counters
from stepwhy.read.formats.chrome_trace.names import is_api_call
from stepwhy.read.formats.chrome_trace.records import METADATA, collect
from stepwhy.read.formats.chrome_trace.rows import rows_of
from stepwhy.read.formats.chrome_trace.slices import add_async, add_slices
from stepwhy.read.formats.chrome_trace.tracks import Tracks
from stepwhy.read.formats.chrome_trace.uses import places_beyond, uses_of
from stepwhy.read.shared.chrome_samples import SAMPLE
from stepwhy.read.shared.chrome_spans import ASYNC, ON_THREAD, async_spans_of, spans_of
from stepwhy.trace import Kind, Meta, TraceBuilder
from stepwhy.trace.builder import count_names_unread, count_tracks_together

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from stepwhy.read.formats.chrome_trace.rows import Row
    from stepwhy.read.formats.chrome_trace.used_names import Uses
    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.chrome_json import Place
    from stepwhy.trace import Health, Trace

FORMAT = "chrome-trace"

_EVENTS = regex(rb'"traceEvents"\s*:\s*\[')
_PHASE = regex(rb'"ph"\s*:\s*"[A-Za-z]"')
# The trace viewer's copy of an XPlane profile lacks a part of it; the profile lies beside it.
_XPLANE_NAMES = regex(rb'"name"\s*:\s*"\\?/(?:host:CPU|device:(?:GPU|TPU):\d)')
_VIEWER = regex(rb'"highres-ticks"|"\\?/host:CPU')
_COUNTED = {
    "flow-arrow": ("Arrows between ranges; they do not say how long anything took.", "stf"),
    "instant": ("Instants, which have no duration.", "iIRnTp"),
}
# What becomes something, or is counted elsewhere.
_TAKEN = (METADATA, SAMPLE, *ON_THREAD, *ASYNC)

_SIGNALS = {
    "host-ops": {Kind.OP},
    "runtime-calls": {Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC},
    "python-stacks": {Kind.PYTHON},
    "input": {Kind.INPUT},
}
_NO_DEVICE = (
    "the file says how long its ranges take, but calls none of them work of a device, so what the "
    "step waits for is open. Begin with the longest of them, or record the run with 'stepwhy run' "
    "or the framework's own profiler"
)
_SEVERAL = (
    "the file holds devices of {count} processes, and does not say whether one clock timed them "
    "all, so their times cannot be laid side by side. Record one process at a time, with its host"
)


def recognise(source: Source) -> bool:
    """Whether the file is a Chrome trace of its own."""
    begin = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if begin == b"[":
        is_chrome = _PHASE.search(source.head) is not None
    else:
        # What a tool writes before the events can fill the head.
        is_chrome = begin == b"{" and all(map(source.holds, (_EVENTS, _PHASE)))
    is_copy = all(p.search(source.head) for p in (_XPLANE_NAMES, _VIEWER))
    return is_chrome and not is_copy


def read(source: Source) -> Trace | None:
    """Read a Chrome trace; None when it holds no range with a beginning and an end.

    Args:
        source: The file.

    Raises:
        CorruptInputError: It holds not a single complete record.
    """
    builder = TraceBuilder()
    found = collect(source, builder.health)
    table = found.ranges.finish()
    give_back()
    spans = spans_of(table, builder.health)
    detached = found.detached.finish()
    async_spans = async_spans_of(detached, builder.health)
    if not len(spans) and not len(async_spans):
        return None
    uses = uses_of(table, spans, found.titles)
    count_tracks_together(builder.health, places_beyond(table))
    count_names_unread(builder.health, uses.unread)
    times = spans.times
    del table, spans
    give_back()  # What follows needs the memory.
    rows = rows_of(found.titles, uses)
    tracks = Tracks(builder)
    kinds = add_slices(builder, tracks, times, uses, rows)
    add_async(builder, tracks, detached, async_spans)
    add_counters(builder, found.samples)
    _count_others(found.phases, builder.health)
    meta = _meta_of(FORMAT, uses, rows, kinds)
    # The builder has columns of its own, and needs the memory.
    del times, uses, detached, async_spans, found
    return builder.finish(meta)


def _count_others(phases: Counter[int], health: Health) -> None:
    """Records that last no time; names of rows are kept as the names of tracks."""
    health.events_kept += phases[METADATA]
    others = phases.total() - sum(phases[phase] for phase in _TAKEN)
    for counter, (text, letters) in _COUNTED.items():
        count = sum(phases[ord(letter)] for letter in letters)
        health.count(counter, "info", text, count=count, dropped=True)
        others -= count
    health.count(
        "other-record",
        "info",
        "Records of kinds that carry no time: samples, snapshots of objects, memory dumps.",
        count=others,
        dropped=True,
    )


def _meta_of(name: str, uses: Uses, rows: Mapping[Place, Row], kinds: set[Kind]) -> Meta:
    """Facts about the run.

    Args:
        name: Name of the format.
        uses: The names that ranges have.
        rows: The rows of these.
        kinds: Kinds of the ranges on host threads.
    """
    hosts = (use for use in uses.known if not rows[use.place].device)
    devices = {row.device for row in rows.values() if row.device}
    signals = {signal for signal, shown in _SIGNALS.items() if shown & kinds}
    if devices:
        signals.add("device-activity")
    limit = _limit(rows)
    return Meta(
        format=name,
        signals=frozenset(signals | ({"ranges"} if limit else set())),
        device_expected=bool(devices) or any(is_api_call(u.name) for u in hosts),
        limit=limit,
    )


def _limit(rows: Mapping[Place, Row]) -> str:
    """Why the file cannot show what the step waits for, '' where it can."""
    devices = {row.process for row in rows.values() if row.device}
    hosts = {row.process for row in rows.values() if not row.device}
    if not devices:
        return _NO_DEVICE
    # A host with several devices has a row of its own; ranks have one each, beside their device.
    if len(devices) > 1 and (not hosts or len(devices & hosts) > 1):
        return _SEVERAL.format(count=len(devices))
    return ""
