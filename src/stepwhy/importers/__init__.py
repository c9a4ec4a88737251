"""Readers of trace formats: one small module each, recognised by content, never by name.

An importer is a module with two functions:

- ``recognise(head: bytes) -> bool``: whether the first `HEAD_BYTES` of the (decompressed) file
  look like this format. Cheap, never raises.
- ``read(data: bytes, origin: str) -> Trace | None``: the trace; None when it is not this format
  after all.

A bad record becomes a named health counter, an unreadable file a typed error from `errors`.
Importers see `trace` only and never each other.
"""
