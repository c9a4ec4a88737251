"""Databases with malicious pages, schemas or neighbouring files."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from contextlib import closing

import pytest

from stepwhy.base.errors import CorruptInputError
from stepwhy.read.formats.nsys import reader as nsys
from stepwhy.read.inputs.source import Source
from tests.inputs.hostile import KINDS, child, counters, explained
from tests.read.cuda_samples import Nsys

PAGE = 4096
STRINGS = 'CREATE TABLE "StringIds" (id INTEGER PRIMARY KEY, value TEXT)'
INTERIOR, LEAF = 5, 13
# SQLite follows at most 20 pages, and believes in at most a cell per 6 bytes.
DEPTH, MOST_CELLS = 17, (PAGE - 8) // 6

# Query of the importer for every table.
ASK = """
import json, sys
from contextlib import suppress
from pathlib import Path
from stepwhy.read.shared.database import open_database
from stepwhy.read.inputs.source import Source
path = Path(sys.argv[1])
with open_database(Source(path.read_bytes, "x", path)) as database:
    texts = len(database.read("StringIds", ["id"], ["value"], ["value"], only={"id": [-5]}))
    texts += len(database.texts("StringIds", "id", "value"))
    answer = [texts, database.count("StringIds"), sorted(database._damaged)]
print(json.dumps(answer))
"""


@pytest.fixture
def database(tmp_path):
    """A valid database with one step."""
    sample = Nsys().call("cudaLaunchKernel_v7000", 120, 125, 2).kernel("k", 130, 170, 2)
    return sample.write(tmp_path / "a.sqlite")


def root_of(path, table):
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
        return found.fetchone()[0]


def interior(child, start=0):
    """A page full of pointers to one other page."""
    count = MOST_CELLS
    header = struct.pack(">BHHHBI", INTERIOR, 0, count, PAGE - 5, 0, child)
    pointers = struct.pack(">H", PAGE - 5) * count
    cell = struct.pack(">IB", child, 1)
    return (header + pointers).ljust(PAGE - start - 5, b"\0") + cell


def pages_of(path):
    data = path.read_bytes()
    return [bytearray(data[i : i + PAGE]) for i in range(0, len(data), PAGE)]


def write(path, pages):
    pages[0][28:32] = len(pages).to_bytes(4, "big")
    path.write_bytes(b"".join(pages))


def many_paths_to(path, page):
    """Replace a page by a tree in which very many paths lead to its old content."""
    pages = pages_of(path)
    start = 100 if page == 1 else 0
    old = pages[page - 1]
    leaf = bytearray(PAGE)
    leaf[: PAGE - start] = old[start:]
    if start:  # cells stay where they are, counted from the beginning of the page
        cells = int.from_bytes(old[start + 3 : start + 5], "big")
        leaf = bytearray(old[start : start + 8 + 2 * cells].ljust(PAGE, b"\0"))
        content = int.from_bytes(old[start + 5 : start + 7], "big")
        leaf[content:] = old[content:]
    pages[page - 1] = old[:start] + interior(len(pages) + 1, start)
    for _ in range(DEPTH - 1):
        pages.append(bytearray(interior(len(pages) + 2)))
    pages.append(leaf)
    write(path, pages)


def ask(path):
    done = child("-c", ASK, path)
    assert done.returncode == 0, done.stderr.decode()[-1500:]
    return json.loads(done.stdout)


# --- Pages ---


def test_valid_database(database):
    texts, count, damaged = ask(database)
    assert (texts, count, damaged) == (3, 3, [])


def test_a_table_with_more_rows_than_the_file_can_hold(database):
    many_paths_to(database, root_of(database, "StringIds"))
    size = database.stat().st_size
    texts, count, damaged = ask(database)
    assert texts <= size
    assert (count, damaged) == (0, ["StringIds"])
    (answer,) = explained(database)
    assert "table-damaged" in counters(answer)


def test_endless_list_of_tables(database):
    many_paths_to(database, 1)
    done = child("-c", ASK, database)
    assert b"is a damaged SQLite database" in done.stderr


def test_text_in_very_many_rows(tmp_path):
    """One row of a megabyte, which the page of its table names as often as it can."""
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(STRINGS)
        connection.execute("INSERT INTO StringIds VALUES (1, ?)", ("x" * 1_000_000,))
    pages = pages_of(path)
    page = pages[root_of(path, "StringIds") - 1]
    (cell,) = struct.unpack(">H", page[8:10])
    count = min((cell - 8) // 2, MOST_CELLS)
    page[3:5] = count.to_bytes(2, "big")
    page[8 : 8 + 2 * count] = cell.to_bytes(2, "big") * count
    write(path, pages)
    assert count > 100
    texts, _, damaged = ask(path)
    assert (texts, damaged) == (0, ["StringIds"])


# --- Schema ---

VIEW = (
    "CREATE VIEW StringIds AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) "
    "SELECT x AS id, hex(zeroblob(100000000)) AS value FROM r"
)


@pytest.mark.parametrize(
    "statements",
    [
        (VIEW,),
        (STRINGS.replace("value TEXT", "value AS (hex(zeroblob(400000000)))"),
         "INSERT INTO StringIds (id) VALUES (1), (2), (3)"),
        ("CREATE TABLE t (id)", "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END",
         STRINGS, "INSERT INTO t VALUES (1)"),
    ],
    ids=["view", "computed column", "trigger"],
)  # fmt: skip
def test_sql_in_the_schema_is_not_executed(tmp_path, statements):
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    before = path.read_bytes()
    texts, _, damaged = ask(path)
    assert (texts <= 3, damaged) == (True, [])
    assert path.read_bytes() == before


def test_table_that_is_a_view_is_refused(database):
    """The schema declares the view as a table, as only an attacker would."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = ?, rootpage = 0 WHERE name = 'StringIds'", (VIEW,)
        )
    done = child("-c", ASK, database)
    assert done.returncode == 0 or b"is a damaged SQLite database" in done.stderr


