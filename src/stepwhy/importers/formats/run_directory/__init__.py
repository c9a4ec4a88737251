"""Run directories that `stepwhy run` wrote."""

from stepwhy.importers.format import Format

FORMAT = Format(signals=None, is_folder=True)

__all__ = ["FORMAT"]
