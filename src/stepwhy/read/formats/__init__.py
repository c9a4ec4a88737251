"""Trace formats, one package each; no format imports another."""
