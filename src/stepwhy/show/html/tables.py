"""Sortable tables of the page."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepwhy.base import units

NOT_RECORDED = "–"  # noqa: RUF001 - en dash intended
"""Text of a cell whose number was not recorded."""


class Column(msgspec.Struct, frozen=True):
    """A column of a table.

    Args:
        title: Its heading.
        kind: 'name': what the row is about; 'text'; 'number'; 'share': a number with a bar.
        is_choice: Whether rows can be filtered by the values of this column.
        is_sorted: Whether the rows are in descending order of this column.
    """

    title: str
    kind: Literal["name", "text", "number", "share"] = "number"
    is_choice: bool = False
    is_sorted: bool = False


class Cell(msgspec.Struct, frozen=True):
    """A cell of a table.

    Args:
        text: What it shows.
        value: Number to sort by; None for a text, and for a number that was not recorded.
        full: The whole text if `text` is shortened; '' otherwise.
        bar: Length of the bar of a share, percent of the longest.
    """

    text: str
    value: float | None = None
    full: str = ""
    bar: float = 0.0


class Table(msgspec.Struct, frozen=True):
    """A table.

    Args:
        title: Its heading.
        caption: What its numbers mean.
        columns: The columns.
        rows: Cells of each row, one per column.
    """

    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


def time_cell(ns: int | None) -> Cell:
    """The cell of a time; None if it was not recorded."""
    return Cell(NOT_RECORDED) if ns is None else Cell(units.format_ns(ns), ns)


def size_cell(size: int | None) -> Cell:
    """The cell of a number of bytes; None if it was not recorded."""
    return Cell(NOT_RECORDED) if size is None else Cell(units.format_bytes(size), size)


def count_cell(count: int | None) -> Cell:
    """The cell of a number; None if it was not recorded."""
    return Cell(NOT_RECORDED) if count is None else Cell(units.format_count(count), count)
