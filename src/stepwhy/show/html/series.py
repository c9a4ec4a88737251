"""Sampled values of the timeline as text, for screen readers, paper and pages without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.base import units

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.result.timeline import TimelineRow, TimelineSeries


class SeriesRow(msgspec.Struct, frozen=True):
    """One row of the table, all in words.

    Args:
        name: What was sampled, with the process or device.
        least, most: The smallest and the largest value.
        capacity: The largest possible value; '' if it is unknown.
        samples: Number of samples.
    """

    name: str
    least: str
    most: str
    capacity: str
    samples: str


def series_rows(rows: Iterable[TimelineRow]) -> tuple[SeriesRow, ...]:
    """Those rows of a timeline that show sampled values."""
    return tuple(_row(row, row.series) for row in rows if row.series is not None)


def _row(row: TimelineRow, series: TimelineSeries) -> SeriesRow:
    return SeriesRow(
        name=f"{row.group} · {row.title}" if row.group else row.title,
        least=_amount(series.least, series),
        most=_amount(series.most, series),
        capacity="" if series.capacity is None else _amount(series.capacity, series),
        samples=units.format_count(series.samples),
    )


def _amount(stored: int, series: TimelineSeries) -> str:
    """A value with its unit; the same as `amount` in `web/src/format.ts`."""
    value = stored * series.scale
    if series.unit == "bytes":
        return units.format_bytes(value)
    if series.unit == "bytes/s":
        return f"{units.format_bytes(value)}/s"
    number = units.format_count(value) if value == round(value) else f"{value:.3g}"
    return f"{number} {series.unit}".rstrip()
