"""The ranks of a job that runs, as a table that fits the terminal."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table

from stepwhy.base import units
from stepwhy.base.text import one_line
from stepwhy.result.hangs import Standing
from stepwhy.result.wording.hangs import hang_sentence, short_line
from stepwhy.show.console import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import RenderableType

    from stepwhy.show.metrics.ranks import Judged

    Measure = Callable[[Judged], float | None]
    Column = tuple[str, Measure, Callable[[float], str]]

_NAMED = 4  # ranks in a sentence
_LINES_AROUND = 6  # of the screen: title, sentence, heading, and blank lines
_FEWEST_ROWS = 3
_UNKNOWN = "-"
_GAP = 2  # columns of the terminal
_WIDEST_STATE = 12  # such as 'late: input'
_LONGEST_LINE = 30  # such as 'train.py:131'; of longer ones, the end
_NOWHERE = Standing({})
# What narrow terminals leave out first.
_LEAST_IMPORTANT = ("GPU memory", "CPU time", "memory", "GPU", "cores", "input wait")
_CAUSES = {"input": "waits for input", "cpu": "computes on the CPU"}


_COLUMNS: tuple[Column, ...] = (
    ("step", lambda one: one.now.step_ns, units.format_ns),
    ("late by", lambda one: one.late_ns or None, units.format_ns),
    ("input wait", lambda one: one.now.input_wait_ns, units.format_ns),
    ("CPU time", lambda one: one.now.cpu_ns, units.format_ns),
    ("cores", lambda one: one.now.cores, "{:.1f}".format),
    ("GPU", lambda one: one.now.gpu_busy, units.format_fraction),
    ("GPU memory", lambda one: one.now.gpu_bytes, units.format_bytes),
    ("memory", lambda one: one.now.resident_bytes, units.format_bytes),
)
ORDERS: dict[str, Measure] = {
    "step": lambda one: one.now.step_ns,
    "late": lambda one: one.late_ns,
    "input": lambda one: one.now.input_wait_ns,
    "cpu": lambda one: one.now.cpu_ns,
    "gpu": lambda one: one.now.gpu_busy,
    "memory": lambda one: one.now.resident_bytes,
}
"""What ranks can be sorted by, the largest first."""


def top_view(
    name: str,
    ranks: Sequence[Judged],
    width: int,
    height: int | None,
    order: str = "rank",
    *,
    standing: Standing = _NOWHERE,
    watched: str = "",
) -> RenderableType:
    """The job in a sentence, and a row per rank; of more than fit, those that matter.

    Args:
        name: Of the folder.
        ranks: The ranks, by number.
        width: Columns of the terminal.
        height: Lines of the terminal; None for all ranks.
        order: 'rank', or a key of `ORDERS`.
        standing: Where ranks that have stopped stand.
        watched: What was noticed and asked for, in a sentence.
    """
    if not ranks:
        return Text.assemble((one_line(name), "bold"), "\n\nNo process has logged a step here yet.")
    ranks = _with_missing(ranks, standing)
    around = _LINES_AROUND + (-(-len(watched) // width) if watched else 0)
    most = len(ranks) if height is None else max(height - around, _FEWEST_ROWS)
    shown = _chosen(ranks, most, order)
    listed = set(map(id, shown))
    others = [one for one in ranks if id(one) not in listed]
    title = Text.assemble(
        (one_line(name), "bold"), (f"  {_summary(ranks)}", "dim"), no_wrap=True, overflow="ellipsis"
    )
    sentences = [_sentence(ranks, standing), *([Text(watched)] if watched else [])]
    return Group(title, *sentences, Text(), _table(shown, others, width, standing.lines))


def _with_missing(ranks: Sequence[Judged], standing: Standing) -> Sequence[Judged]:
    """The ranks; where it is known which one the others wait for, no other one is suspect."""
    if standing.hang is None or not standing.hang.missing:
        return ranks
    missing = {at.rank for at in standing.hang.missing}
    return [one._replace(is_suspect=one.now.rank in missing) for one in ranks]


def _chosen(ranks: Sequence[Judged], most: int, order: str) -> list[Judged]:
    """The ranks to list, in their order."""
    if order in ORDERS:
        measure = ORDERS[order]
        return sorted(ranks, key=lambda one: -(measure(one) or 0))[:most]
    if len(ranks) <= most:
        return list(ranks)
    matter = sorted(ranks, key=_importance)
    return sorted(matter[:most], key=lambda one: one.now.rank or 0)


def _importance(one: Judged) -> tuple[bool, bool, int, float]:
    wait_ns, memory = one.now.input_wait_ns or 0, one.now.resident_bytes or 0
    return (not one.is_suspect, not one.has_stopped, -one.late_ns, -(wait_ns + memory / 2**40))


def _summary(ranks: Sequence[Judged]) -> str:
    """How many ranks there are, and how long their steps take."""
    steps = [one.now.step_ns for one in ranks if one.now.step_ns]
    count = "1 rank" if len(ranks) == 1 else f"{units.format_count(len(ranks))} ranks"
    ended = sum(one.now.is_ended for one in ranks)
    parts = [count, f"step {units.format_ns(median(steps))}" if steps else ""]
    parts += [f"{units.format_count(ended)} ended"] if ended else []
    return " · ".join(filter(None, parts))


def _sentence(ranks: Sequence[Judged], standing: Standing) -> Text:
    """What is wrong: ranks that stopped, else ranks without a step, else ranks that are late."""
    stopped = [one for one in ranks if one.has_stopped]
    if stopped:
        return Text(_about_stopped(ranks, stopped, standing), "bold red")
    if first := [one for one in ranks if not one.now.steps]:
        return Text(_about_first_step(ranks, first), "yellow")
    late = sorted((one for one in ranks if one.cause), key=lambda one: -one.late_ns)
    if late:
        return Text(_about_late(late), "yellow")
    if len(ranks) == 1:
        return Text()
    return Text("No rank waits longer for input, or computes longer on the CPU, than the others.")


def _about_stopped(ranks: Sequence[Judged], stopped: Sequence[Judged], standing: Standing) -> str:
    """Which ranks stopped, where they stand, and which one the others wait for."""
    since = _age(min(one.now.silent_s for one in stopped))
    running = [one for one in ranks if not one.now.is_ended]
    everyone = len(stopped) == len(running) > 1
    who = "No rank has" if everyone else f"{_names(stopped)} {_have(stopped)} not"
    text = f"{who} ended a step for {since}{_while_others(len(running) - len(stopped))}."
    if standing.hang is not None:
        return f"{hang_sentence(standing.hang)}{_of_unread(standing)} {text}"
    text += _at_lines(stopped, standing)
    if not everyone:
        return text
    suspects = [one for one in stopped if one.is_suspect]
    if not suspects:
        return f"{text} The logs do not show which one the others wait for."
    return f"{text} Look at {_names(suspects).lower()} first: unlike the others since then."


def _about_first_step(ranks: Sequence[Judged], first: Sequence[Judged]) -> str:
    """Which ranks have ended no step yet."""
    if len(first) == len(ranks):
        return "No step has ended yet."
    return f"{_names(first)} {_have(first)} not ended a step yet."


def _while_others(count: int) -> str:
    """That other logs grew, so that it is not the folder which is out of reach."""
    if not count:
        return ""
    others = "1 other rank" if count == 1 else f"{units.format_count(count)} others"
    return f", while the log{'' if count == 1 else 's'} of {others} grew"


def _of_unread(standing: Standing) -> str:
    """What is known of the ranks of which only the line was read."""
    alike, unread = standing.alike, standing.noted - standing.read
    if alike:
        are = "1 more is" if alike == 1 else f"{units.format_count(alike)} more are"
        return f" {are} at the same line."
    read, noted = units.format_count(standing.read), units.format_count(standing.noted)
    return f" Read so far: what {read} of {noted} ranks have noted." if unread else ""


def _at_lines(stopped: Sequence[Judged], standing: Standing) -> str:
    """At which lines they stand, the one where fewest do first; '' if unknown."""
    by_line: defaultdict[str, list[Judged]] = defaultdict(list)
    for one in stopped:
        if line := standing.lines.get(one.now.rank):
            by_line[short_line(line)].append(one)
    places = sorted(by_line.items(), key=lambda pair: len(pair[1]))
    if not places:
        return ""
    line, few = places[0]
    first = f" {_names(few)} {'is' if len(few) == 1 else 'are'} at {line}"
    if len(places) == 1:
        return f"{first}."
    line, most = places[-1]
    return f"{first}, {_names(most).lower()} at {line}."


def _about_late(late: Sequence[Judged]) -> str:
    first = late[0]
    what, more = _CAUSES[first.cause], units.format_ns(first.late_ns)
    text = f"{_names([first])} {what} {more} longer than the others in each step."
    return text if len(late) == 1 else f"{text} Late, too: {_names(late[1:]).lower()}."


def _names(ranks: Sequence[Judged]) -> str:
    numbers = [_rank(one) for one in ranks[:_NAMED]]
    more = len(ranks) - len(numbers)
    listed = ", ".join(numbers) + (f" and {units.format_count(more)} more" if more else "")
    return f"Rank {listed}" if len(ranks) == 1 else f"Ranks {listed}"


def _have(ranks: Sequence[Judged]) -> str:
    return "has" if len(ranks) == 1 else "have"


def _rank(one: Judged) -> str:
    return _UNKNOWN if one.now.rank is None else str(one.now.rank)


def _table(
    shown: Sequence[Judged], others: Sequence[Judged], width: int, lines: Mapping[int | None, str]
) -> Table:
    states = [_state(one, lines.get(one.now.rank, "")) for one in shown]
    columns = [
        column
        for column in _COLUMNS
        if any(column[1](one) is not None for one in (*shown, *others))
    ]
    rows = [_row(columns, one) for one in shown]
    if others:
        rows.append(_row_of_others(columns, others))
    names = ["rank", *(name for name, *_ in columns), "last step"]
    widest = max((len(state) for state in states), default=0)
    kept = _fitting([names, *rows], width - max(widest, _WIDEST_STATE))
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for place in kept:
        table.add_column(names[place], justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row, state in zip(rows, [*states, None], strict=False):
        cells = [Text(row[place]) for place in kept]
        table.add_row(*cells, state or Text(), style="dim" if state is None else "")
    return table


def _row(columns: Sequence[Column], one: Judged) -> list[str]:
    cells = [_cell(measure(one), form) for _, measure, form in columns]
    return [_rank(one), *cells, _UNKNOWN if one.now.is_ended else _age(one.now.silent_s)]


def _fitting(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Numbers of the columns that fit, without the least important ones of the first row."""
    widths = [max(map(len, column)) + _GAP for column in zip(*rows, strict=True)]
    kept = list(range(len(widths)))
    for name in _LEAST_IMPORTANT:
        if sum(widths[place] for place in kept) <= width:
            break
        kept = [place for place in kept if rows[0][place] != name]
    return kept


def _cell(value: float | None, form: Callable[[float], str]) -> str:
    return _UNKNOWN if value is None else form(value)


def _row_of_others(columns: Sequence[Column], others: Sequence[Judged]) -> list[str]:
    """The medians of the ranks that are not listed."""
    cells = [f"{units.format_count(len(others))} more"]
    for _, measure, form in columns:
        known = [value for value in map(measure, others) if value is not None]
        cells.append(_cell(median(known) if known else None, form))
    return [*cells, _age(median(one.now.silent_s for one in others))]


def _state(one: Judged, line: str) -> Text:
    """What is wrong with a rank, and the line of the program that it stopped at."""
    if one.now.is_ended:
        return Text("ended", "dim")
    if one.has_stopped:
        state = "stopped (!)" if one.is_suspect else "stopped"
        place = short_line(line)[-_LONGEST_LINE:]
        return Text(f"{state} at {place}" if place else state, "red")
    if not one.now.steps:
        return Text("no step yet", "dim")
    return Text(f"late: {one.cause}" if one.cause else "", "yellow")


def _age(seconds: float) -> str:
    """A duration in whole seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
