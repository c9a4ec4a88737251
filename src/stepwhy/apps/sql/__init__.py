"""SQL queries about a run: the tables of its trace, and what stepwhy computes from them."""

from stepwhy.apps.sql.database import Answer, answer, open_database
from stepwhy.apps.sql.limits import Limits, limits_of
from stepwhy.apps.sql.tables import Described, RunTables, open_tables

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
