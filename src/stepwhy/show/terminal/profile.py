"""The output of `stepwhy ops`: costs of operations as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from stepwhy.base.text import one_line, visible
from stepwhy.base.units import format_bytes, format_ns
from stepwhy.read.kernel_names.short import short_name
from stepwhy.result.profile import WEIGHTS
from stepwhy.show.console import Text
from stepwhy.show.terminal.measurement import print_parts
from stepwhy.show.words import format_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from stepwhy.result.profile import Cost, ProfileNode, ProfileResult
    from stepwhy.show.console import Console

_ORDERS = {"time": "longest first", "bytes": "most bytes first", "count": "most runs first"}
# Deeper rows are not indented further: chains in a graph can be hundreds of nodes long.
_DEEPEST = 10


def render_profile(
    result: ProfileResult, order: str, top: int, console: Console | None = None
) -> None:
    """Print the costliest nodes of a view, each below its parent.

    Args:
        result: What to report.
        order: 'time', 'bytes' or 'count'.
        top: Maximum number of rows.
        console: Console to print to; None for standard output.
    """
    if result.reason:
        path, reason = visible(result.path), one_line(result.reason)
        print_parts([Text(f"No {result.view} view of {path}: {reason}.")], console)
        return
    if result.lines is not None:
        from stepwhy.show.terminal.lines import line_view  # noqa: PLC0415 - few need it

        print_parts([*line_view(result.lines, result.steps, top), Text("")], console)
        return
    is_tree = result.view == "tree"
    order = "time" if is_tree else order
    notes = result.notes if is_tree else ()
    remarks = [Text(f"\n{one_line(note)}", style="dim") for note in notes]
    print_parts([*_table(result, order, top), *remarks, Text("")], console)


def _table(result: ProfileResult, order: str, top: int) -> Iterator[RenderableType]:
    nodes = result.nodes
    # In order, a parent costs at least as much as its children.
    weight = WEIGHTS[order]
    by_weight = sorted(range(len(nodes)), key=lambda i: (-weight(nodes[i].total), i))
    chosen = sorted(by_weight[:top])
    steps = "one step" if result.steps == 1 else f"mean of {result.steps} steps"
    of = f"{len(chosen)} of {len(result.nodes)}, {_ORDERS[order]}, {steps}"
    title = "Call tree" if result.view == "tree" else f"By {result.view}"
    yield Text.assemble((f"\n{title}", "bold"), (f"  {of}", "dim"))
    columns = _columns(result.total, has_own_host=result.view == "tree")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(result.view, overflow="fold")
    for cost, own, name in _lines(result, chosen):
        cells = [show(cost, own) for show in columns.values()]
        table.add_row(*map(Text, [*cells, name]))
    yield table


def _lines(result: ProfileResult, chosen: list[int]) -> Iterator[tuple[Cost, Cost, str]]:
    yield result.total, result.total, "(all)"
    for i in chosen:
        node = result.nodes[i]
        yield (
            node.total,
            node.own,
            "  " * min(node.depth, _DEEPEST) + one_line(_short(result, node)),
        )


def _short(result: ProfileResult, node: ProfileNode) -> str:
    """Name of a node without the name of its parent, or without the parameters of a kernel."""
    if node.kind == "kernel":
        return short_name(node.name)
    around = "" if node.parent is None else result.nodes[node.parent].name
    return node.name.removeprefix(f"{around}/") if result.view == "scope" else node.name


def _columns(total: Cost, *, has_own_host: bool) -> dict[str, Callable[[Cost, Cost], str]]:
    """Columns that the trace has data for, by title: text for the total and the own cost."""
    both = total.host_ns > 0 and total.device_ns > 0
    time = _device_ns if both else WEIGHTS["time"]
    columns: dict[str, Callable[[Cost, Cost], str]] = {
        "device" if both else "time": lambda cost, _: format_ns(time(cost)),
        "own": lambda _, own: format_ns(time(own)),
    }
    if both:
        columns["host"] = lambda cost, _: format_ns(cost.host_ns)
        if has_own_host:
            columns["own host"] = lambda _, own: format_ns(own.host_ns)
    columns["runs"] = lambda cost, _: format_calls(cost.count) if cost.count else ""
    if total.output_bytes is not None:
        columns["output"] = lambda cost, _: _size(cost.output_bytes)
    if total.requested_bytes is not None:
        columns["requested"] = lambda cost, _: _size(cost.requested_bytes)
        columns["peak"] = lambda cost, _: _size(cost.peak_bytes)
    return columns


def _device_ns(cost: Cost) -> float:
    return cost.device_ns


def _size(size: int | None) -> str:
    return "-" if size is None else format_bytes(size)
