"""A timeline to draw: slices as compressed columns, and the rows that they are drawn on."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepwhy.result.profile import ProfileResult  # noqa: TC001 - the class reads it
from stepwhy.result.result import CATEGORIES

RowRole = Literal["steps", "time", "thread", "stream", "series", "replay"]

DRAWN_CATEGORIES = (*CATEGORIES, "other", "wait")
"""What a slice may be drawn as; the column 'category' holds indices into these. 'wait' is the part
of communication in which a rank waits for another one."""


class ClockMatch(msgspec.Struct, frozen=True):
    """How well the clocks of ranks can be compared by collectives that end together.

    Args:
        spread_ns: By how much the ends differ, 95 % of them, once the clocks are aligned: the error
            of every time that compares two ranks.
        offset_ns: The largest difference between a clock and that of the first rank.
        drift: The largest difference between the speeds of two clocks, as a fraction.
    """

    spread_ns: int
    offset_ns: int
    drift: float

    @property
    def differs(self) -> bool:
        """Whether the clocks differ by more than the error."""
        return self.offset_ns > self.spread_ns


class TimelineSeries(msgspec.Struct, frozen=True):
    """Sampled values of a row; each holds until the next.

    Args:
        unit: 'bytes', 'bytes/s', 'cores', 'elements', '%', 'W', 'MHz', '/s', or '' for a number.
        scale: Factor from the stored integers to that unit.
        values: Number of values in the columns, including those for unknown.
        samples: Number of samples in the trace, during the timeline.
        least, most: The smallest and the largest one, as stored.
        capacity: Largest possible value, as stored; None if it is unknown.
    """

    unit: str
    scale: float
    values: int
    samples: int
    least: int
    most: int
    capacity: int | None = None


class TimelineRow(msgspec.Struct, frozen=True):
    """One row of a timeline.

    Args:
        title: Its title, e.g. 'stream 7'.
        group: The process or device that it belongs to.
        role: 'steps': the steps; 'time': the breakdown over time; 'thread': a thread, with calls
            beneath their callers; 'stream': a stream of a device; 'series': sampled values;
            'replay': a stream in the predicted step after a fix.
        lanes: Number of slices in each lane, from top to bottom; slices of one lane do not
            overlap. Empty for sampled values.
        series: The sampled values; None for slices.
        fix: Id of the finding whose fix a replay is about; '' for other rows.
    """

    title: str
    group: str
    role: RowRole
    lanes: tuple[int, ...]
    series: TimelineSeries | None = None
    fix: str = ""


class ReplayedWork(msgspec.Struct, frozen=True):
    """Device work of one name that a fix removes or shortens in a step.

    Args:
        name: Its name.
        count: Number of slices.
        removed: Number of those that no longer run.
        saved_ns: Time that they take less.
    """

    name: str
    count: int
    removed: int
    saved_ns: int


class TimelineReplay(msgspec.Struct, frozen=True):
    """One step replayed after a fix, with all that is uncertain at its most favourable.

    Its device work is on the rows whose role is 'replay' and whose `fix` is the same.

    Args:
        fix: Id of the finding.
        step: Number of the step, starting at 1.
        before_ns, after_ns: Its duration as recorded and after the fix.
        mean_before_ns, mean_after_ns: The same of the mean steady step.
        floor_ns: The step takes at least as long, because of work that the fix moves beside it and
            that is not drawn; 0 for none.
        work: Device work that is removed or shortened, the most time first.
        others: Number of further names.
        others_saved_ns: Time that these take less.
        host_saved_ns: Time that the host works less.
        waits: Number of waits of the host for the device that are gone.
    """

    fix: str
    step: int
    before_ns: int
    after_ns: int
    mean_before_ns: int
    mean_after_ns: int
    floor_ns: int = 0
    work: tuple[ReplayedWork, ...] = ()
    others: int = 0
    others_saved_ns: int = 0
    host_saved_ns: int = 0
    waits: int = 0


class TimelineRun(msgspec.Struct, frozen=True):
    """The whole run, of which the slices of the timeline may be a small part.

    Args:
        steps: Number of steps in the columns: all, or the fastest and slowest of neighbours.
        count: Number of steps in the run.
        rows: What was sampled during the run; the role of all rows is 'series'.
    """

    steps: int
    count: int
    rows: tuple[TimelineRow, ...]


class Gap(msgspec.Struct, frozen=True):
    """A time in which the device did not compute.

    Args:
        start_ns: Its start, on the clock of the timeline.
        duration_ns: Its duration.
        category: What explains it.
        step: Number of the step that it is in, starting at 1.
    """

    start_ns: int
    duration_ns: int
    category: str
    step: int


class Timeline(msgspec.Struct, frozen=True):
    """The slices of a trace, ready to be drawn.

    Slices are ordered by row, then lane, then start. Times are relative to the first one.

    Args:
        span_ns: Duration that the timeline covers.
        rows: The rows, from top to bottom.
        columns: Columns by name, compressed by zlib. 'labels' is a JSON array of [name, node,
            source line]. All others are integers of variable length (LEB128), one per slice:
            'gap', ns since the slice before it in its lane ended; 'duration', ns; 'category';
            'label'; 'merged', the number of short slices that it stands for, or 0; 'bytes', plus 1,
            or 0 if unknown; and 'launch': 0 if unknown, else 1 plus the zigzag difference between
            the index of the call that launched it and the last such index. Of sampled values, row
            by row: 'sample_time', ns since the value before it in its row, or since the
            beginning; and 'sample_value': 0 if unknown, else 1 plus the zigzag value. Of `run`:
            'run_number', the difference to the step before; 'run_start', ns since that one's start;
            'run_duration', ns; 'run_traced', 1 while a profiler ran; 'run_sample_time' and
            'run_sample_value', like those of the rows.
        slices: Number of slices in the trace.
        merged: Number of them that are only drawn together with others.
        shortest_ns: Slices of at least this duration are drawn one by one.
        gaps: The longest gaps of the steady steps, longest first.
        aligned: Whether ranks begin at their first steps, because their clocks do not agree.
        match: How the clocks of its ranks were aligned; None if they were not.
        ranks: Numbers of ranks that are drawn, and of all.
        has_waits: Whether waits for other ranks are drawn.
        warm_up: Number of steps at the beginning that are not steady.
        unplaced: Category that the timeline underrepresents, because its share comes from stack
            samples of steps that were not traced; '' for none.
        problem: Why there is no timeline; '' if there is one.
        left_out: Number of counters without a row, because there are too many.
        views: Views of the operations for the tables beside it, of the first rank.
        run: The run of the first rank; None if it has too few steps for a chart.
        replays: Steps replayed after fixes, in the order of the findings.
        not_replayed: Why recorded steps cannot be replayed, in sentences; empty if they can, or if
            there is nothing to replay.
    """

    span_ns: int
    rows: tuple[TimelineRow, ...]
    columns: dict[str, bytes]
    slices: int
    merged: int = 0
    shortest_ns: int = 0
    gaps: tuple[Gap, ...] = ()
    aligned: bool = False
    match: ClockMatch | None = None
    ranks: tuple[int, int] = (1, 1)
    has_waits: bool = False
    warm_up: int = 0
    unplaced: str = ""
    problem: str = ""
    left_out: int = 0
    views: tuple[ProfileResult, ...] = ()
    run: TimelineRun | None = None
    replays: tuple[TimelineReplay, ...] = ()
    not_replayed: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Size of all columns, bytes."""
        return sum(map(len, self.columns.values()))
