"""Explains a run: reads its files, runs passes and diagnoses, and combines the results of ranks."""

from stepwhy.engine.explain import explain

__all__ = ["explain"]
