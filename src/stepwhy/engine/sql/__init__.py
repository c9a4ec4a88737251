"""SQL queries about a run: the tables of its trace, and what stepwhy computes from them."""

from stepwhy.engine.sql.database import Answer, answer, open_database
from stepwhy.engine.sql.tables import Described, RunTables, open_tables

__all__ = ["Answer", "Described", "RunTables", "answer", "open_database", "open_tables"]
