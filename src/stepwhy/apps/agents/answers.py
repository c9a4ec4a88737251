"""What a tool answers: a text to read, the same as data, and what was left out."""

from __future__ import annotations

from typing import Any

import msgspec


class LeftOut(msgspec.Struct, frozen=True):
    """Rows that an answer does not show.

    Args:
        what: The list in the data, such as 'ops' or 'findings[].evidence'.
        shown: Number of rows that it shows.
        total: Number of rows that there are; null if more were not counted.
        how: How to get the others.
    """

    what: str
    shown: int
    total: int | None
    how: str


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """Answer of a tool.

    Args:
        text: A short report to read, in Markdown.
        data: The JSON contract of the tool, with a list `left_out`.
    """

    text: str
    data: dict[str, Any]


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    """Why there is no answer.

    Args:
        slug: Name of the error, as in docs/reference/errors.md.
        what: The problem.
        todo: What to do next.
    """

    slug: str
    what: str
    todo: str

    def __str__(self) -> str:
        return f"{self.what}. {self.todo}. [{self.slug}]"


WRONG_ARGUMENTS = "wrong-arguments"
"""Slug for arguments that do not fit the schema of a tool."""


class RunFound(msgspec.Struct, frozen=True):
    """One run or trace below a served folder.

    Args:
        path: Its name, for the other tools.
        kind: 'run': a directory of `stepwhy run`; 'bench': a folder of `stepwhy bench`, with
            several runs; 'file': a file that may be a trace, judged by its ending.
        bytes: Size of a file; null for folders.
        modified: When it was last written, UTC.
    """

    path: str
    kind: str
    bytes: int | None
    modified: str


class RunList(msgspec.Struct, frozen=True):
    """Answer of `runs`, the last written first."""

    runs: tuple[RunFound, ...]
    schema: str = "stepwhy.runs/1"


class Rows(msgspec.Struct, frozen=True):
    """Answer of `sql`.

    Args:
        columns: Names of the columns, in order.
        rows: One object per row; null means that the value was not recorded.
    """

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    schema: str = "stepwhy.rows/1"
