"""Traces and run directories at addresses: list them, and fetch private copies."""