def test_no_other_file_is_opened(database):
    source = Source(database.read_bytes, "x", database)
    with (
        nsys.open_database(source) as opened,
        pytest.raises(sqlite3.OperationalError, match=r"too many attached databases - max 0"),
    ):
        opened._connection.execute("ATTACH 'other.sqlite' AS other")


# --- Neighbours ---


@pytest.mark.parametrize("ending", ["-journal", "-wal"])
@pytest.mark.parametrize("kind", KINDS)
def test_journal_that_is_not_a_file(database, kind, ending):
    KINDS[kind](database.with_name(f"a.sqlite{ending}"))
    (answer,) = explained(database)
    assert answer["slug"] == "corrupt-input"
    assert f"a part of it is in a.sqlite{ending}" in answer["what"]


def test_empty_journal_is_ignored(database):
    database.with_name("a.sqlite-journal").touch()
    (answer,) = explained(database)
    assert answer["inputs"][0]["format"] == "nsys"


def test_journal_beside_the_target_of_a_link(database, tmp_path):
    (tmp_path / "linked").mkdir()
    link = tmp_path / "linked" / "b.sqlite"
    link.symlink_to(database)
    os.mkfifo(database.with_name("a.sqlite-journal"))
    (answer,) = explained(link)
    assert answer["slug"] == "corrupt-input"
    database.with_name("a.sqlite-journal").unlink()
    (answer,) = explained(link)
    assert answer["inputs"][0]["format"] == "nsys"


def test_reading_a_database_leaves_no_files(database):
    explained(database)
    assert list(database.parent.iterdir()) == [database]


def test_unreadable_database(database):
    pages = pages_of(database)
    pages[0][100:] = b"\xff" * (PAGE - 100)
    write(database, pages)
    source = Source(database.read_bytes, "x", database)
    with pytest.raises(CorruptInputError, match="damaged"), nsys.open_database(source):
        pass
