"""SQL queries about a run: the tables of its trace, and what stepwhy computes from them."""

from stepwhy.engine.sql.database import Answer, answer, open_database
from stepwhy.engine.sql.limits import Limits, limits_of
from stepwhy.engine.sql.tables import Described, RunTables, open_tables

__all__ = [
    "Answer",
    "Described",
    "Limits",
    "RunTables",
    "answer",
    "limits_of",
    "open_database",
    "open_tables",
]
