"""One damaged input from valid ones: by the structure of the file, by its bytes, by its packing.

A mutator takes the bytes of a file and a `random.Random`, and returns other bytes. It never fails,
whatever it is given, and asks nothing but the generator for chance: equal seeds, equal bytes.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from fuzz.mutate.archive import mutate_archive
from fuzz.mutate.columns import mutate_columns, mutate_packed_columns
from fuzz.mutate.havoc import havoc
from fuzz.mutate.json_tree import mutate_json
from fuzz.mutate.lines import mutate_lines
from fuzz.mutate.packing import pack
from fuzz.mutate.records import mutate_records
from fuzz.mutate.sqlite import mutate_sqlite
from fuzz.mutate.table import mutate_table
from fuzz.mutate.wire import mutate_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    Mutator = Callable[[bytes, Random], bytes]

BY_SUFFIX: dict[str, Mutator] = {
    ".csv": mutate_table,
    ".json": mutate_json,
    ".jsonl": mutate_lines,
    ".pb": mutate_wire,
    ".sqlite": mutate_sqlite,
    ".stepwhy": mutate_archive,
    ".tfevents": mutate_records,
    ".txt": mutate_table,
}
"""What knows the structure of a file, by the end of its name."""

BY_NAME: dict[str, Mutator] = {
    "lines.json.gz": mutate_packed_columns,
    "semantic.json": mutate_columns,
}
"""What knows the structure of a file of this name."""

_STRUCTURED, _BYTES, _PACKED = 0.75, 0.15, 0.1


def mutate(name: str, data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """A damaged version of a file.

    Args:
        name: Its name, which tells its structure, or else its end does.
        data: Its bytes.
        others: Files of the same format, from which parts may be taken.
        random: Where chance comes from.
    """
    path = PurePath(name)
    by_structure = BY_NAME.get(path.name) or BY_SUFFIX.get(path.suffix, havoc)
    structured = random.random() < _STRUCTURED
    if structured:
        data = by_structure(data, random)
    if not structured or random.random() < _BYTES:
        data = havoc(data, random, others)
    return pack(data, random) if random.random() < _PACKED else data


__all__ = ["BY_NAME", "BY_SUFFIX", "Mutator", "mutate"]
