"""Fill levels of queues, and what was compiled or traced during training."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base import units
from stepwhy.base.text import one_line
from stepwhy.show import watched
from stepwhy.show.console import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from stepwhy.result import EventGroup, Pipeline, Result

_BARS = "▁▂▃▄▅▆▇█"
_WIDEST_LINE = 60
_QUEUES = 4
_EVENTS = 5


def watched_sections(result: Result, width: int, *, show_all: bool) -> Iterator[RenderableType]:
    """Sections on queues and on events; empty ones are left out.

    Args:
        result: What to report.
        width: Columns of the report.
        show_all: Print all queues and all events, including those of the warm-up.
    """
    yield from _queues(result, width, show_all=show_all)
    yield from _events(result, show_all=show_all)


def _queues(result: Result, width: int, *, show_all: bool) -> Iterator[RenderableType]:
    queues = [p for p in result.pipelines if p.samples]
    if not queues:
        return
    yield Text("\nQueues and buffers", "bold")
    shown = queues if show_all else queues[:_QUEUES]
    for queue in shown:
        state = Text(f"{watched.pipeline_name(queue)}: {watched.pipeline_state(queue)}")
        yield Padding(state, (0, 0, 0, 2))
        usable = None if queue.capacity is None else queue.capacity - queue.reserve
        bound = "" if usable is None else f" of {units.format_count(usable)}"
        line = Text(level_line(queue, min(width - 14, _WIDEST_LINE)), "cyan")
        yield Padding(line.append(bound, "dim"), (0, 0, 0, 2))
    if len(shown) < len(queues):
        yield Padding(Text(f"{len(queues) - len(shown)} more with --all", "dim"), (0, 0, 0, 2))


def level_line(queue: Pipeline, cells: int) -> str:
    """The fill level over the run, one block per cell; the last known one if none was sampled.

    Only elements available to dequeue count: with nothing but its reserve, a queue is empty.

    Args:
        queue: The queue, with at least one point.
        cells: Columns of the line.
    """
    first, last = queue.series[0][0], queue.series[-1][0]
    span, top = max(last - first, 1), max(watched.pipeline_top(queue) - queue.reserve, 1)
    levels: list[list[float]] = [[] for _ in range(cells)]
    for time, value in queue.series:
        usable = max(value - queue.reserve, 0.0)
        levels[min((time - first) * cells // span, cells - 1)].append(usable)
    for before, here in pairwise(levels):
        here.extend(() if here else before[-1:])
    means = [sum(values) / len(values) for values in levels]
    return "".join(_BARS[round(mean / top * (len(_BARS) - 1))] for mean in means)


def _events(result: Result, *, show_all: bool) -> Iterator[RenderableType]:
    events = watched.listed_events(result) if show_all else watched.later_events(result)
    if not events:
        return
    yield Text(f"\n{watched.events_title(events)}", "bold")
    costly = sorted(events, key=lambda e: -e.total_ns)[:_EVENTS]
    shown = events if show_all else [e for e in events if e in costly]
    yield Padding(_event_table(shown), (0, 0, 0, 2))
    if len(shown) < len(events):
        yield Padding(Text(f"{len(events) - len(shown)} more with --all", "dim"), (0, 0, 0, 2))


def _event_table(events: list[EventGroup]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in (("times", "right"), ("time", "right"), ("in steps", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("what", overflow="fold")
    for event in events:
        what = Text(watched.event_name(event))
        for more in (one_line(event.source), watched.event_reason(event)):
            what.append(f"\n{more}" if more else "", "dim")
        table.add_row(
            units.format_count(event.count),
            units.format_ns(event.total_ns) if event.total_ns else "",
            watched.event_steps(event),
            what,
        )
    return table
