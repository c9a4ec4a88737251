"""In-memory DuckDB database that can read only the tables of one run.

Source: "Securing DuckDB" (https://duckdb.org/docs/stable/operations_manual/securing_duckdb).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.apps.sql.limits import (
    Clock,
    Limits,
    bounded_memory,
    limits_of,
    too_much_memory,
    too_much_time,
)
from stepwhy.apps.sql.tables import NAMES, open_tables
from stepwhy.base.errors import QueryError
from stepwhy.base.optional import needs_extra
from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.apps.sql.tables import RunTables
    from stepwhy.engine.explain import Progress
    from stepwhy.engine.privacy import Redact

# A query reads the registered tables and nothing else: no file, address or extension, and no
# variable of this process. `lock_configuration` follows when the tables are there.
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
_INTERRUPTED = "Query interrupted"
_ROWS_PER_BATCH = 1 << 12
_WORD = regex(r"\w+")


class Answer(msgspec.Struct, frozen=True):
    """The rows that a query returns.

    Args:
        columns: Names of the columns, each of which occurs once.
        batches: Batches of rows, in order, which raise `QueryError` as well.
    """

    columns: tuple[str, ...]
    batches: Iterator[list[tuple[Any, ...]]]


def open_database(
    name: str,
    query: str,
    progress: Progress | None = None,
    *,
    redact: Redact = True,
    limits: Limits | None = None,
) -> Any:
    """Read a run, and open a database with the tables that a query names.

    Args:
        name: The input, as the user named it.
        query: The query.
        progress: As in `explain`.
        redact: As in `explain`.
        limits: As in `database_of`.

    Returns:
        A connection of DuckDB.

    Raises:
        InputError: The input cannot be read, contains several runs, or DuckDB is not installed.
    """
    with needs_extra("sql", "SQL queries"):
        import duckdb  # noqa: F401, PLC0415 - optional: fail before a long trace is read
        import pyarrow.dataset  # noqa: F401, PLC0415 - DuckDB needs it
    return database_of(open_tables(name, progress, redact=redact), query, limits)


def database_of(tables: RunTables, query: str, limits: Limits | None = None) -> Any:
    """A connection of DuckDB with the tables that a query names.

    Args:
        tables: The tables of a run.
        query: The query; if it names no table, all are registered.
        limits: What it may use; None for the defaults.
    """
    import duckdb  # noqa: PLC0415 - see `open_database`

    most = f"{(limits or limits_of()).memory_bytes} B"
    connection = duckdb.connect(":memory:", config={**_SETTINGS, "memory_limit": most})
    words = set(_WORD.findall(query.casefold()))
    for name in [name for name in NAMES if name in words] or NAMES:
        connection.register(name, tables.arrow(name))
    connection.execute("set lock_configuration = true")
    return connection


def answer(connection: Any, query: str, limits: Limits | None = None) -> Answer:
    """The answer to a query.

    Args:
        connection: A database with the tables that it names.
        query: One or several statements; the answer is that of the last one.
        limits: As in `database_of`.

    Raises:
        QueryError: DuckDB refuses the query, or it fails.
        QueryLimitError: It needs more memory or time than it may use.
    """
    limits = limits or limits_of()
    clock = Clock(connection, limits)
    with _typed_errors(clock, limits):
        connection.execute(query)
    columns = [column for column, *_ in connection.description or ()]
    return Answer(tuple(_unique(columns)), _batches(connection, clock, limits))


def _batches(connection: Any, clock: Clock, limits: Limits) -> Iterator[list[tuple[Any, ...]]]:
    while True:
        with _typed_errors(clock, limits):
            rows = connection.fetchmany(_ROWS_PER_BATCH)
        if not rows:
            return
        yield rows


@contextmanager
def _typed_errors(clock: Clock, limits: Limits) -> Iterator[None]:
    """Raise typed errors for those of DuckDB, and `KeyboardInterrupt` for an interrupted query."""
    import duckdb  # noqa: PLC0415 - see `open_database`

    try:
        with clock.running(), bounded_memory(limits):
            yield
    except (duckdb.OutOfMemoryException, MemoryError):
        raise too_much_memory(limits) from None
    except duckdb.Error as error:
        raise (too_much_time(limits) if clock.is_over else _refused(error)) from None
    except RuntimeError as error:
        if clock.is_over:
            raise too_much_time(limits) from None
        if str(error) != _INTERRUPTED:
            raise
        raise KeyboardInterrupt from None


_LISTED = "'stepwhy sql PATH --tables' lists the tables and their columns"


def _refused(error: Exception) -> QueryError:
    """DuckDB's message without its copy of the query; the tables, if it names an unknown one."""
    import duckdb  # noqa: PLC0415 - see `open_database`

    message, *_ = str(error).partition("\n\nLINE ")
    what = " ".join(message.split()).rstrip(".")
    tables = (
        f"The tables are {', '.join(NAMES)}; " if isinstance(error, duckdb.CatalogException) else ""
    )
    return QueryError(f"the query fails: {what}", f"{tables}{_LISTED}")


def _unique(names: list[str]) -> Iterator[str]:
    """The names, with numbers after repeated ones: 'name', 'name_1'."""
    seen: set[str] = set()
    for name in names:
        number, new = 0, name
        while new in seen:
            number += 1
            new = f"{name}_{number}"
        seen.add(new)
        yield new
