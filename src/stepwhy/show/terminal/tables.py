"""The tables that `--all` adds: ops and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base import units
from stepwhy.base.text import one_line
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import words
from stepwhy.show.console import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stepwhy.result import Device, Op, Result

_OPS = 15
# Columns; narrower op tables leave out device and phase.
_WIDE = 90


def tables(result: Result, width: int) -> list[RenderableType]:
    """Tables of the ops with the most self time and of the devices; empty ones are left out."""
    parts: list[RenderableType] = []
    if result.ops:
        shown = min(_OPS, len(result.ops))
        parts.append(_heading("Ops by self time", f"{shown} of {len(result.ops)}, per step"))
        parts.append(Padding(_op_table(result, width), (0, 0, 0, 2)))
    if result.devices:
        parts.append(_heading("Devices", "per step"))
        parts.append(Padding(_device_table(result.devices), (0, 0, 0, 2)))
    return parts


def _heading(title: str, remark: str) -> Text:
    return Text.assemble((f"\n{title}", "bold"), (f"  {remark}", "dim"))


def _table(**columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in columns.items():
        table.add_column(name.replace("_", " "), justify=justify, overflow="fold")  # type: ignore[arg-type]
    return table


def _op_table(result: Result, width: int) -> Table:
    wide = width >= _WIDE
    where = {"phase": "left", "device": "left"} if wide else {}
    table = _table(self="right", share="right", calls="right", op="left", **where)
    steps = words.steps_of_operations(result)
    for op in sorted(result.ops, key=lambda op: -op.self_ns)[:_OPS]:
        table.add_row(*_op_row(op, steps[op.device])[: 6 if wide else 4])
    return table


def _op_row(op: Op, step_ns: int) -> tuple[Text, ...]:
    cells = (
        units.format_ns(op.self_ns),
        words.share(op.self_ns, step_ns),
        words.format_calls(op.count),
        short_name(op.name),
        op.phase,
        op.device,
    )
    return tuple(Text(one_line(cell)) for cell in cells)


def _device_table(devices: tuple[Device, ...]) -> Table:
    columns = ("busy", "compute", "communication", "exposed", "copies")
    table = _table(device="left", **dict.fromkeys(columns, "right"))
    for device in devices:
        times = (
            device.compute_ns,
            device.communication_ns,
            device.exposed_communication_ns,
            device.transfer_ns,
        )
        table.add_row(
            Text(one_line(device.name)),
            units.format_fraction(device.busy_fraction),
            *(units.format_ns(ns) for ns in times),
        )
    return table
