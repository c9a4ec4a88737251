"""Batches: their sizes, the pipelines that prepare them, and the work that this takes."""
