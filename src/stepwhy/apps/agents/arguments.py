"""Arguments of the tools; their JSON schemas are generated from these classes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_LONGEST_PATH = 4096  # PATH_MAX of Linux, characters
_MOST_PATHS = 1024
_LONGEST_QUERY = 100_000  # characters
_MOST_ROWS = 1000

_PATH_TEXT = (
    "Name of a run directory, trace file or folder, as the tool 'runs' lists it. A folder of "
    "files that the ranks of one job wrote counts as one run."
)
Path = Annotated[str, Meta(min_length=1, max_length=_LONGEST_PATH, description=_PATH_TEXT)]
Paths = Annotated[
    tuple[Path, ...],
    Meta(
        min_length=1,
        max_length=_MOST_PATHS,
        description="One name; several only for the files of the ranks of one job.",
    ),
]
Limit = Annotated[int, Meta(ge=1, le=_MOST_ROWS, description="Maximum number of rows.")]
Offset = Annotated[int, Meta(ge=0, le=1_000_000_000, description="Number of rows to skip.")]
Text = Annotated[str, Meta(max_length=_LONGEST_PATH)]
EditText = Annotated[str, Meta(min_length=1, max_length=_LONGEST_PATH)]


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of a tool."""

    @property
    def names(self) -> tuple[str, ...]:
        """The paths and addresses among them."""
        return ()


class RunsArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `runs`."""

    folder: Annotated[
        Text, Meta(description="Folder to list, with all folders below it; '' for all.")
    ] = ""
    limit: Limit = 50
    offset: Offset = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The folder, if one is named."""
        return (self.folder,) if self.folder else ()


class ExplainArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `explain`."""

    paths: Paths
    show_all: Annotated[
        bool,
        Meta(description="Whether the text shows every finding in full, and every abstention."),
    ] = False
    limit: Annotated[Limit, Meta(description="Maximum number of rows of 'ops'.")] = 20

    @property
    def names(self) -> tuple[str, ...]:
        """The paths."""
        return self.paths


class _OfOnePath(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Path

    @property
    def names(self) -> tuple[str, ...]:
        """The path."""
        return (self.path,)


class OpsArguments(_OfOnePath, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `ops`."""

    view: Annotated[
        Literal["op", "scope", "graph", "code", "line", "tree"],
        Meta(
            description="Group by type of operation, by name scope or module, by the operations "
            "that read from each other, or by source line; 'line' divides the whole step, with its "
            "waits, among the lines of the program; 'tree' lists what each line calls, with host "
            "and device time."
        ),
    ] = "op"
    sort: Annotated[
        Literal["time", "bytes", "count"],
        Meta(
            description="What the largest rows have most of; lines and the tree are sorted by time."
        ),
    ] = "time"
    limit: Limit = 30
    offset: Offset = 0


class WhatIfArguments(_OfOnePath, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `whatif`."""

    edits: Annotated[
        tuple[EditText, ...],
        Meta(
            max_length=20,
            description="Changes that are made together, each as WHAT[:PATTERN]=CHANGE, such as "
            "'input=free'; [] for the fix of each finding, and for what each part of the step "
            "could gain at most.",
        ),
    ] = ()


class CompareArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `compare`."""

    a: Annotated[Path, Meta(description=f"The run before the change. {_PATH_TEXT}")]
    b: Annotated[Path, Meta(description="The run after the change, likewise.")]
    margin: Annotated[
        float,
        Meta(gt=0, lt=10, description="Largest relative change that counts as the same."),
    ] = 0.03
    allow_busy: Annotated[
        bool,
        Meta(description="Whether runs count during which other programs kept the machine busy."),
    ] = False

    @property
    def names(self) -> tuple[str, ...]:
        """Both paths."""
        return (self.a, self.b)


class SqlArguments(_OfOnePath, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `sql`."""

    query: Annotated[
        str,
        Meta(
            max_length=_LONGEST_QUERY,
            description="A query in the dialect of DuckDB; '' lists all tables and columns.",
        ),
    ] = ""
    limit: Limit = 100
    offset: Offset = 0
