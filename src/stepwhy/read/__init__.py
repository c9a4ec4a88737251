"""Readers of trace formats, recognised by content, never by name.

In: paths and addresses (`inputs`). Out: a `Trace` per file, or a typed error that says what is
wrong. `formats` has a package for each format: `__init__` declares it (`format.Format`), `reader`
has

- ``recognise(source: Source) -> bool``: whether `source.head` looks like this format. Cheap,
  never raises.
- ``read(source: Source) -> Trace | None``: the trace; None when it is not this format after all.

`registry` finds these packages and chooses the reader of a file; `shared` has what several formats
need, `kernel_names` says what the kernels of vendors do. A bad record becomes a named health
counter. Imports: `trace` and `base`; formats never import each other.
"""
