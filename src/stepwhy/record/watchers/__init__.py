"""Observers of one thing each: garbage collections, disk syncs, checkpoints, iterators."""
