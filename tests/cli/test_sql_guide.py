"""The queries of the guide on SQL, on a small trace with an answer to each."""

import re
from pathlib import Path

import pytest

from stepwhy.apps.sql import answer
from stepwhy.apps.sql.database import database_of
from stepwhy.apps.sql.views import VIEWS
from tests.engine.test_sql import DRAWING, RANK, rows, tables_of

pytest.importorskip("duckdb")

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "how-to/query-with-sql.md").read_text()
QUESTIONS = re.findall(
    r"^## (\d+)\. [^\n]+\n\n```sql\n(.*?)```\n\n```text\n(.*?)```",
    (DOCS / "reference/sql-queries.md").read_text(),
    re.MULTILINE | re.DOTALL,
)
SYNCS = "main   sync   |      s         s         s   |  s=cudaDeviceSynchronize\n"
SYNCING = DRAWING.replace("main   launch", f"{SYNCS}main   launch")
EXCHANGES = "GPU:0  collective |{0}|  n=ncclAllReduce\narrows"


@pytest.fixture(scope="module")
def ranks():
    """Two ranks, the first of which waits longer in the exchange."""
    waits = ("nnn       nnn       nnn       ", " n         n         n        ")
    return tables_of(
        *(
            RANK.format(rank) + SYNCING.replace("arrows", EXCHANGES.format(waits[rank]))
            for rank in range(2)
        )
    )


@pytest.fixture(scope="module")
def tables():
    return tables_of(SYNCING)


def test_there_are_ten():
    assert [number for number, *_ in QUESTIONS] == [str(n) for n in range(1, 11)]


@pytest.mark.parametrize(("number", "query", "shown"), QUESTIONS, ids=[q[0] for q in QUESTIONS])
def test_a_query_of_the_guide_has_an_answer_with_the_columns_shown(tables, number, query, shown):
    found = answer(database_of(tables, query), query)
    assert list(found.columns) == shown.splitlines()[0].split()
    assert any(found.batches), f"question {number} has no answer"


EXPECTED = {
    1: [(1, 10.0, 1.0), (2, 10.0, 1.0), (3, 10.0, 1.0)],
    3: [("gemm", 1, 6.0, 60.0), ("Memcpy HtoD", 1, 1.0, 10.0)],
    4: [(3.0, "DataLoader.__next__"), (3.0, "DataLoader.__next__")],
    5: [("over 100 us", 3, 18.0)],
    6: [(1, 1, 1000.0, 1000.0), (2, 1, 1000.0, 1000.0), (3, 1, 1000.0, 1000.0)],
    7: [("cudaDeviceSynchronize", None, 3, 3.0, 1.0)],
    8: [("h2d", None, 3, 12.582912, 3.0, 4.19)],
}


@pytest.mark.parametrize("number", EXPECTED)
def test_answers(tables, number):
    assert sorted(rows(tables, QUESTIONS[number - 1][1])) == sorted(EXPECTED[number])


def test_the_rank_that_waits_least_is_first(ranks):
    assert rows(ranks, QUESTIONS[8][1]) == [(1, 30.0, 18.0, 3.0), (0, 30.0, 18.0, 9.0)]


def test_the_page_lists_the_columns_of_every_view():
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))
    names = {view: re.findall(r"`(\w+)`", text) for view, text in listed.items()}
    assert names == {view: list(columns) for view, columns in VIEWS.items()}
