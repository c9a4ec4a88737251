"""Tables of a trace as Arrow tables: texts instead of indices, names of enumerations, and nulls.

Columns and units are those of the trace schema; a column `row` numbers the rows, so that tables can
be joined. No Python object is created per row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.strings import texts_at
from stepwhy.base.text import utf8
from stepwhy.trace import NULL
from stepwhy.trace.integrity import ENUMS
from stepwhy.trace.kinds import Copy, Phase
from stepwhy.trace.schema import columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.trace import Trace
    from stepwhy.trace.schema import Column, Table

# Members that mean 'not recorded'. The zero of other columns is a value that old files lack.
_NOT_RECORDED = {"Phase": Phase.UNKNOWN, "Copy": Copy.NONE}
_ROW_OF = "row of "


def arrow_table(trace: Trace, table: Table, first: Mapping[str, int] | None = None) -> Any:
    """One table of a trace as a `pyarrow.Table`.

    Args:
        trace: The trace.
        table: The table.
        first: Number of the first row of each table, for rows that are numbered across several
            traces; 0 by default.
    """
    import pyarrow as pa  # noqa: PLC0415 - optional, and the import takes 0.1 s

    first, rows = first or {}, trace.table(table)
    begin = first.get(table, 0)
    columns = {"row": pa.array(np.arange(begin, begin + len(rows), dtype=np.int64))}
    for column in columns_of(table):
        begin = first.get(column.unit.removeprefix(_ROW_OF), 0)
        columns[column.name] = _column(trace, column, getattr(rows, column.name), begin)
    return pa.table(columns)


def text_array(values: NDArray[Any], is_null: NDArray[np.bool_], texts: Sequence[str]) -> Any:
    """Texts as a dictionary array, in which every text that occurs is stored once; (rows,).

    Args:
        values: Indices into `texts`; (rows,).
        is_null: Mask of the rows without a text; (rows,).
        texts: The texts.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `arrow_table`

    index = np.where(is_null, 0, values)
    is_used = np.zeros(len(texts), dtype=bool)
    is_used[index[~is_null]] = True
    used = np.flatnonzero(is_used)
    place = np.maximum(np.cumsum(is_used, dtype=np.int32) - 1, 0)
    indices = pa.array(place[index] if len(used) else index.astype(np.int32), mask=is_null)
    # Arrow allows no surrogates, which names from JSON files may contain. DuckDB before 1.5 crashes
    # if a dictionary is empty.
    dictionary = pa.array(list(map(utf8, texts_at(texts, used))) or [b""], type=pa.binary())
    return pa.DictionaryArray.from_arrays(indices, dictionary.cast(pa.string()))


def _column(trace: Trace, column: Column, values: NDArray[Any], first_row: int) -> Any:
    """One column as an Arrow array.

    Args:
        trace: The trace.
        column: The column.
        values: Its values; (rows,).
        first_row: Number of the first row of the table that the column refers to, if it does.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `arrow_table`

    is_null = _is_null(column, values)
    if column.unit == "string":
        return text_array(values, is_null, trace.strings)
    if column.unit in ENUMS:
        members = {int(m): m.name.lower() for m in ENUMS[column.unit]}
        names = [members.get(i, "") for i in range(max(members) + 1)]
        return text_array(values, is_null, names)
    wide = values.astype(column.dtype, copy=False)
    if first_row and column.unit.startswith(_ROW_OF):
        wide = wide + np.asarray(first_row, dtype=column.dtype)
    return pa.array(wide, mask=is_null if is_null.any() else None)


def _is_null(column: Column, values: NDArray[Any]) -> NDArray[np.bool_]:
    if column.null == str(NULL):
        return np.asarray(values == NULL)
    if column.unit in _NOT_RECORDED and column.null:
        return np.asarray(values == _NOT_RECORDED[column.unit])
    return np.zeros(len(values), dtype=bool)
