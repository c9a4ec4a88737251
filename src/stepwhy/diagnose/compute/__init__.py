"""Diagnoses of operations that are computed more slowly than necessary."""
