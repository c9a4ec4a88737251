"""Readers of trace formats, recognised by content, never by name.

`formats` has a package for each format: `__init__` declares it (`format.Format`), `reader` has

- ``recognise(source: Source) -> bool``: whether `source.head` looks like this format. Cheap,
  never raises.
- ``read(source: Source) -> Trace | None``: the trace; None when it is not this format after all.

`registry` finds these packages and chooses the reader of a file; `shared` has what several formats
need. A bad record becomes a named health counter, an unreadable file a typed error from `errors`.
Formats see `shared`, `inputs` and `trace` only, and never each other.
"""
