"""Rows of a query: as a table or lists in the terminal, as CSV, and as JSON."""

import csv
import io
import json
from datetime import date
from decimal import Decimal

import pytest

from stepwhy.show.console import Console
from stepwhy.show.rows import csv_lines, json_lines
from stepwhy.show.terminal.rows import render_rows


def shown(columns, *rows, width=60):
    console = Console(file=io.StringIO(), width=width)
    render_rows(columns, [rows], console)
    return console.file.getvalue().strip("\n").splitlines()


def test_figures_are_whole_and_right_and_texts_lose_their_middle():
    name = "void at::native::vectorized_elementwise_kernel<4, float>"
    assert shown(("name", "ns"), (name, 1623142623460172000), ("mm", None), width=50) == [
        "  name                                          ns",
        "  void at::nat...l<4, float>   1623142623460172000",
        "  mm                                             -",
    ]


def test_numbers_of_a_column_have_equally_many_decimals():
    found = shown(("ms", "n"), (96.025, 1), (0.012333, 20), (0.0, 300), (1e-7, 4))
    assert found == [
        "       ms     n",
        "  96.0250     1",
        "   0.0123    20",
        "   0.0000   300",
        "    1e-07     4",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "true"),
        (12345678.9, "12345679"),
        (2.0, "2"),
        (float("nan"), "nan"),
        (Decimal("1.50"), "1.50"),
        (2**70, str(2**70)),
        (date(2024, 1, 31), "2024-01-31"),
        (["a", None], "['a', None]"),
        ("two\nlines", r"two\nlines"),
        ("", ""),
    ],
)
def test_values(value, text):
    assert [line.strip() for line in shown(("x",), (value,))][1:] == ([text] if text else [])


def test_what_is_too_wide_becomes_a_list_per_row():
    columns = tuple(f"column_{n}" for n in range(6))
    assert shown(columns, (1, 2, 3, 4, 5, "x"), (6, 7, 8, 9, 10, "y" * 80), width=50) == [
        "row 1",
        *(f"  column_{n}   {value}" for n, value in enumerate((1, 2, 3, 4, 5, "x"))),
        "row 2",
        *(f"  column_{n}   {value}" for n, value in enumerate((6, 7, 8, 9, 10))),
        f"  column_5   {'y' * 17}...{'y' * 17}",
    ]


def test_only_the_first_rows_are_printed_and_that_is_said():
    lines = shown(("n",), *((n,) for n in range(150)))
    assert lines[-1] == "  the first 100 rows; --format csv prints all"
    assert lines[-3].strip() == "99"


def test_no_rows_are_said():
    assert shown(("n",)) == ["  n", "  no rows"]


def test_csv_has_a_header_and_empty_nulls():
    rows = [[("a,b", 1.5, None)], [("\x1b[2J\n", True, 2)]]
    assert "".join(csv_lines(("name", "x", "y"), rows)) == (
        'name,x,y\n"a,b",1.5,\n\\x1b[2J\\n,true,2\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "@SUM(A1)", "+1+1", "-2+cmd|' /C calc'!A0", "-", "-x", "--out", "=", "-1.5.2"),
        *("\uff1d1+1", "\uff0b1+1", "\uff0d1+1", "\uff20SUM(1)"),
    ],
)
def test_a_cell_that_a_spreadsheet_would_run_is_text(text):
    found = list(csv.reader(csv_lines((text, "x"), [[(text, -1)]])))
    assert found == [[f"'{text}", "x"], [f"'{text}", "-1"]]


@pytest.mark.parametrize("text", ["\t=1+1", "\r=1+1", "\n=1+1", "\x00=1"])
def test_no_cell_begins_with_a_control_character(text):
    ((cell,), (other,)) = csv.reader(csv_lines((text,), [[(text,)]]))
    assert cell.startswith("\\")
    assert other.startswith("\\")


@pytest.mark.parametrize(
    "value",
    [-1, -1.5, -1e-9, -(2**70), Decimal("-1.50"), "-1.5", "+7", "-1e-09", "a=b", "x-y", "'a"],
)
def test_numbers_and_other_texts_stay_as_they_are(value):
    assert list(csv.reader(csv_lines(("n",), [[(value,)]])))[1] == [str(value)]


def test_json_is_an_array_of_objects():
    rows = [[("a", 1, None)], [("\x1b", 2**70, float("inf")), ("b", Decimal("1.5"), 0)]]
    text = "".join(json_lines(("name", "x", "y"), rows))
    assert "\x1b" not in text
    assert json.loads(text) == [
        {"name": "a", "x": 1, "y": None},
        {"name": "\x1b", "x": str(2**70), "y": None},
        {"name": "b", "x": 1.5, "y": 0},
    ]
    assert "".join(json_lines(("n",), [])) == "[]\n"
