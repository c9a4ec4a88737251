"""Read traces from the paths and addresses that the user named.

`places.resolve` finds the files, `reading.read_source` opens and decompresses them, and
`foreign.refusal.refuse` explains why no importer can read a file.

Anything may be next to a trace or in a run directory: a pipe, a device, a link to a private file.
So `opening.open_input` opens all traces, `side_files.read_side_file` reads all other files, and no
other code opens them.
"""
