"""Tables of operations, lines, rows and runs as Markdown that shows names as they are."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from stepwhy.base.units import format_bytes, format_ns
from stepwhy.show import words
from stepwhy.show.console import Console
from stepwhy.show.lines import line_name, rest_sentence, what_it_does
from stepwhy.show.markdown_text import code, prose, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stepwhy.apps.agents.answers import LeftOut, RunFound
    from stepwhy.result import LineBreakdown, LineTime
    from stepwhy.result.profile import Cost, ProfileResult

_LONGEST_CELL = 160  # characters


def ops_table(result: ProfileResult) -> str:
    """The nodes of a view, with the total in the first row.

    Args:
        result: The view, with as many nodes as the table should have.
    """
    head = ("name", "device", "own device", "host", "runs", "memory")
    cells = [
        _costs("(all)", result.total, result.total),
        *(_costs(code(node.name[:_LONGEST_CELL]), node.total, node.own) for node in result.nodes),
    ]
    title = f"Operations by {result.view}; time in {_steps(result.steps)}:"
    return _document([title, "", *table(head, cells, frozenset(range(1, len(head))))])


def lines_table(breakdown: LineBreakdown, steps: int) -> str:
    """The step by line of the program, with the step in the first row.

    Args:
        breakdown: As many rows as the table should have.
        steps: Number of steady steps that means are computed from.
    """
    wall = breakdown.wall_ns
    cells = [
        ("(all)", format_ns(wall), words.share(wall, wall), ""),
        *(
            (
                _line(row),
                format_ns(row.time_ns),
                words.share(row.time_ns, wall),
                prose(what_it_does(row)[:_LONGEST_CELL]),
            )
            for row in breakdown.lines
        ),
    ]
    title = f"The step by line of the program; time in {_steps(steps)}:"
    head = ("line", "time", "share", "what it does")
    lines = [title, "", *table(head, cells, frozenset({1, 2}))]
    remark = rest_sentence(breakdown, breakdown.lines)
    return _document([*lines, *(["", prose(remark)] if remark else [])])


def rows_table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """The rows of a query."""
    if not columns:
        return "The query returned no table.\n"
    cells = [[_cell(row[name]) for name in columns] for row in rows]
    lines = table(map(code, columns), cells, frozenset())
    return _document([*lines, *([] if rows else ["", "No rows."])])


def runs_table(runs: Sequence[RunFound]) -> str:
    """The runs in a folder."""
    if not runs:
        return "There are no runs and no files that may be traces.\n"
    sizes = ("" if run.bytes is None else format_bytes(run.bytes) for run in runs)
    cells = [
        (code(run.path), run.kind, run.modified, size)
        for run, size in zip(runs, sizes, strict=True)
    ]
    return _document(table(("path", "kind", "modified", "size"), cells, frozenset({3})))


def remarks(left_out: Iterable[LeftOut]) -> str:
    """A sentence about each list that is not shown completely."""
    return "".join(f"\n{_remark(one)}\n" for one in left_out)


def printed(show: Callable[[Console], None]) -> str:
    """What a report prints on a terminal, without colours.

    Args:
        show: Prints the report to a console.
    """
    text = io.StringIO()
    show(Console(file=text, width=100, color_system=None))
    return text.getvalue()


def _steps(count: int) -> str:
    return "one step" if count == 1 else f"the mean of {count} steps"


def _line(row: LineTime) -> str:
    name = line_name(row)[:_LONGEST_CELL]
    return code(name) if row.kind == "line" else prose(name)


def _remark(one: LeftOut) -> str:
    count = "more were not counted" if one.total is None else f"there are {one.total}"
    return f"Not all {code(one.what)} are here: {one.shown} are shown, {count}. {one.how}"


def _costs(name: str, total: Cost, own: Cost) -> tuple[str, ...]:
    times = (total.device_ns, own.device_ns, total.host_ns)
    sizes = [size for size in (total.requested_bytes, total.output_bytes) if size is not None]
    memory = format_bytes(max(sizes)) if sizes else "-"
    return (name, *map(format_ns, times), f"{total.count:g}", memory)


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return prose(str(value)[:_LONGEST_CELL])


def _document(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
