"""The tools: each reads recorded runs and answers with a text and with data.

Nothing here runs a program, writes a file, or can switch off the redaction.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple, replace

from stepwhy import __version__
from stepwhy.apps.agents import tables
from stepwhy.apps.agents.answers import Answer, LeftOut, Rows, RunFound, RunList
from stepwhy.apps.agents.arguments import ExplainArguments
from stepwhy.apps.agents.bounds import MOST_DATA, fitted, how_to_see, shortened
from stepwhy.apps.agents.listing import runs_below
from stepwhy.apps.sql import Described, answer, open_database, open_tables
from stepwhy.base.errors import QueryError, QueryLimitError
from stepwhy.base.text import plain
from stepwhy.engine.explain import explain as explain_run
from stepwhy.engine.opening import open_one
from stepwhy.engine.profile import profile
from stepwhy.engine.stored_runs import stored_runs, stored_samples
from stepwhy.engine.whatif import predict
from stepwhy.measure import compare as compare_runs
from stepwhy.read.inputs.remote.addresses import shown
from stepwhy.result import parse_edit
from stepwhy.result.profile import WEIGHTS
from stepwhy.show import json, markdown
from stepwhy.show.rows import json_lines
from stepwhy.show.terminal.measurement import render_comparison
from stepwhy.show.terminal.whatif import render_whatif

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepwhy.apps.agents.arguments import (
        Arguments,
        CompareArguments,
        OpsArguments,
        RunsArguments,
        SqlArguments,
        WhatIfArguments,
    )
    from stepwhy.apps.agents.folders import Folders
    from stepwhy.base.redaction import Redactor
    from stepwhy.result import LineBreakdown
    from stepwhy.result.profile import ProfileResult

Progress = Callable[[str, int, int], None]

_ROOM = 4_000  # bytes for the list of what is left out
_TABLES = "Call this tool without a query to list all tables and columns"


class Desk(msgspec.Struct, frozen=True):
    """What a call may use.

    Args:
        folders: The folders that it may read.
        redactor: What replaces secrets and private names.
        progress: As in `engine.explain`.
    """

    folders: Folders
    redactor: Redactor
    progress: Progress | None = None

    def shown(self, name: str) -> str:
        """A name that was asked for, as an answer shows it."""
        return self.redactor.text(shown(name))


def runs(arguments: RunsArguments, paths: Sequence[str], desk: Desk) -> Answer:
    """List the runs and traces in the served folders, or in one of the folders in them."""
    found = runs_below(map(Path, paths) if paths else desk.folders.paths)
    listed = tuple(
        RunFound(desk.folders.name_of(one.path, desk.redactor), one.kind, one.bytes, one.modified)
        for one in found[arguments.offset : arguments.offset + arguments.limit]
    )
    left_out = _rest_of_page("runs", len(listed), len(found), arguments.offset)
    return _answer(tables.runs_table(listed), RunList(listed), left_out)


def explain(arguments: ExplainArguments, paths: Sequence[str], desk: Desk) -> Answer:
    """Explain a run."""
    result = explain_run(paths, desk.progress, redact=desk.redactor)
    first = result.ops[: arguments.limit]
    rest = len(result.ops) > len(first)
    left_out = [LeftOut("ops", len(first), len(result.ops), how_to_see("ops"))] if rest else []
    text = markdown.render(result, show_all=arguments.show_all, option="show_all")
    return _answer(text, replace(result, ops=first), left_out)


def ops(arguments: OpsArguments, paths: Sequence[str], desk: Desk) -> Answer:
    """List the costliest operations of a run in one of five views, or its lines."""
    trace = open_one(paths[0], desk.progress, redact=desk.redactor).trace
    whole = profile(trace, desk.shown(arguments.path), arguments.view, arguments.sort)
    if whole.lines is not None:
        return _lines(arguments, whole, whole.lines)
    order = "time" if whole.view == "tree" else arguments.sort
    page = _page_of_ops(whole, order, arguments.offset, arguments.limit)
    left_out = _rest_of_page("nodes", len(page.nodes), len(whole.nodes), arguments.offset)
    text = f"No such view: {whole.reason}.\n" if whole.reason else tables.ops_table(page)
    return _answer(text, replace(page, stepwhy=__version__), left_out)


def _lines(arguments: OpsArguments, whole: ProfileResult, rows: LineBreakdown) -> Answer:
    begin = arguments.offset
    page = replace(rows, lines=rows.lines[begin : begin + arguments.limit])
    left_out = _rest_of_page("lines.lines", len(page.lines), len(rows.lines), arguments.offset)
    shown = replace(whole, lines=page, stepwhy=__version__)
    return _answer(tables.lines_table(page, whole.steps), shown, left_out)


def whatif(arguments: WhatIfArguments, paths: Sequence[str], desk: Desk) -> Answer:
    """Predict the step after some changes."""
    edits = [parse_edit(text) for text in arguments.edits]
    result = predict(paths, edits, desk.progress, redact=desk.redactor)
    result = replace(result, path=desk.shown(arguments.path))
    return _answer(tables.printed(lambda console: render_whatif(result, console)), result)


def compare(arguments: CompareArguments, paths: Sequence[str], desk: Desk) -> Answer:
    """Compare two stored runs, or two folders of `stepwhy bench`."""
    is_busy_fine = arguments.allow_busy
    a, b = (
        stored_samples(
            [path] if "://" in path else stored_runs(Path(path)),
            desk.redactor,
            desk.progress,
            allow_busy=is_busy_fine,
        )
        for path in paths
    )
    labels = desk.shown(arguments.a), desk.shown(arguments.b)
    result = compare_runs(labels, a, b, margin=arguments.margin, alternated=False)
    return _answer(tables.printed(lambda console: render_comparison(result, console)), result)


def sql(arguments: SqlArguments, paths: Sequence[str], desk: Desk) -> Answer:
    """Answer a query, or list the tables."""
    query, (path,) = arguments.query.strip(), paths
    if not query:
        described = open_tables(path, desk.progress, redact=desk.redactor).describe()
        return _page_of_rows(Described.__struct_fields__, map(astuple, described), arguments)
    try:
        found = answer(open_database(path, query, desk.progress, redact=desk.redactor), query)
        return _page_of_rows(found.columns, chain.from_iterable(found.batches), arguments)
    except QueryLimitError:
        raise
    except QueryError as error:
        raise QueryError(error.what, _TABLES) from None


def _page_of_rows(
    columns: Sequence[str], rows: Iterable[tuple[Any, ...]], arguments: SqlArguments
) -> Answer:
    offset, limit = arguments.offset, arguments.limit
    chosen = list(islice(rows, offset, offset + limit + 1))
    page = chosen[:limit]
    objects = tuple(msgspec.json.decode("".join(json_lines(columns, [page] if page else []))))
    is_counted = len(chosen) <= limit and (page or not offset)
    total = offset + len(page) if is_counted else None
    left_out = _rest_of_page("rows", len(page), total, offset)
    return _answer(tables.rows_table(columns, objects), Rows(tuple(columns), objects), left_out)


def _rest_of_page(what: str, count: int, total: int | None, offset: int) -> list[LeftOut]:
    """What a page does not show.

    Args:
        what: Name of its list.
        count: Its number of rows.
        total: Number of all rows; None if they were not counted.
        offset: Number of rows before it.
    """
    if count == total:
        return []
    is_last = not count or (total is not None and offset + count >= total)
    other = "a smaller offset" if is_last else f"offset={offset + count}"
    return [LeftOut(what, count, total, f"Call again with {other}.")]


def _answer(text: str, result: Any, left_out: Sequence[LeftOut] = ()) -> Answer:
    """The answer, within the limits of its size.

    Args:
        text: The report.
        result: What becomes the data.
        left_out: What is left out of the result.
    """
    whole = msgspec.json.decode(json.render(result))
    # Thousands of times, which would be cut short; the table of ranks has their means.
    whole.pop("rank_steps", None)
    data, cut = fitted(_compact(whole), MOST_DATA - _ROOM)
    everything = list(_merged(left_out, cut))
    data["left_out"] = msgspec.to_builtins(everything)
    return Answer(f"{shortened(text)}{tables.remarks(everything)}", data)


def _merged(pages: Sequence[LeftOut], cut: Sequence[LeftOut]) -> Iterator[LeftOut]:
    """What pages leave out, and what was cut; both, where a page was cut."""
    totals = {page.what: page.total for page in pages}
    cut_again = {one.what for one in cut}
    yield from (page for page in pages if page.what not in cut_again)
    yield from (replace(one, total=totals.get(one.what, one.total)) for one in cut)


ANSWERS: dict[str, Callable[[Any, Sequence[str], Desk], Answer]] = {
    "runs": runs,
    "explain": explain,
    "ops": ops,
    "whatif": whatif,
    "compare": compare,
    "sql": sql,
}
"""The tools, by name."""


def paths_of(arguments: Arguments, folders: Folders) -> list[str]:
    """The paths and addresses that the arguments name.

    Args:
        arguments: Arguments of a tool.
        folders: The folders that it may read.

    Raises:
        InputError: A name leads out of the folders or to nothing, or a pattern matches several
            paths where one is needed.
    """
    if isinstance(arguments, ExplainArguments):
        return [path for name in arguments.names for path in folders.all_of(name)]
    return [folders.one(name) for name in arguments.names]


def _compact(data: dict[str, Any]) -> dict[str, Any]:
    """The data with visible control characters, and findings without fields that are empty.

    A model or a client may print what it reads. A missing field of a finding means the same as an
    empty one; the schema requires none of them.

    Args:
        data: A JSON object.
    """
    shown: dict[str, Any] = _visible(data)
    if "findings" in shown:
        shown["findings"] = [
            {key: value for key, value in finding.items() if value not in (None, "", [])}
            for finding in shown["findings"]
        ]
    return shown


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_visible(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): _visible(item) for key, item in value.items()}
    return value


def _page_of_ops(result: ProfileResult, order: str, offset: int, limit: int) -> ProfileResult:
    """A view with some of its nodes: those that follow the `offset` costliest ones.

    They stay in the order of the view, and `parent` refers to the nodes that remain. Of a first
    page no parent is missing, because it costs at least as much as its children; elsewhere it may
    be, and is null.

    Args:
        result: The view.
        order: Key of `WEIGHTS`.
        offset: Number of costlier nodes that are skipped.
        limit: Maximum number of nodes.
    """
    nodes, weight = result.nodes, WEIGHTS[order]
    by_cost = sorted(range(len(nodes)), key=lambda n: (-weight(nodes[n].total), n))
    chosen = sorted(by_cost[offset : offset + limit])
    places: dict[int | None, int] = {number: place for place, number in enumerate(chosen)}
    shown = (replace(nodes[n], parent=places.get(nodes[n].parent)) for n in chosen)
    return replace(result, nodes=tuple(shown))
