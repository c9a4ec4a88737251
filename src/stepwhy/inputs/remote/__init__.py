"""Traces and run directories at addresses: listing them, and fetching private copies."""
