"""Build the timeline of one trace, or of all ranks of a run."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.answers.drawn_categories import categories_of
from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.intervals import Intervals, windows_at
from stepwhy.result import CATEGORIES
from stepwhy.result.timeline import DRAWN_CATEGORIES, Gap, Timeline, TimelineRow
from stepwhy.show.timeline.alignment import RankClock, with_waits
from stepwhy.show.timeline.packing import columns_of
from stepwhy.show.timeline.replays import replay_rows
from stepwhy.show.timeline.rows import track_rows
from stepwhy.show.timeline.series import sampled_rows, thinned_rows
from stepwhy.show.timeline.slices import Drawn, drawn, joined, reordered, thinned
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.breakdown.closed import Partition
    from stepwhy.analyse.facts import Facts
    from stepwhy.show.timeline.alignment import Alignment
    from stepwhy.show.timeline.replays import Replayed
    from stepwhy.show.timeline.samples import Sampled

    Ints = NDArray[np.int64]
    Label = tuple[str, str, str]

MOST_SLICES = 2_000_000
"""Most slices that a page draws one by one."""
MOST_BYTES = 6_000_000
"""Most bytes of compressed columns, so that a page stays below 10 MB."""
# One sampled value for so many slices, at most.
_SLICES_PER_SAMPLE = 10
# Likewise one slice of replayed steps.
_SLICES_PER_REPLAYED = 10
# Fewer slices compress a little worse.
_ROOM = 0.9
# Breakdowns of single devices are left out beyond this number; that of the step is always there.
_MOST_DEVICES = 16
_TIME = "Where the time goes"
# Of the step: a smaller difference between the breakdown and the timeline is not worth a note.
_MUCH = 0.1
# Number of gaps that are listed as text.
_GAPS = 20
# Clocks of ranks agree if their traces share at least this part of the shortest one.
_SHARED = 0.5
# Longer names are cut; the start and the end of a kernel's name matter most.
_LONGEST_LABEL = 400


class Part(msgspec.Struct, frozen=True):
    """The timeline of one trace before it is packed.

    Args:
        rows: The rows; those of samples have no lanes yet, and no range.
        slices: The slices; strips are the lanes of the rows.
        labels: What `Drawn.label` refers to.
        count: Number of slices in the trace.
        gaps: The longest gaps; starts are on the clock of the trace.
        warm_up: Number of steps at the beginning that are not steady.
        unplaced: As in `Timeline`.
        shortest_ns: Slices of at least this duration were not merged.
        aligned: As in `Timeline`.
        sampled: The samples of each row whose role is 'series', in order of the rows.
        left_out: As in `Timeline`.
    """

    rows: tuple[TimelineRow, ...]
    slices: Drawn
    labels: tuple[Label, ...]
    count: int
    gaps: tuple[Gap, ...] = ()
    warm_up: int = 0
    unplaced: str = ""
    shortest_ns: int = 0
    aligned: bool = False
    sampled: tuple[Sampled, ...] = ()
    left_out: int = 0


def part_of(facts: Facts, most: int = MOST_SLICES, replays: Sequence[Replayed] = ()) -> Part:
    """The timeline of one trace.

    Args:
        facts: Its facts.
        most: Number of slices to keep; neighbouring short ones are merged beyond it.
        replays: Replayed steps, to be drawn in addition.
    """
    above = [_steps(facts), *_times(facts)]
    rows, strip = track_rows(facts)
    labels = tuple(label for _, _, some in above for label in some)
    label, names = _labels(facts)
    label += len(labels)
    all_slices = _slices(facts, strip + len(above), label)
    # The slices of the trace take most memory, so only what is left of them is copied further.
    slices, shortest_ns = thinned(all_slices, most)
    del all_slices
    breakdowns = [
        thinned(replace(one, strip=one.strip + i), most // 4)[0]
        for i, (_, one, _) in enumerate(above)
    ]
    strips = len(above) + sum(len(row.lanes) for row in rows)
    predicted, replayed = replay_rows(facts, replays, label, strips, most // _SLICES_PER_REPLAYED)
    together = joined([*breakdowns, slices, *replayed])
    begin_ns, end_ns = _span(together)
    sampled = sampled_rows(facts.trace, begin_ns, end_ns, most // _SLICES_PER_SAMPLE)
    return Part(
        (
            *(row for row, _, _ in above),
            *_empty(sampled.levels),
            *rows,
            *_empty(sampled.counters),
            *predicted,
        ),
        together,
        (*labels, *names),
        len(facts.trace.slices),
        tuple(_gaps_of(facts)),
        facts.recorded_steps.warm_up,
        _unplaced(facts),
        shortest_ns,
        sampled=(*sampled.levels, *sampled.counters),
        left_out=sampled.left_out,
    )


def _empty(rows: list[Sampled]) -> list[TimelineRow]:
    """Rows for samples, whose ranges are computed when nothing more is left out."""
    return [TimelineRow(one.title, one.group, "series", ()) for one in rows]


def _unplaced(facts: Facts) -> str:
    """Category whose share of the reported step is much larger than in the recorded steps."""
    wall_ns, recorded_ns = facts.wall_ns, sum(facts.recorded.values())
    if not wall_ns or not recorded_ns:
        return ""
    more = {c: facts.breakdown[c] / wall_ns - facts.recorded[c] / recorded_ns for c in CATEGORIES}
    category = max(more, key=more.__getitem__)
    return category if more[category] > _MUCH else ""


def _gaps_of(facts: Facts) -> list[Gap]:
    """The longest times of steady steps in which the device does not compute."""
    steps, found = facts.recorded_steps, []
    for category in CATEGORIES[1:]:
        times = facts.partition.sets[category]
        step = windows_at(times.starts, steps.starts, steps.ends)
        inside = np.flatnonzero((step != NULL) & (step >= steps.warm_up))
        length = times.ends[inside] - times.starts[inside]
        found += [
            Gap(int(times.starts[inside[i]]), int(length[i]), category, int(step[inside[i]]) + 1)
            for i in np.argsort(-length, kind="stable")[:_GAPS].tolist()
        ]
    return sorted(found, key=lambda gap: -gap.duration_ns)[:_GAPS]


def _steps(facts: Facts) -> tuple[TimelineRow, Drawn, list[Label]]:
    steps = facts.recorded_steps
    count = len(steps.starts)
    row = TimelineRow("Steps", "", "steps", (count,))
    other = np.full(count, DRAWN_CATEGORIES.index("other"), dtype=np.int64)
    slices = drawn(
        np.zeros(count, dtype=np.int64), steps.starts, steps.ends, other, label=np.arange(count)
    )
    whole = steps.source == "whole-trace"
    names = ["whole trace"] if whole else [f"step {number}" for number in range(1, count + 1)]
    return row, slices, [(name, "", "") for name in names]


def _times(facts: Facts) -> list[tuple[TimelineRow, Drawn, list[Label]]]:
    """Breakdowns over time: of the step, and of each device if there are several."""
    steps = Intervals.of(facts.recorded_steps.starts, facts.recorded_steps.ends)
    found = [_time(_TIME, "", facts.partition, steps)]
    if 1 < len(facts.activities) <= _MOST_DEVICES:
        found += [
            _time("busy, or idle because", activity.name, partition, steps)
            for activity, partition in zip(facts.activities, facts.device_partitions, strict=True)
        ]
    return found


def _time(
    title: str, group: str, partition: Partition, steps: Intervals
) -> tuple[TimelineRow, Drawn, list[Label]]:
    """A row that shows the breakdown within the steps; gaps between steps stay empty."""
    sets = [partition.sets[category] & steps for category in CATEGORIES]
    starts = np.concatenate([times.starts for times in sets])
    ends = np.concatenate([times.ends for times in sets])
    category = np.repeat(np.arange(len(CATEGORIES)), [len(times.starts) for times in sets])
    order = np.argsort(starts, kind="stable")
    strip = np.zeros(len(order), dtype=np.int64)
    slices = drawn(strip, starts[order], ends[order], category[order])
    return TimelineRow(title, group, "time", (len(order),)), slices, []


def _slices(facts: Facts, strip: Ints, label: Ints) -> Drawn:
    """All slices of the trace, in the order in which they are drawn."""
    slices = facts.trace.slices
    order = np.argsort(strip, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    launch = np.full(len(order), NULL, dtype=np.int64)
    devices, calls = facts.launches.joined
    launch[devices] = place[calls]
    return drawn(
        strip[order],
        slices.start_ns[order].astype(np.int64),
        facts.trace.ends(order),
        categories_of(facts)[order],
        label=label[order],
        size=slices.bytes[order].astype(np.int64),
        launch=launch[order],
    )


def _labels(facts: Facts) -> tuple[Ints, list[Label]]:
    """Index of the label of each slice, and the distinct labels."""
    trace, slices = facts.trace, facts.trace.slices
    count = len(trace.strings) + 1
    nodes, node = numbered((slices.name.astype(np.int64) + 1) * count + slices.scope + 1)
    lines, line = numbered(node.astype(np.int64) * count + slices.source + 1)
    labels = []
    for one in lines.tolist():
        name, scope = divmod(int(nodes[one // count]), count)
        texts = (_cut(trace.string(index - 1)) for index in (name, scope, one % count))
        labels.append((next(texts), next(texts), next(texts)))
    return line.astype(np.int64), labels


def _cut(text: str) -> str:
    """Shorten a long text by removing its middle."""
    if len(text) <= _LONGEST_LABEL:
        return text
    half = _LONGEST_LABEL // 2
    return f"{text[:half]} … {text[-half:]}"


def timeline_of(parts: Sequence[tuple[str, Part]], alignment: Alignment | None = None) -> Timeline:
    """Pack the parts of a timeline.

    Args:
        parts: A title for the groups of each part, '' for none; and the parts, one per rank.
        alignment: What the collectives of these ranks tell; None if nothing.
    """
    most = MOST_SLICES
    while True:
        found = _packed(_together(parts, most, alignment))
        if found.size <= MOST_BYTES or most < 1000:
            if alignment is None:
                return found
            return replace(found, match=alignment.match, has_waits=any(map(len, alignment.waits)))
        most = int(most * min(_ROOM * MOST_BYTES / found.size, _ROOM))


def _together(parts: Sequence[tuple[str, Part]], most: int, alignment: Alignment | None) -> Part:
    """Merge the parts of all ranks, and keep about `most` slices."""
    rows: list[TimelineRow] = []
    slices: list[Drawn] = []
    labels: list[Label] = []
    gaps: list[Gap] = []
    sampled: list[Sampled] = []
    strips, shortest = 0, 0
    each = most // _SLICES_PER_SAMPLE // max(sum(len(part.sampled) for _, part in parts), 1)
    known = None if alignment is None else alignment.clocks
    clocks = _clocks([part for _, part in parts]) if known is None else known
    for place, ((title, part), clock) in enumerate(zip(parts, clocks, strict=True)):
        one, shortest_ns = thinned(part.slices, most // len(parts))
        if alignment is not None:
            one = with_waits(one, _strip_of_times(part), alignment.waits[place])
        label = np.where(one.label == NULL, NULL, one.label + len(labels))
        times = {name: clock.aligned(getattr(one, name)) for name in ("start_ns", "end_ns")}
        slices.append(replace(one, strip=one.strip + strips, label=label, **times))
        starts = clock.aligned(np.array([gap.start_ns for gap in part.gaps], dtype=np.int64))
        gaps += [
            replace(gap, start_ns=start)
            for gap, start in zip(part.gaps, starts.tolist(), strict=True)
        ]
        sampled += [
            replace(one, group=_group(title, one.group), times_ns=clock.aligned(one.times_ns))
            for one in thinned_rows(part.sampled, each)
        ]
        labels += part.labels
        rows += [replace(row, group=_group(title, row.group)) for row in part.rows]
        strips += sum(len(row.lanes) for row in part.rows)
        shortest = max(shortest, shortest_ns, part.shortest_ns)
    rows, sampled, together = _comparable(rows, sampled, joined(slices))
    return Part(
        _counted(rows, together),
        together,
        tuple(labels),
        sum(part.count for _, part in parts),
        tuple(sorted(gaps, key=lambda gap: -gap.duration_ns)[:_GAPS]),
        parts[0][1].warm_up,
        parts[0][1].unplaced,
        shortest,
        known is None and any(clock.offset_ns for clock in clocks),
        tuple(sampled),
        sum(part.left_out for _, part in parts),
    )


def _comparable(
    rows: list[TimelineRow], sampled: list[Sampled], slices: Drawn
) -> tuple[list[TimelineRow], list[Sampled], Drawn]:
    """Put the breakdowns of all ranks beneath each other, after the steps of the first rank."""
    first = next((i for i, row in enumerate(rows) if row.role == "steps"), None)
    times = {i for i, row in enumerate(rows) if row.role == "time" and row.title == _TIME}
    order = sorted(range(len(rows)), key=lambda i: (i != first, i not in times, i))
    lanes = [len(row.lanes) for row in rows]
    begin = np.cumsum([0, *lanes[:-1]])
    strips = np.concatenate([begin[i] + np.arange(lanes[i]) for i in order])
    number = np.empty_like(strips)
    number[strips] = np.arange(len(strips))
    series = (i for i, row in enumerate(rows) if row.role == "series")
    of_row = dict(zip(series, sampled, strict=True))
    found = [of_row[i] for i in order if i in of_row]
    return [rows[i] for i in order], found, reordered(slices, number[slices.strip])


def _group(*titles: str) -> str:
    return " · ".join(filter(None, titles))


def _clocks(parts: Sequence[Part]) -> list[RankClock]:
    """Clocks on which each rank begins at its first step; those of the ranks if these agree."""
    spans = [_span(part.slices) for part in parts]
    shared = min(end for _, end in spans) - max(start for start, _ in spans)
    if len(parts) == 1 or shared >= _SHARED * min(end - start for start, end in spans):
        return [RankClock()] * len(parts)
    # The first step is the first slice of the first row.
    return [RankClock(int(part.slices.start_ns[0]) if len(part.slices) else 0) for part in parts]


def _strip_of_times(part: Part) -> int:
    """The strip that shows where the time of the step goes."""
    place = next(i for i, row in enumerate(part.rows) if row.title == _TIME)
    return sum(len(row.lanes) for row in part.rows[:place])


def _span(slices: Drawn) -> tuple[int, int]:
    if not len(slices):
        return 0, 0
    return int(slices.start_ns.min()), int(slices.end_ns.max())


def _counted(rows: Sequence[TimelineRow], slices: Drawn) -> tuple[TimelineRow, ...]:
    """The rows with the number of slices that are left in each lane."""
    counts = np.bincount(slices.strip, minlength=sum(len(row.lanes) for row in rows)).tolist()
    found, first = [], 0
    for row in rows:
        end = first + len(row.lanes)
        found.append(replace(row, lanes=tuple(counts[first:end])))
        first = end
    return tuple(found)


def _packed(part: Part) -> Timeline:
    slices = part.slices
    used, label = numbered(slices.label)
    labels = ["" if one == NULL else part.labels[one] for one in used.tolist()]
    begin = int(slices.start_ns.min(initial=int(slices.end_ns.max(initial=0))))
    described = iter(part.sampled)
    # Strips that hold slices of the trace, not steps or breakdowns.
    held = [row.role in {"thread", "stream"} for row in part.rows for _ in row.lanes]
    return Timeline(
        span_ns=int(slices.end_ns.max(initial=begin)) - begin,
        rows=tuple(next(described).row() if row.role == "series" else row for row in part.rows),
        columns={
            **columns_of(replace(slices, label=label.astype(np.int64)), part.sampled, begin),
            "labels": zlib.compress(msgspec.json.encode(labels), 6),
        },
        slices=part.count,
        merged=int(slices.merged[np.array(held, dtype=bool)[slices.strip]].sum()),
        shortest_ns=part.shortest_ns,
        gaps=tuple(replace(gap, start_ns=gap.start_ns - begin) for gap in part.gaps),
        warm_up=part.warm_up,
        unplaced=part.unplaced,
        aligned=part.aligned,
        left_out=part.left_out,
    )
