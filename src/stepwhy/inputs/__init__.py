"""From the paths and addresses that the user named to the bytes of traces.

`places.resolve` finds the files, `reading.read_source` opens and decompresses them, and
`foreign.refusal.refuse` explains what a file is that no importer reads.

Anything may lie beside a trace or in a run directory: a pipe, a device, a link to a private file.
So `opening.open_input` opens all traces, `side_files.read_side_file` reads all other files, and no
other code opens them.
"""
