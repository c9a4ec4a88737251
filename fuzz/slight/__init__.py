"""Harmless damage to whole files: what it must not change, and a command that checks it."""
