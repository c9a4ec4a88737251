"""Run directories that `stepwhy run` wrote."""

from stepwhy.read.format import Format

FORMAT = Format(signals=None, is_folder=True)

__all__ = ["FORMAT"]
