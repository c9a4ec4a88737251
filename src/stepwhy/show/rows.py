"""Rows of a query as CSV or JSON, a batch at a time."""

from __future__ import annotations

import csv
import io
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.base.patterns import regex
from stepwhy.base.text import escape_json, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Batches = Iterable[Sequence[Sequence[Any]]]

# A spreadsheet runs a cell that begins so as a formula, also in the wide forms of East Asian fonts
# (OWASP, "CSV Injection"). Tabs and line breaks are shown as escapes.
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
_NUMBER = regex(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_LARGEST = 1 << 63  # JSON libraries read larger integers as floating point numbers


def csv_lines(columns: Sequence[str], batches: Batches) -> Iterator[str]:
    """Yield the lines of a CSV file with a header; an empty cell is a null.

    Control characters in texts are shown as escapes, and texts that a spreadsheet would run as a
    formula begin with an apostrophe.

    Args:
        columns: Names of the columns.
        batches: Batches of rows.
    """
    yield _csv([columns])
    yield from map(_csv, batches)


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_plain(value) for value in r] for r in rows)
    return text.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, int | float):
        return value
    text = visible(str(value), sys.maxsize)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def json_lines(columns: Sequence[str], batches: Batches) -> Iterator[str]:
    """Yield the lines of a JSON array with one object per row.

    Numbers that are not finite become null, and integers of more than 64 bits become strings.

    Args:
        columns: Names of the columns, each of which occurs once.
        batches: Batches of rows.
    """
    encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
    separator = "["
    for batch in batches:
        lines = [encode(dict(zip(columns, map(_narrow, row), strict=True))) for row in batch]
        text = b",\n ".join(lines).decode()
        yield separator + escape_json(text)
        separator = ",\n "
    yield "[]\n" if separator == "[" else "]\n"


def _narrow(value: Any) -> Any:
    return str(value) if isinstance(value, int) and abs(value) >= _LARGEST else value
