"""Diagnoses of memory: its use, its growth, and what making room costs."""
