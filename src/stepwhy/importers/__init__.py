"""Readers of trace formats: one small module each, recognised by content, never by name.

An importer is a module with two functions:

- ``recognise(source: Source) -> bool``: whether `source.head` looks like this format. Cheap,
  never raises.
- ``read(source: Source) -> Trace | None``: the trace; None when it is not this format after all.

A bad record becomes a named health counter, an unreadable file a typed error from `errors`.
Importers see `trace` only and never each other.
"""
