"""The tables of a run, of all its ranks together, and the views that are computed from them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.rank_summary import summarise_rank
from stepwhy.apps.sql.views import VIEWS, findings_view, rank_steps_view, ranks_view, view_of
from stepwhy.engine.explain import explain_opened, ranks_of
from stepwhy.engine.opening import open_run
from stepwhy.show.export.arrow import arrow_table
from stepwhy.trace import NULL
from stepwhy.trace.integrity import ENUMS
from stepwhy.trace.schema import TABLES, columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepwhy.engine.explain import Progress
    from stepwhy.engine.privacy import Redact
    from stepwhy.engine.rank_sets import Opened
    from stepwhy.result import Result
    from stepwhy.trace.schema import Column, Table

_OF_RUN: dict[str, Callable[[Result], Any]] = {"ranks": ranks_view, "findings": findings_view}
NAMES: tuple[str, ...] = (*VIEWS, *TABLES)
"""Names of all tables and views."""

_TYPES = {"int8": "TINYINT", "int32": "INTEGER", "int64": "BIGINT", "float64": "DOUBLE"}
_RANK = "Rank of the process; null if the file does not name it."
_ROW = "Number of the row, which columns of other tables refer to."


class Described(msgspec.Struct, frozen=True):
    """One column of a table or view, for people.

    Args:
        table: The table or view.
        rows: Its number of rows; None for a view, which is computed when it is queried.
        column: The column.
        type: Its SQL type.
        unit: 'ns', 'bytes', 'row of slices' ...; '' for none.
        meaning: One sentence.
    """

    table: str
    rows: int | None
    column: str
    type: str
    unit: str
    meaning: str


class RunTables:
    """The tables of one run; each is built when it is asked for.

    Rows of several ranks are numbered together, and a column `rank` tells them apart.

    Args:
        opened: The traces of its ranks.
    """

    def __init__(self, opened: Sequence[Opened]) -> None:
        self._opened = opened
        self._facts = [Facts(one.trace) for one in opened]

    def arrow(self, name: str) -> Any:
        """A table or view as a `pyarrow.Table`.

        Args:
            name: A member of `NAMES`.
        """
        import pyarrow as pa  # noqa: PLC0415 - optional, and the import takes 0.1 s

        if name in _OF_RUN:
            return _OF_RUN[name](self._result)
        if name == "rank_steps":
            return rank_steps_view(self._compared)
        if name in VIEWS:
            of_ranks = [view_of(name, facts) for facts in self._facts]
        else:
            of_ranks = list(self._stored(name))  # type: ignore[arg-type]
        ranks = [facts.trace.meta.rank for facts in self._facts]
        return pa.concat_tables(map(_add_rank, of_ranks, ranks)).unify_dictionaries()

    @cached_property
    def _result(self) -> Result:
        """The result of the run, which takes as long as to explain it."""
        return explain_opened(self._opened, [])

    @property
    def _compared(self) -> Facts:
        """Facts of the first rank, with the summaries of those that the result compares."""
        compared = {rank.rank for rank in self._result.ranks}
        found = [facts.derived(summarise_rank) for facts in self._facts]
        ranks = [rank for rank in found if rank is not None and rank.number in compared]
        return Facts(self._opened[0].trace, ranks)

    def _stored(self, table: Table) -> Iterator[Any]:
        """One table of each rank, with rows that are numbered across all ranks."""
        first: dict[str, int] = dict.fromkeys(TABLES, 0)
        for one in self._opened:
            yield arrow_table(one.trace, table, first)
            first = {name: begin + len(one.trace.table(name)) for name, begin in first.items()}  # type: ignore[arg-type]

    def describe(self) -> Iterator[Described]:
        """Every column of every table and view."""
        for view, columns in VIEWS.items():
            for name, (kind, unit, meaning) in columns.items():
                yield Described(view, None, name, kind, unit, meaning)
            if view != "findings":
                yield Described(view, None, "rank", "INTEGER", "", _RANK)
        for table in TABLES:
            rows = sum(len(one.trace.table(table)) for one in self._opened)
            yield Described(table, rows, "row", "BIGINT", "", _ROW)
            for column in columns_of(table):
                unit = "" if _is_text(column) else column.unit
                yield Described(
                    table,
                    rows,
                    column.name,
                    "VARCHAR" if _is_text(column) else _TYPES[column.dtype],
                    unit,
                    column.help,
                )
            yield Described(table, rows, "rank", "INTEGER", "", _RANK)


def open_tables(name: str, progress: Progress | None = None, *, redact: Redact = True) -> RunTables:
    """Read a run, of one or several ranks.

    Args:
        name: The input, as the user named it.
        progress: As in `explain`.
        redact: As in `explain`.

    Raises:
        InputError: It cannot be read, or contains several runs.
    """
    opened, _ = open_run([name], progress, redact=redact)
    return RunTables(ranks_of(opened))


def _add_rank(table: Any, rank: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - see `RunTables.arrow`

    ranks = np.full(table.num_rows, rank, dtype=np.int32)
    return table.append_column("rank", pa.array(ranks, mask=ranks == NULL))


def _is_text(column: Column) -> bool:
    return column.unit == "string" or column.unit in ENUMS
