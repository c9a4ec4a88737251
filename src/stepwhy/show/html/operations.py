"""The tables of operations: by kernel and device, and the views of `stepwhy ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base import units
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import words
from stepwhy.show.html.tables import NOT_RECORDED, Cell, Column, Table, size_cell, time_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.result import Op, Result
    from stepwhy.result.profile import Cost, ProfileResult

# More rows of a view add little; `stepwhy ops` prints them all.
_MOST_ROWS = 200
# Paths of modules and names of generated kernels may have thousands of characters.
_LONGEST = 400
_TITLES = {
    "scope": ("By name scope", "Scope"),
    "graph": ("Along the graph", "Node, with what it reads"),
    "op": ("By type", "Type"),
    "code": ("By source line", "Line"),
}


def operation_tables(result: Result, views: Sequence[ProfileResult]) -> list[Table]:
    """All tables, without those that the trace cannot fill.

    Args:
        result: The result.
        views: Views of the operations; empty without a trace.
    """
    tables = [_by_device(result)] if result.ops else []
    return tables + [
        _of_view(view, result) for view in views if view.nodes and view.view in _TITLES
    ]


# --- By kernel and device ---

_OP_COLUMNS = (
    Column("Operation", "name"),
    Column("Self time", is_sorted=True),
    Column("Share", "share"),
    Column("Total"),
    Column("Calls"),
    Column("Bytes"),
    Column("Phase", "text", is_choice=True),
    Column("Device", "text", is_choice=True),
)


def _by_device(result: Result) -> Table:
    ops = sorted(result.ops, key=lambda op: -op.self_ns)
    longest = max(ops[0].self_ns, 1)
    whole, steps = words.whole(result), words.steps_of_operations(result)
    return Table(
        "By kernel and device",
        f"{_means(result)}; shares of the {whole}; {NOT_RECORDED} means not recorded",
        _OP_COLUMNS,
        tuple(_op_row(op, steps[op.device], longest) for op in ops),
    )


def _op_row(op: Op, step_ns: int, longest: int) -> tuple[Cell, ...]:
    return (
        _name(op.name),
        time_cell(op.self_ns),
        _share(op.self_ns, step_ns, longest),
        time_cell(op.total_ns),
        Cell(words.format_calls(op.count), op.count),
        size_cell(op.bytes),
        Cell(op.phase),
        Cell(op.device),
    )


# --- Views ---


def _of_view(view: ProfileResult, result: Result) -> Table:
    title, name = _TITLES[view.view]
    has_both = view.total.host_ns > 0 and view.total.device_ns > 0
    time = _device_ns if has_both else _time_ns
    nodes = sorted(view.nodes, key=lambda node: -time(node.total))[:_MOST_ROWS]
    longest = max((time(node.total) for node in nodes), default=0)
    measures = _measures(view.total)
    return Table(
        title,
        _caption(view, result, len(nodes)),
        (
            Column(name, "name"),
            Column("On the device" if has_both else "Time", is_sorted=True),
            Column("Share", "share"),
            Column("Own"),
            *((Column("On the host"),) if has_both else ()),
            Column("Runs"),
            *(Column(title) for title in measures),
        ),
        tuple(
            (
                _name(node.name, is_kernel=view.view == "op"),
                time_cell(time(node.total)),
                _share(time(node.total), time(view.total), longest),
                time_cell(time(node.own)),
                *((time_cell(node.total.host_ns),) if has_both else ()),
                Cell(words.format_calls(node.total.count), node.total.count),
                *(size_cell(measure(node.total)) for measure in measures.values()),
            )
            for node in nodes
        ),
    )


def _caption(view: ProfileResult, result: Result, shown: int) -> str:
    parts = [f"{_means(result)}; shares of all operations; own: without what is inside"]
    if shown < len(view.nodes):
        parts.append(f"the costliest {shown} of {units.format_count(len(view.nodes))}")
    if result.run.ranks > 1:
        parts.append("the first rank")
    return f"{'; '.join(parts)}; {NOT_RECORDED} means not recorded"


def _means(result: Result) -> str:
    return "Mean per step" if words.whole(result) == "step" else "Over the whole trace"


def _device_ns(cost: Cost) -> int:
    return cost.device_ns


def _time_ns(cost: Cost) -> int:
    return cost.host_ns + cost.device_ns


def _measures(total: Cost) -> dict[str, Callable[[Cost], int | None]]:
    """Sizes that the trace records, by heading."""
    found: dict[str, Callable[[Cost], int | None]] = {}
    if total.output_bytes is not None:
        found["Output"] = lambda cost: cost.output_bytes
    if total.requested_bytes is not None:
        found["Requested"] = lambda cost: cost.requested_bytes
    return found


# --- Cells ---


def _name(name: str, *, is_kernel: bool = True) -> Cell:
    """The name of a row; paths and lines are not shortened, because both of their ends matter."""
    whole = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    short = short_name(whole) if is_kernel else whole
    return Cell(short, full="" if short == name else whole)


def _share(ns: int, whole_ns: int, longest: int) -> Cell:
    return Cell(words.share(ns, whole_ns), ns, bar=round(100 * ns / max(longest, 1), 1))
